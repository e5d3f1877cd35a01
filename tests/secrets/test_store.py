"""Secrets are kept whole or not at all, in the keyring or in files of one's own, and nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import SECRET_CACHE_S
from paddock.secrets import sources
from paddock.secrets import store as store_module
from paddock.secrets.binding import Words, bind
from paddock.secrets.keyring import Keyring
from paddock.secrets.record import Backend, Source
from paddock.secrets.store import Store, opened
from paddock.secrets.value import Secret
from tests.secrets.standin import Desktop

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "sk-real-0123456789"
GITHUB = bind("github", Words())
SHOP = bind("shop", Words(hosts=["api.shop.example"]))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "state" / "secrets"


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path / "desktop")


def without_keyring(place: Path) -> Store:
    return Store(str(place), Keyring(str(place), {}))


def files(place: Path) -> list[str]:
    return sorted(file.name for file in place.iterdir() if file.name != "lock")


# -- values of our own -------------------------------------------------------------------------------------------------


def test_without_a_keyring_a_value_is_in_a_file_that_only_its_owner_can_read(place: Path) -> None:
    record = without_keyring(place).put(GITHUB, Secret(TEXT))
    assert record.source.backend is Backend.FILE
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}
    assert without_keyring(place).resolve("github", {}).reveal() == TEXT


def test_with_a_keyring_nothing_of_the_value_is_on_the_disk(place: Path, desktop: Desktop) -> None:
    store = Store(str(place), desktop.keyring())
    assert store.put(GITHUB, Secret(TEXT)).source.backend is Backend.KEYRING
    assert desktop.items() == [TEXT]
    assert not any(TEXT.encode() in file.read_bytes() for file in place.rglob("*"))
    assert store.resolve("github", {}).reveal() == TEXT


def test_the_record_has_the_binding_and_never_the_value(place: Path) -> None:
    store = without_keyring(place)
    store.put(GITHUB, Secret(TEXT))
    assert store.record("github").binding == GITHUB
    assert TEXT not in (place / "github.json").read_text()


def test_setting_it_again_replaces_the_value_and_leaves_nothing_of_the_old(place: Path, desktop: Desktop) -> None:
    for store, left in ((without_keyring(place), None), (Store(str(place), desktop.keyring()), desktop)):
        first = store.put(GITHUB, Secret(TEXT))
        second = store.put(GITHUB, Secret("another-value"))
        assert store.resolve("github", {}).reveal() == "another-value"
        assert second.created == first.created
        assert second.source != first.source
        everywhere = b"".join(file.read_bytes() for file in place.iterdir()).decode() + str(left and left.items())
        assert TEXT not in everywhere


def test_a_value_moves_from_the_file_to_the_keyring_when_there_is_one(place: Path, desktop: Desktop) -> None:
    without_keyring(place).put(GITHUB, Secret(TEXT))
    Store(str(place), desktop.keyring()).put(GITHUB, Secret(TEXT))
    assert files(place) == ["github.json"]


def test_removing_it_leaves_nothing(place: Path, desktop: Desktop) -> None:
    for store in (without_keyring(place), Store(str(place), desktop.keyring())):
        store.put(GITHUB, Secret(TEXT))
        assert store.remove("github")
        assert files(place) == desktop.items() == store.names() == []
        with pytest.raises(UserError, match="there is no secret 'github'"):
            store.resolve("github", {})


def test_a_keyring_that_does_not_answer_is_told_of(place: Path, desktop: Desktop) -> None:
    store = Store(str(place), desktop.keyring())
    store.put(GITHUB, Secret(TEXT))
    desktop.lock()
    with pytest.raises(Unavailable, match="no value for the secret 'github': the keyring"):
        store.resolve("github", {})
    assert not store.remove("github")


# -- crashes and damage ------------------------------------------------------------------------------------------------


def test_a_new_value_is_never_paired_with_the_old_binding(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is written first: dying before the record is must leave the old value with the old binding."""
    store = without_keyring(place)
    store.put(SHOP, Secret(TEXT))
    moved = bind("shop", Words(hosts=["other.example"]))
    write = fs.write_atomic

    def die_at_the_record(path: str, data: bytes) -> None:
        if path.endswith(".json"):
            raise KeyboardInterrupt
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(fs, "write_atomic", die_at_the_record)
        with pytest.raises(KeyboardInterrupt):
            store.put(moved, Secret("another-value"))
    assert store.record("shop").binding == SHOP
    assert store.resolve("shop", {}).reveal() == TEXT
    assert len(files(place)) == 3
    store.put(moved, Secret("a-third-value"))
    assert len(files(place)) == 2  # what was left behind is gone


