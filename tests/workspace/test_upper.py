"""What the box sees after its upper was changed from outside is what the kernel shows."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace.entries import NOTHING, look
from paddock.workspace.upper import Home, Upper
from tests.workspace.worlds import World, tree, write

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def aside(tmp_path: object, world: World) -> Iterator[int]:
    (world.root / "aside").mkdir()
    fd = os.open(world.root / "aside", os.O_RDONLY)
    yield fd
    os.close(fd)


def replaced() -> None:
    shutil.rmtree("old")
    write("old/new", "new\n")
    write("old/more", "more\n")


def test_a_dropped_file_is_the_hosts_again_and_put_aside(world: World, aside: int) -> None:
    world.box(lambda: write("src/a.py", "box\n"))
    with world.open() as (upper, base):
        home = Home(path="src/a.py", origin=look(upper, "src/a.py"), name="0")
        Upper(upper, base).drop([home], aside)
        assert os.listdir(upper) == []
        Upper(upper, base).restore([home], aside)
    assert world.view()["src/a.py"] == "box\n"


def test_a_file_that_the_box_changed_again_stays(world: World, aside: int) -> None:
    world.box(lambda: write("top", "first\n"))
    with world.open() as (upper, base):
        home = Home(path="top", origin=look(upper, "top"), name="0")
        world.box(lambda: write("top", "second\n"))
        Upper(upper, base).drop([home], aside)
    assert world.view()["top"] == "second\n"


def test_dropping_one_entry_of_an_opaque_directory_shows_nothing_it_hid(world: World, aside: int) -> None:
    world.box(replaced)
    seen = world.view()
    (world.base / "old/new").write_text("new\n", "utf-8")
    with world.open() as (upper, base):
        Upper(upper, base).drop([Home(path="old/new", origin=look(upper, "old/new"), name="0")], aside)
    assert not (world.upper / "old/new").exists()
    assert world.view() == seen


def test_a_directory_that_the_box_closed_is_no_hindrance_and_stays_closed(world: World, aside: int) -> None:
    def act() -> None:
        replaced()
        os.chmod("old", 0o555)

    world.box(act)
    seen = world.view()
    (world.base / "old/new").write_text("new\n", "utf-8")
    with world.open() as (upper, base):
        Upper(upper, base).drop([Home(path="old/new", origin=look(upper, "old/new"), name="0")], aside)
    assert not (world.upper / "old/new").exists()
    assert world.view() == seen
    assert (world.upper / "old").stat().st_mode & 0o777 == 0o555


def test_a_whiteout_stays_while_the_host_has_the_file(world: World, aside: int) -> None:
    world.box(lambda: os.unlink("top"))
    with world.open() as (upper, base):
        home = Home(path="top", origin=NOTHING, name="0")
        Upper(upper, base).drop([home], aside)
        assert os.listdir(upper) == ["top"]
        (world.base / "top").unlink()
        Upper(upper, base).drop([home], aside)
        assert os.listdir(upper) == []


def test_a_restored_deletion_hides_the_file_again(world: World, aside: int) -> None:
    with world.open() as (upper, base):
        homes = [Home(path=path, origin=NOTHING, name="0") for path in ("old", "old/x", "src/deep/c.py")]
        Upper(upper, base).restore(homes, aside)
    view = world.view()
    assert not {"old", "old/x", "src/deep/c.py"} & set(view)
    assert "src/deep" in view


def test_what_is_restored_does_not_replace_what_the_box_made_since(world: World, aside: int) -> None:
    world.box(lambda: write("top", "first\n"))
    with world.open() as (upper, base):
        home = Home(path="top", origin=look(upper, "top"), name="0")
        Upper(upper, base).drop([home], aside)
        world.box(lambda: write("top", "second\n"))
        Upper(upper, base).restore([home], aside)
    assert world.view()["top"] == "second\n"


@pytest.mark.parametrize("path", ["old/y/z", "old/y", "old/x"])
def test_part_of_a_deleted_directory_is_discarded_alone(world: World, path: str) -> None:
    world.box(lambda: shutil.rmtree("old"))
    with world.open() as (upper, base):
        Upper(upper, base).discard([path])
    view, before = world.view(), tree(world.base)
    shown = {place for place in view if place.startswith("old/")}
    assert shown == {place for place in before if place.startswith("old/") and (place in path or path in place)}


def test_part_of_a_file_that_was_a_directory_cannot_be_discarded_alone(world: World) -> None:
    world.box(lambda: (shutil.rmtree("old"), write("old", "x"))[0])  # type: ignore[func-returns-value]
    with world.open() as (upper, base), pytest.raises(UserError, match="'old' is no directory"):
        Upper(upper, base).discard(["old/x"])


def test_discarding_what_the_box_did_not_touch_changes_nothing(world: World) -> None:
    world.box(lambda: write("src/a.py", "box\n"))
    seen = world.view()
    with world.open() as (upper, base):
        Upper(upper, base).discard(["top", "src/deep/c.py", "missing/x"])
    assert world.view() == seen


def test_a_discard_follows_no_link_of_the_box(world: World) -> None:
    (world.root / "outside").mkdir()
    (world.root / "outside/precious").touch()
    world.box(lambda: os.symlink(world.root / "outside", "link"))
    with world.open() as (upper, base):
        with pytest.raises(UserError):
            Upper(upper, base).discard(["link/precious"])
        Upper(upper, base).discard(["link"])
    assert (world.root / "outside/precious").exists()
    assert os.listdir(world.upper) == []


def test_odd_names_are_discarded(world: World) -> None:
    names = ["line\nbreak", "\udcff", "-rf", "*"]

    def act() -> None:
        for name in names:
            write(f"{name}/{name}", "x")

    world.box(act)
    with world.open() as (upper, base):
        Upper(upper, base).discard(names)
    assert os.listdir(world.upper) == []
