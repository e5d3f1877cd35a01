"""The one runner of git: told where everything is, deaf to everybody's configuration, bounded in time and output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.workspace import git as hardened
from paddock.workspace.git import Place
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(git_dir=os.fspath(make_repository(tmp_path / "work") / ".git"))


def test_it_answers_for_the_repository_it_was_pointed_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert hardened.output(["rev-list", "--count", "main"], place) == b"2\n"


def test_the_callers_environment_does_not_reach_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {mark}")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'alias.x'='!touch {mark}'")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    (tmp_path / "git").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "git").chmod(0o755)
    hardened.output(["diff", "--no-ext-diff", "main~1", "main"], place)
    hardened.hardened(["diff", "main~1", "main"], place)
    assert hardened.hardened(["x"], place).code
    assert not mark.exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.hookspath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("protocol.allow", "never"),
        ("gc.auto", "0"),
        ("fetch.fsckobjects", "true"),
        ("submodule.recurse", "false"),
        ("credential.helper", ""),
    ],
)
def test_our_settings_win_over_the_repositorys(place: Place, key: str, value: str) -> None:
    with open(f"{place.git_dir}/config", "a", encoding="utf-8") as file:
        section, name = key.split(".")
        file.write(f"[{section}]\n\t{name} = other\n")
    assert hardened.output(["config", key], place).decode().strip() == value


@pytest.mark.parametrize("url", ["https://127.0.0.1:9/x", "ssh://127.0.0.1/x", "git://127.0.0.1/x", "ext::true"])
def test_no_transport_but_files(place: Place, url: str) -> None:
    done = hardened.hardened(["ls-remote", url], place)
    assert done.code
    assert b"not allowed" in done.stderr


def test_one_allocation_is_bounded(place: Place) -> None:
    """A pack of 30 bytes that claims an object of an exabyte."""
    head = b"PACK\0\0\0\2\0\0\0\1"
    huge = bytes([0xB0 | 0x0F, *[0xFF] * 6, 0x7F])  # a blob, its size in seven more bits each
    done = hardened.hardened(["unpack-objects", "-n"], place, stdin=head + huge + b"x" * 50)
    assert done.code


def test_a_run_that_hangs_is_ended(place: Place) -> None:
    with pytest.raises(Unavailable, match="took over"):
        hardened.hardened(["-c", "alias.slow=!sleep 60", "slow"], place, timeout_s=0.2)


def test_too_much_output_is_an_error_and_not_a_part_of_it(place: Place) -> None:
    with pytest.raises(Unavailable, match="printed over"):
        hardened.output(["log"], place, output_bytes_max=10)


def test_a_failure_says_what_git_said_on_one_harmless_line(place: Place) -> None:
    with pytest.raises(Unavailable, match=r"git cat-file failed: .*bad") as refused:
        hardened.output(["cat-file", "-e", "bad\x1b[2J\nname"], place)
    assert "\x1b" not in refused.value.message


@pytest.mark.parametrize("name", ["plain", "with space", "with:colon", 'with"quote', "with\\slash"])
def test_borrowed_objects_are_found_under_any_name(tmp_path: Path, name: str) -> None:
    origin = make_repository(tmp_path / name)
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    tip = git(origin, "rev-parse", "main").strip()
    empty = f"{tmp_path}/empty/.git"
    assert hardened.hardened(["cat-file", "-e", tip], Place(git_dir=empty)).code
    hardened.output(["cat-file", "-e", tip], Place(git_dir=empty, borrowed=(f"{origin}/.git/objects",)))


def test_a_setting_is_read_as_the_user_has_it(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text('[user]\n\tname = A "quoted" name\n')
    assert hardened.configured(os.fspath(tmp_path), "", "user")["user.name"] == "A quoted name"
    assert hardened.configured(os.fspath(tmp_path), "", "nosuch") == {}
