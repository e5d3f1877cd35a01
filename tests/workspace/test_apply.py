"""Apply in a tree that others turn over at the same time: FS-05, FS-16."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from paddock.fs import exchange
from paddock.workspace import changes
from paddock.workspace.apply import Execution
from paddock.workspace.entries import NOTHING, look_closely, read_file
from paddock.workspace.plan import Action, Operation
from paddock.workspace.runs import Outcome, Runs
from tests.workspace.worlds import World, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.box

PATIENCE_S = 30.0
ROUNDS = 150


@contextlib.contextmanager
def turning(directory: Path, one: str, other: str) -> Iterator[None]:
    """A process that swaps two names as fast as it can."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            at = os.open(directory, os.O_PATH)
            while True:
                exchange(at, one, at, other)
        os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def until(escaped: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if escaped():
            return True
    return False


def execute(world: World, operations: tuple[Operation, ...]) -> Outcome:
    run = Runs(os.fspath(world.state / "runs")).begin(operations)
    with world.open() as (upper, base), Execution(run, base, upper) as execution:
        return execution.execute()


def writing(world: World, path: str, text: str) -> Operation:
    """Write a file of the upper to the same path of the base, which has none."""
    (world.upper / path).parent.mkdir(parents=True, exist_ok=True)
    (world.upper / path).write_text(text, "utf-8")
    with world.open() as (upper, _):
        after = look_closely(upper, path)
    return Operation(action=Action.WRITE, path=path, before=NOTHING, after=after, source=path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_text("SECRET", "utf-8")
    return place


def test_a_directory_that_turns_into_a_link_leads_no_write_outside(world: World, outside: Path) -> None:
    (world.base / "trap").symlink_to(outside)
    operation = writing(world, "src/escaped", "x")

    def naive() -> bool:
        fresh = world.base / "src/.new"
        with contextlib.suppress(OSError):
            fresh.write_text("x", "utf-8")
            fresh.rename(world.base / "src/escaped")
        return (outside / "escaped").exists()

    with turning(world.base, "src", "trap"):
        assert until(naive), "the race was never won, so nothing is proven"
        (outside / "escaped").unlink()
        (outside / ".new").unlink(missing_ok=True)
        written = 0
        for _ in range(ROUNDS):
            written += [done.error for done in execute(world, (operation,)).done] == [""]
            for place in (world.base / "src/escaped", world.base / "trap/escaped"):
                if (outside / "escaped").exists():
                    break
                with contextlib.suppress(OSError):
                    os.unlink(place)
            assert sorted(os.listdir(outside)) == ["secret"]
    assert written, "nothing was ever written, so nothing is proven"


def test_a_directory_of_the_box_that_turns_into_a_link_shows_nothing_of_the_host(world: World, outside: Path) -> None:
    (world.upper / "dir").mkdir()
    (world.upper / "dir/secret").write_text("boring", "utf-8")
    (world.upper / "trap").symlink_to(outside)

    def naive() -> bool:
        with contextlib.suppress(OSError):
            return (world.upper / "dir/secret").read_text("utf-8") == "SECRET"
        return False

    with turning(world.upper, "dir", "trap"), world.open() as (upper, base):
        assert until(naive), "the race was never won, so nothing is proven"
        read = 0
        hidden = {(outside / "secret").stat().st_ino}
        for _ in range(ROUNDS):
            with contextlib.suppress(OSError):
                assert read_file(upper, "dir/secret", 100) == b"boring"
                read += 1
            for change in changes.read(upper, base).items:  # one of the two is a link at any moment
                assert change.new.inode not in hidden
            assert look_closely(upper, "dir/secret").digest in {"", _digest(b"boring")}
    assert read, "nothing was ever read, so nothing is proven"


def test_a_file_of_the_box_that_turns_into_a_fifo_holds_nobody_up(world: World) -> None:
    operation = writing(world, "new", "x")
    os.mkfifo(world.upper / "fifo")
    with turning(world.upper, "new", "fifo"):
        for _ in range(ROUNDS):
            execute(world, (operation,))
            (world.base / "new").unlink(missing_ok=True)


def test_a_file_that_others_save_all_the_time_loses_no_version(world: World) -> None:
    """Editors replace the file while we swap: whenever they do, theirs is what is there in the end."""
    place = world.base / "count"
    place.write_text("0", "utf-8")
    (world.upper / "count").write_text("BOX", "utf-8")
    outcomes = set()
    with world.open() as (upper, base):
        after = look_closely(upper, "count")
        usual_s = 0.005
        for number in range(1, 60):
            before = look_closely(base, "count")
            operation = Operation(action=Action.WRITE, path="count", before=before, after=after, source="count")
            pid = os.fork()
            if pid == 0:
                fresh = world.base / f"save{number}"
                fresh.write_text(str(number), "utf-8")
                time.sleep(usual_s * (number % 20) / 10)  # all moments of an apply, and some after it
                fresh.rename(place)
                os._exit(0)
            start = time.monotonic()
            outcomes.add(execute(world, (operation,)).done[0].conflict)
            usual_s = time.monotonic() - start
            os.waitpid(pid, 0)
            # Saved before our swap, it is a conflict and stays; saved after it, it replaces ours.
            assert place.read_text("utf-8") == str(number)
    assert outcomes == {True, False}, "the race always went one way, so nothing is proven"
    assert not [path for path in tree(world.base) if path.startswith(".paddock")]


def _digest(text: bytes) -> str:
    import hashlib

    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda base: (base / "dir").symlink_to("/etc"), "not one on the host"),
        (lambda base: (base / "dir").write_text("x", "utf-8"), "not one on the host"),
        (lambda base: None, "not on the host"),
    ],
)
def test_a_place_without_its_directory_is_a_conflict(world: World, make: Callable[[Path], None], said: str) -> None:
    operation = writing(world, "dir/file", "x")
    make(world.base)
    (done,) = execute(world, (operation,)).done
    assert done.conflict
    assert said in done.error


def test_one_operation_that_fails_does_not_keep_the_others(world: World) -> None:
    operations = tuple(writing(world, path, "x") for path in ("a", "top", "z"))
    outcome = execute(world, operations)
    assert [(done.path, done.conflict) for done in outcome.done] == [("a", False), ("top", True), ("z", False)]
    assert tree(world.base)["top"] == "top\n"


def test_many_operations_come_home_in_batches(world: World) -> None:
    operations = tuple(writing(world, f"many{number}", str(number)) for number in range(300))
    before = len(os.listdir("/proc/self/fd"))
    outcome = execute(world, operations)
    assert not [done for done in outcome.done if done.error]
    assert tree(world.base)["many299"] == "299"
    assert len(os.listdir("/proc/self/fd")) == before


def test_new_files_have_the_permissions_of_the_box_whatever_the_umask(world: World) -> None:
    operation = writing(world, "new", "x")
    old = os.umask(0o077)
    try:
        execute(world, (operation,))
    finally:
        os.umask(old)
    assert (world.base / "new").stat().st_mode & 0o7777 == operation.after.mode
