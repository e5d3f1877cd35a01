"""What a process of the box writes to a file while that comes home is not lost."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import state
from paddock.workspace.review import Review
from tests.workspace.worlds import World, tree, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def review(world: World) -> Iterator[Review]:
    with Review(os.fspath(world.base), os.fspath(world.upper), os.fspath(world.state)) as review:
        state.await_tick()
        review.opened()
        yield review


@contextlib.contextmanager
def running(
    world: World, hold: Callable[[], object], go_on: Callable[[object], object]
) -> Iterator[Callable[[], None]]:
    """A box whose process has something in its hands; calling what is given has it go on, to its end."""
    ready, is_ready = os.pipe()
    wait, go = os.pipe()

    def act() -> None:
        held = hold()
        os.write(is_ready, b"x")
        os.read(wait, 1)
        go_on(held)

    box = os.fork()  # not a thread: a clone beside other threads can be left without the interpreter's lock
    if box == 0:
        try:
            world.box(act)
            os._exit(0)
        finally:
            os._exit(1)
    os.read(ready, 1)
    ended: list[int] = []

    def finish() -> None:
        if not ended:
            os.write(go, b"x")
            ended.append(os.waitstatus_to_exitcode(os.waitpid(box, 0)[1]))
            assert ended == [0]

    try:
        yield finish
    finally:
        finish()
        for fd in (ready, is_ready, wait, go):
            os.close(fd)


def append(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("LATE\n")


def opened(path: str) -> int:
    write(path, "BOX\n")
    return os.open(path, os.O_WRONLY | os.O_APPEND)


def named(path: str) -> int:
    """A descriptor that is only a path: it opens nothing, and no lease knows of it."""
    write(path, "BOX\n")
    return os.open(path, os.O_PATH)


def lately(held: object) -> None:
    assert isinstance(held, int)
    os.write(held, b"LATE\n")


def by_name(_held: object) -> None:
    append("src/a.py")


@pytest.mark.parametrize(("hold", "go_on"), [(opened, lately), (opened, by_name), (named, by_name)])
def test_what_a_process_writes_to_a_file_that_came_home_is_still_in_the_box(
    world: World, review: Review, hold: Callable[[str], int], go_on: Callable[[object], None]
) -> None:
    with running(world, lambda: hold("src/a.py"), go_on) as finish:
        result = review.apply(review.plan())
        assert [done.error for done in result.done] == [""]
        assert tree(world.base)["src/a.py"] == "BOX\n"
        review.look_back()
        finish()
    told = review.look_back()
    assert world.view()["src/a.py"] == "BOX\nLATE\n"
    assert [change.path for change in review.changes().items] == ["src/a.py"]
    assert [done.path for done in told] == ([] if hold is opened else ["src/a.py"]), "what was moved back is told"
    assert review.look_back() == (), "once"
    result = review.apply(review.plan())
    assert [done.error for done in result.done] == [""], "and the next apply has no conflict"
    assert tree(world.base)["src/a.py"] == "BOX\nLATE\n"


def test_a_file_that_is_only_read_meanwhile_stays_until_it_is_not(world: World, review: Review) -> None:
    def reading() -> int:
        write("top", "BOX\n")
        return os.open("top", os.O_RDONLY)

    with running(world, reading, lambda _: None) as finish:
        review.apply(review.plan())
        assert review.changes().items == ()
        assert os.listdir(world.upper) == ["top"], "its name leads to it as long as it is open"
        finish()
    assert review.look_back() == ()
    assert os.listdir(world.upper) == []
    assert world.view()["top"] == "BOX\n"


def test_a_version_whose_place_is_taken_is_kept_and_named(world: World, review: Review) -> None:
    with running(world, lambda: named("src/a.py"), by_name) as finish:
        review.apply(review.plan())
        write(os.fspath(world.upper / "src/a.py"), "another\n")
        finish()
    (told,) = review.look_back()
    kept = told.error.rpartition(" ")[2]
    with open(kept, encoding="utf-8") as file:
        assert file.read() == "BOX\nLATE\n"
    assert world.view()["src/a.py"] == "another\n"


def test_nothing_is_looked_for_after_the_next_start(world: World, review: Review) -> None:
    with running(world, lambda: named("src/a.py"), by_name) as finish:
        review.apply(review.plan())
        finish()
    review.opened()
    assert world.view()["src/a.py"] == "BOX\nLATE\n", "the start itself looks a last time"
    assert review._runs.open() == []


def test_an_undone_apply_stays_undone(world: World, review: Review) -> None:
    world.box(lambda: write("top", "BOX\n"))
    review.apply(review.plan())
    review.undo()
    assert review.look_back() == ()
    assert tree(world.base)["top"] == "top\n"
    assert world.view()["top"] == "BOX\n"


def test_a_merge_is_no_late_write(world: World, review: Review) -> None:
    world.box(lambda: write("notes.txt", "one\ntwo\nTHREE\n"))
    (world.base / "notes.txt").write_text("ONE\ntwo\nthree\n", "utf-8")
    merged = review.merged("notes.txt", b"one\ntwo\nthree\n")
    assert merged is not None
    review.apply_merged("notes.txt", merged)
    assert review.look_back() == ()
    assert world.view()["notes.txt"] == "ONE\ntwo\nTHREE\n"
