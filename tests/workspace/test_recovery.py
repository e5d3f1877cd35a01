"""kill -9 at every step of an apply: each file is before or after, and the next run says which (WS-15)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from paddock.fs import remove_tree
from paddock.workspace import state
from paddock.workspace.review import Review
from tests.workspace.worlds import World, make, tree, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

pytestmark = pytest.mark.box

FILES = {"top": "top\n", "gone": "gone\n", "was/file": "f\n", "dir/a": "a\n", "dir/b": "b\n", "mode": "m\n"}
# Calls that change something on disk; in between two of them the disk is the same.
_CHANGES = frozenset({
    "open", "write", "rename", "unlink", "rmdir", "mkdir", "symlink", "chmod", "fchmod", "fchown", "mknod",
    "removexattr", "fsync",
})  # fmt: skip
_OVER_CTYPES = frozenset({"_renameat2", "_syncfs"})


def act() -> None:
    write("top", "TOP\n")
    os.unlink("gone")
    write("new/in", "new\n")
    os.symlink("top", "link")
    os.chmod("mode", 0o700)
    os.unlink("was/file")
    write("was/file/now", "a directory\n")
    shutil.rmtree("dir")
    write("dir/c", "c\n")


def opened(world: World) -> Review:
    return Review(os.fspath(world.base), os.fspath(world.upper), os.fspath(world.state))


def prepared(root: Path) -> World:
    root.mkdir()
    world = make(root, FILES)
    state.await_tick()
    with opened(world) as review:
        review.opened()
    world.box(act)
    return world


def accept_all(review: Review) -> None:
    found = review.changes()
    plan = review.plan(accepted=[change.path for change in found.items], found=found)
    review.apply(plan)


def take_all_back(review: Review) -> None:
    """Undo until there is nothing left to undo: of an apply that was killed, what it did."""
    while review._runs.last() is not None:
        assert not [done for done in review.undo().done if done.error]


def killed_at(step: int, job: Callable[[], None]) -> bool:
    """Run a job in a child that is killed before its step-th change of the disk; False if it ended before that."""
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status)
    left = step

    def count(frame: FrameType, event: str, what: object) -> None:
        nonlocal left
        changes = event == "c_call" and getattr(what, "__name__", "") in _CHANGES
        changes = changes or (event in {"call", "return"} and frame.f_code.co_name in _OVER_CTYPES)
        left -= changes
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.setprofile(count)
        job()
        code = 0
    finally:
        sys.setprofile(None)
        os._exit(code)


# All steps take a minute; every seventh is enough to notice a step that is new and wrong.
EVERY = pytest.mark.parametrize("stride", [pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(600)]), 7])


def ours(world: World) -> list[str]:
    return [path for path in tree(world.base) if ".paddock" in path]


@EVERY
def test_an_apply_killed_at_any_step_leaves_each_file_before_or_after_and_says_which(
    tmp_path: Path, stride: int
) -> None:
    step, told = 0, set()
    while True:
        step += stride
        world = prepared(tmp_path / str(step))
        before, after = tree(world.base), world.view()

        def job(world: World = world) -> None:
            with opened(world) as review:
                accept_all(review)

        if not killed_at(step, job):
            break
        found = {path: text for path, text in tree(world.base).items() if ".paddock" not in path}
        for path in {*before, *after, *found}:
            assert found.get(path) in {before.get(path), after.get(path)}, (step, path)
        with opened(world) as review:
            results = review.recover()
            assert len(results) <= 1
            for result in results:
                assert result.interrupted
                told.add(len([done for done in result.done if not done.error]))
                for done in result.done:
                    side = before if done.error else after
                    assert done.error in {"", "interrupted before it was done"}
                    assert tree(world.base).get(done.path) == side.get(done.path), (step, done)
            assert ours(world) == []
            assert world.view() == after, step
            if step % 2:
                take_all_back(review)
                assert tree(world.base) == before, step
                assert world.view() == after, step
            accept_all(review)
        assert tree(world.base) == after, step
        assert os.listdir(world.upper) == []
        remove_tree(os.fspath(tmp_path / str(step)))  # the kernel leaves a closed directory in work/
    assert step > 80
    assert len(told) > 5  # the kills fell between the operations, not all before or after them


@EVERY
def test_an_undo_killed_at_any_step_is_finished_by_the_next(tmp_path: Path, stride: int) -> None:
    step = 0
    while True:
        step += stride
        world = prepared(tmp_path / str(step))
        before, after = tree(world.base), world.view()
        with opened(world) as review:
            accept_all(review)

        def job(world: World = world) -> None:
            with opened(world) as review:
                review.undo()

        if not killed_at(step, job):
            break
        found = {path: text for path, text in tree(world.base).items() if ".paddock" not in path}
        for path in {*before, *after, *found}:
            assert found.get(path) in {before.get(path), after.get(path)}, (step, path)
        with opened(world) as review:
            review.recover()
            assert ours(world) == []
            assert world.view() == after, step  # what is no longer on the host is the box's again
        remove_tree(os.fspath(tmp_path / str(step)))  # the kernel leaves a closed directory in work/
    assert step > 60


def test_an_edit_of_the_host_that_was_swapped_out_when_we_died_is_not_lost(tmp_path: Path) -> None:
    """The window between a swap and its check: the only copy of the host's edit has a name of ours."""
    world = prepared(tmp_path / "world")
    with opened(world) as review:
        run = review._runs.begin(review.plan(["top"]).operations)
        (world.base / run.temporary(0)).write_text("HOST\n", "utf-8")
        (world.base / "top").write_text("TOP\n", "utf-8")
        (result,) = review.recover()
    assert run.temporary(0) in result.done[0].error
    assert (world.base / run.temporary(0)).read_text("utf-8") == "HOST\n"


def test_an_edit_of_the_host_that_was_taken_out_when_we_died_is_put_back(tmp_path: Path) -> None:
    world = prepared(tmp_path / "world")
    with opened(world) as review:
        run = review._runs.begin(review.plan(["gone"]).operations)
        (world.base / "gone").rename(world.base / run.temporary(0))
        (world.base / run.temporary(0)).write_text("HOST\n", "utf-8")
        (result,) = review.recover()
    assert result.done[0].conflict
    assert (world.base / "gone").read_text("utf-8") == "HOST\n"
    assert ours(world) == []
