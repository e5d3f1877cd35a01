"""An apply on a disk that is full: nothing is lost, and what did not come home is named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from paddock.errors import Unavailable
from paddock.workspace import state
from paddock.workspace.review import Review
from tests.support.namespaces import inside, private_mounts
from tests.workspace.worlds import World, tree, write

if TYPE_CHECKING:
    from collections.abc import Callable


def writing(names: list[str], text: str) -> Callable[[], None]:
    def act() -> None:
        for name in names:
            write(name, text)

    return act


def test_a_full_disk_leaves_each_file_before_or_after_and_says_which(world: World) -> None:
    """The workspace's disk: what does not fit stays as it was, and in the box, until there is room."""
    names = [f"file-{number}" for number in range(8)]
    large = "large\n" * 5000

    def act() -> None:
        private_mounts()
        kernel.mount("tmpfs", os.fspath(world.base), "tmpfs", 0, "size=128k")
        for name in names:
            write(os.fspath(world.base / name), "before\n")
        state.await_tick()
        with Review(os.fspath(world.base), os.fspath(world.upper), os.fspath(world.state)) as review:
            review.opened()
            world.box(writing(names, large))
            (world.base / "ballast").write_bytes(bytes(20_000))
            plan = review.plan()
            result = review.apply(plan)
            failed = {done.path: done.error for done in result.done if done.error}
            assert 0 < len(failed) < len(names), failed
            assert set(failed.values()) == {"no space left on device"}
            found = tree(world.base)
            assert found.keys() == {*names, "ballast"}, "nothing of ours is left"
            for name in names:
                assert found[name] == ("before\n" if name in failed else large)
            assert {change.path for change in review.changes().items} == set(failed), "what did not fit is in the box"
            (world.base / "ballast").unlink()
            for name in set(names) - set(failed):
                (world.base / name).unlink()  # room for the rest
            assert not [done for done in review.apply(review.plan(sorted(failed)[:1])).done if done.error]

    inside(act)


@pytest.mark.parametrize("room", ["8k", "24k", "48k"])
def test_no_room_for_what_is_replaced_replaces_nothing(world: World, room: str) -> None:
    """The state's disk: without a copy of the old nothing new comes; what comes is on record."""
    names = [f"file-{number}" for number in range(4)]
    old = "old\n" * 3000

    def act() -> None:
        private_mounts()
        kernel.mount("tmpfs", os.fspath(world.state), "tmpfs", 0, f"size={room},mode=700")
        for name in names:
            write(os.fspath(world.base / name), old)
        state.await_tick()
        with Review(os.fspath(world.base), os.fspath(world.upper), os.fspath(world.state)) as review:
            review.opened()
            world.box(writing(names, "new\n"))
            told = ""
            try:
                result = review.apply(review.plan())
                told = " ".join(done.error for done in result.done)
            except Unavailable as error:
                told = error.message.lower()
            assert "no space left on device" in told
            kernel.mount("none", os.fspath(world.state), None, kernel.MS_REMOUNT, "size=1m")
            review.recover()
            left = {change.path for change in review.changes().items}
            found = tree(world.base)
            assert {name for name in names if found[name] == old} == left
            assert {name for name in names if found[name] == "new\n"} == set(names) - left
            assert not [name for name in found if ".paddock" in name]
            assert not [done for done in review.apply(review.plan()).done if done.error]

    inside(act)