def test_a_record_that_cannot_be_written_leaves_no_value_in_the_keyring(
    place: Path, desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, data: bytes) -> None:
        raise Unavailable("no space")

    store = Store(str(place), desktop.keyring())
    monkeypatch.setattr(fs, "write_atomic", full)
    with pytest.raises(Unavailable):
        store.put(GITHUB, Secret(TEXT))
    assert desktop.items() == []


def test_a_damaged_record_harms_no_other_and_can_be_removed(place: Path) -> None:
    store = without_keyring(place)
    store.put(GITHUB, Secret(TEXT))
    store.put(SHOP, Secret("another-value"))
    (place / "github.json").write_text("{")
    with pytest.raises(Unavailable, match="damaged"):
        store.resolve("github", {})
    store.put(SHOP, Secret("a-third-value"))
    assert store.resolve("shop", {}).reveal() == "a-third-value"
    assert not store.remove("github")
    assert store.names() == ["shop"]


@pytest.mark.parametrize("spoil", ["mode", "link", "gone", "content"])
def test_a_value_file_that_is_not_ones_own_any_more_is_not_used(place: Path, tmp_path: Path, spoil: str) -> None:
    store = without_keyring(place)
    store.put(GITHUB, Secret(TEXT))
    [file] = place.glob("*.value")
    match spoil:
        case "mode":
            file.chmod(0o644)
        case "link":
            file.rename(tmp_path / "moved")
            file.symlink_to(tmp_path / "moved")
        case "gone":
            file.unlink()
        case _:
            file.write_text("two\nlines of it")
    with pytest.raises(Unavailable, match="no value for the secret 'github'") as caught:
        store.resolve("github", {})
    assert TEXT not in str(caught.value)


def test_a_directory_that_others_can_write_to_is_refused(place: Path) -> None:
    without_keyring(place).put(GITHUB, Secret(TEXT))
    place.chmod(0o777)
    with pytest.raises(PaddockError, match="others could write"):
        without_keyring(place).put(GITHUB, Secret(TEXT))


def test_files_that_are_no_records_are_no_secrets(place: Path) -> None:
    store = without_keyring(place)
    assert store.names() == []
    store.put(GITHUB, Secret(TEXT))
    for name in ("Upper.json", ".hidden.json", "a b.json", "note.txt"):
        (place / name).touch()
    assert store.names() == ["github"]


def test_there_are_only_so_many(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SECRETS_MAX", 1)
    store = without_keyring(place)
    store.put(GITHUB, Secret(TEXT))
    store.put(GITHUB, Secret(TEXT))
    with pytest.raises(UserError, match="there are 1 secrets"):
        store.put(SHOP, Secret(TEXT))


# -- values from elsewhere ---------------------------------------------------------------------------------------------


def test_a_value_from_elsewhere_is_not_kept(place: Path) -> None:
    store = opened(str(place), {})
    store.put(GITHUB, sources.from_env("MY_KEY"))
    assert files(place) == ["github.json"]
    assert store.resolve("github", {"MY_KEY": TEXT}).reveal() == TEXT
    assert store.resolve("github", {"MY_KEY": f"{TEXT}2"}).reveal() == f"{TEXT}2"
    with pytest.raises(Unavailable, match="MY_KEY is not set"):
        store.resolve("github", {})


def test_a_command_runs_once_in_a_while_and_at_once_when_it_changed(place: Path, tmp_path: Path) -> None:
    now = [100.0]
    store = Store(str(place), Keyring(str(place), {}), lambda: now[0])
    environ = {"PATH": os.defpath}

    def command(word: str) -> Source:
        return sources.from_command(f"sh -c 'echo >> {tmp_path}/runs; echo value-{word}-of-it'", environ)

    store.put(GITHUB, command("first"))
    values = []
    for passed_s in (0.0, SECRET_CACHE_S - 1, 1.0):
        now[0] += passed_s
        values.append(store.resolve("github", environ).reveal())
    assert values == ["value-first-of-it"] * 3
    assert (tmp_path / "runs").read_text() == "\n\n"
    store.put(GITHUB, command("second"))
    assert store.resolve("github", environ).reveal() == "value-second-of-it"
