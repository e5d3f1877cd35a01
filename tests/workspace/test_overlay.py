"""What the kernel takes for hidden is what we take for hidden, and what we write it understands."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from paddock.workspace import overlay
from tests.workspace.worlds import write

if TYPE_CHECKING:
    from tests.workspace.worlds import World


def test_a_whiteout_of_the_kernel_is_known(world: World) -> None:
    world.box(lambda: os.unlink("top"))
    with world.open() as (upper, _):
        assert overlay.is_whiteout(upper, "top", os.stat("top", dir_fd=upper))


def test_an_empty_file_of_the_box_is_no_whiteout(world: World) -> None:
    world.box(lambda: write("top", ""))
    with world.open() as (upper, _):
        assert not overlay.is_whiteout(upper, "top", os.stat("top", dir_fd=upper))


def test_an_empty_file_with_the_mark_is_a_whiteout(world: World) -> None:
    (world.upper / "line\nbreak").touch()
    os.setxattr(world.upper / "line\nbreak", "user.overlay.whiteout", b"")
    with world.open() as (upper, _):
        assert overlay.is_whiteout(upper, "line\nbreak", os.stat("line\nbreak", dir_fd=upper))


def test_an_opaque_directory_is_known_and_can_be_lifted(world: World) -> None:
    world.box(lambda: (shutil.rmtree("old"), write("old/new", "new"))[1])  # type: ignore[func-returns-value]
    assert "old/x" not in world.view()
    fd = os.open(world.upper / "old", os.O_RDONLY)
    assert overlay.is_opaque(fd)
    overlay.lift(fd)
    overlay.lift(fd)
    assert not overlay.is_opaque(fd)
    os.close(fd)
    assert world.view()["old/x"] == "x\n"


def test_the_kernel_obeys_our_whiteouts(world: World) -> None:
    with world.open() as (upper, _):
        overlay.hide(upper, ["top", "notes.txt"])
        overlay.hide(upper, ["top"])
    assert not {"top", "notes.txt"} & set(world.view())


def test_marks_our_mounts_never_make_are_noticed(world: World) -> None:
    world.box(lambda: write("src/a.py", "x"))
    fd = os.open(world.upper / "src", os.O_RDONLY)
    assert not overlay.is_foreign(fd)
    os.setxattr(fd, "user.overlay.redirect", b"/elsewhere")
    assert overlay.is_foreign(fd)
    os.close(fd)
