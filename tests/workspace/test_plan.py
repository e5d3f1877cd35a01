"""The plan of an apply: what it says is what is done, in an order that can stop anywhere."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import changes, state
from paddock.workspace.danger import Danger
from paddock.workspace.plan import Plan, Planner, Why
from tests.workspace.worlds import World, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def plan(
    world: World,
    act: Callable[[], None],
    *,
    accepted: tuple[str, ...] = (),
    paths: tuple[str, ...] = ("",),
    meanwhile: Callable[[], object] = lambda: None,
) -> Plan:
    """What would come home of what `act` does; `meanwhile` the host does something."""
    state.await_tick()
    with world.open() as (upper, base):
        state.begin(os.fspath(world.state), upper, base)
        world.box(act)
        found = changes.read(upper, base)
        meanwhile()
        planner = Planner(
            upper,
            base,
            state.load(os.fspath(world.state)),
            state.now(base),
            dangers={"danger": (Danger(kind="build", why="it is run"),)},
            accepted=accepted,
        )
        return planner.plan(found, found.below(paths))


def file_to_directory() -> None:
    os.unlink("top")
    write("top/in", "x")


def directory_to_file() -> None:
    shutil.rmtree("old")
    write("old", "x")


def closed_directory() -> None:
    write("closed/in", "x")
    os.chmod("closed", 0o555)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda: None, []),
        (lambda: write("top", "TOP\n"), ["write top (4 bytes, mode 0644)"]),
        (lambda: os.unlink("top"), ["remove top"]),
        (lambda: os.chmod("top", 0o700), ["chmod 0700 top"]),
        (lambda: os.symlink("top", "link"), ["link link -> top"]),
        (lambda: write("a/b", "x"), ["mkdir a", "write a/b (1 bytes, mode 0644)"]),
        (lambda: shutil.rmtree("old"), ["remove old/y/z", "remove old/x", "rmdir old/y", "rmdir old"]),
        (lambda: os.rename("notes.txt", "moved"), ["write moved (14 bytes, mode 0644)", "remove notes.txt"]),
        (file_to_directory, ["mkdir top", "write top/in (1 bytes, mode 0644)"]),
        (directory_to_file,
         ["remove old/y/z", "remove old/x", "rmdir old/y", "write old (1 bytes, mode 0644)"]),
        (closed_directory, ["mkdir closed", "write closed/in (1 bytes, mode 0644)", "chmod 0555 closed"]),
    ],
)  # fmt: skip
def test_a_plan_can_be_read(world: World, act: Callable[[], None], expected: list[str]) -> None:
    assert [str(operation) for operation in plan(world, act).operations] == expected


def test_a_plan_knows_both_sides_by_digest(world: World) -> None:
    (operation,) = plan(world, lambda: write("top", "TOP\n")).operations
    assert len({operation.before.digest, operation.after.digest, ""}) == 3


def test_a_danger_is_withheld_until_it_is_accepted(world: World) -> None:
    act = lambda: write("danger", "x")  # noqa: E731
    (held,) = plan(world, act).withheld
    assert (held.why, held.reason) == (Why.DANGER, "build: it is run")
    assert [operation.path for operation in plan(world, act, accepted=("danger",)).operations] == ["danger"]


@pytest.mark.parametrize(
    "act", [lambda: write("top", "BOX\n"), lambda: os.unlink("top"), lambda: os.chmod("top", 0o700)]
)
@pytest.mark.parametrize("meanwhile", [lambda path: path.write_text("HOST\n"), lambda path: path.unlink()])
def test_what_the_host_does_after_the_first_look_is_a_conflict(
    world: World, act: Callable[[], None], meanwhile: Callable[[Path], object]
) -> None:
    """Another apply, say: its content must not be taken for what the box started from."""
    assert len(plan(world, act).operations) == 1, "the oracle: without it nothing is in the way"
    found = plan(world, lambda: None, meanwhile=lambda: meanwhile(world.base / "top"))
    assert [(held.path, held.why) for held in found.withheld] == [("top", Why.CONFLICT)]
    assert found.operations == ()


def test_a_fifo_of_the_host_is_not_replaced(world: World) -> None:
    os.mkfifo(world.base / "fifo")
    found = plan(world, lambda: os.unlink("fifo"))
    assert [held.why for held in found.withheld] == [Why.REFUSED]
    assert found.operations == ()


def test_a_set_id_bit_of_the_host_does_not_survive_new_content(world: World) -> None:
    (world.base / "top").chmod(0o4755)
    (operation,) = plan(world, lambda: write("top", "x")).operations
    assert operation.after.mode == 0o755


def test_added_directories_come_with_what_is_chosen_in_them(world: World) -> None:
    found = plan(world, lambda: write("a/b/c", "x"), paths=("a/b/c",))
    assert [operation.path for operation in found.operations] == ["a", "a/b", "a/b/c"]
