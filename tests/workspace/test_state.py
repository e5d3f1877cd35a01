"""Whether the workspace is what the box started from; when in doubt it is not."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.fs import remove_tree
from paddock.workspace import state
from paddock.workspace.entries import NOTHING, Entry, Seen, look
from tests.workspace.worlds import World, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def fds(world: World) -> Iterator[tuple[int, int]]:
    state.await_tick()
    with world.open() as fds:
        yield fds


def doubt(world: World, fds: tuple[int, int], path: str) -> str:
    return state.load(os.fspath(world.state)).doubt(path, look(fds[1], path), state.now(fds[1]))


def begin(world: World, fds: tuple[int, int]) -> None:
    state.begin(os.fspath(world.state), *fds)


def test_what_the_host_leaves_alone_is_what_the_box_started_from(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    assert doubt(world, fds, "top") == ""


@pytest.mark.parametrize(
    "edit",
    [
        lambda path: path.write_text("x", "utf-8"),
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, (1, 1)),
        lambda path: os.link(path, path.with_name("other")),
        lambda path: path.with_name("notes.txt").rename(path),
    ],
)
def test_whatever_the_host_does_to_a_file_leaves_a_doubt(
    world: World, fds: tuple[int, int], edit: Callable[[Path], None]
) -> None:
    begin(world, fds)
    edit(world.base / "top")
    assert doubt(world, fds, "top") == "it changed on the host since the box was opened"


def test_a_file_is_what_it_was_at_the_last_mount(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    (world.base / "top").write_text("x", "utf-8")
    state.await_tick()
    begin(world, fds)
    assert doubt(world, fds, "top") == ""


def emptied(path: str) -> None:
    remove_tree(path)
    os.mkdir(path)


def linked(path: str) -> None:
    remove_tree(path)
    os.symlink("elsewhere", path)


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (lambda: write("top", "box"), "top"),
        (lambda: os.unlink("top"), "top"),
        (lambda: shutil.rmtree("old"), "old/y/z"),
        (lambda: emptied("old"), "old/x"),
        (lambda: emptied("top"), "top"),
        (lambda: linked("src"), "src/a.py"),
    ],
)
def test_what_the_box_changed_belongs_to_the_mount_it_changed_it_in(
    world: World, fds: tuple[int, int], act: Callable[[], None], path: str
) -> None:
    begin(world, fds)
    world.box(act)
    (world.base / path).write_text("x", "utf-8")
    state.await_tick()
    for _ in range(3):
        begin(world, fds)
        assert doubt(world, fds, path)
        assert doubt(world, fds, "notes.txt") == ""


def test_without_a_record_all_that_is_there_is_in_doubt(world: World, fds: tuple[int, int]) -> None:
    world.box(lambda: write("top", "box"))
    assert doubt(world, fds, "top") == "it is not known when the box was opened"
    begin(world, fds)
    assert doubt(world, fds, "top")
    assert doubt(world, fds, "notes.txt") == ""


def test_a_record_cut_off_by_a_crash_is_no_record(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    place = world.state / "history.json"
    place.write_bytes(place.read_bytes()[:-5])
    assert doubt(world, fds, "top") == "it is not known when the box was opened"


@pytest.mark.parametrize("old", [NOTHING, Seen(entry=Entry.DIR)])
def test_names_and_directories_are_compared_when_they_are_taken(world: World, fds: tuple[int, int], old: Seen) -> None:
    assert state.load(os.fspath(world.state)).doubt("x", old, state.now(fds[1])) == ""


def test_a_clock_that_was_set_back_proves_nothing(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    history, now = state.load(os.fspath(world.state)), state.now(fds[1])
    old = look(fds[1], "top")
    hour_ns = 3600 * 10**9
    assert history.doubt("top", old, replace(now, wall_ns=now.wall_ns - hour_ns))
    assert history.doubt("top", old, replace(now, wall_ns=now.wall_ns - hour_ns, boot_id="another", boot_ns=0))
    assert not history.doubt("top", old, replace(now, wall_ns=now.wall_ns + hour_ns, boot_id="another", boot_ns=0))
    slept = replace(now, wall_ns=now.wall_ns + hour_ns, boot_ns=now.boot_ns + hour_ns)
    assert not history.doubt("top", old, slept)


def test_the_clock_of_another_machine_proves_nothing(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    history = state.load(os.fspath(world.state))
    foreign = replace(history, epochs=(replace(history.epochs[0], local=False),))
    assert "does not tell our time" in foreign.doubt("top", look(fds[1], "top"), state.now(fds[1]))


@pytest.mark.parametrize(("place", "expected"), [("/", True), ("/proc", False), ("/sys", False)])
def test_a_file_system_is_local_by_its_name_in_the_mount_table(place: str, expected: bool) -> None:
    fd = os.open(place, os.O_PATH)
    assert state.now(fd).local == expected
    os.close(fd)


def test_what_we_put_there_ourselves_is_known_until_it_is_touched(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    (world.base / "top").write_text("put back", "utf-8")
    state.pin(os.fspath(world.state), {"top": look(fds[1], "top")})
    assert doubt(world, fds, "top") == ""
    (world.base / "top").chmod(0o600)
    assert doubt(world, fds, "top")


def test_what_is_written_before_a_tick_lies_before_the_next_mount(world: World, fds: tuple[int, int]) -> None:
    for number in range(20):
        (world.base / "top").write_text(str(number), "utf-8")
        state.await_tick()
        begin(world, fds)
        assert doubt(world, fds, "top") == ""


def test_more_than_can_be_told_apart_belongs_to_the_first_mount(
    world: World, fds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world, fds)
    state.await_tick()
    write(os.fspath(world.base / "top"), "by the host\n")
    deep = "/".join(["d" * 100] * 30)
    for tree in (world.base, world.upper):
        (tree / deep).mkdir(parents=True)
    state.await_tick()
    begin(world, fds)
    assert doubt(world, fds, "top") == "", "the box sees it as it is now"
    monkeypatch.setattr(state, "HISTORY_BYTES", 10_000)
    write(os.fspath(world.base / "top"), "by the host again\n")
    state.await_tick()
    begin(world, fds)
    assert state.load(os.fspath(world.state)).held == {}
    assert doubt(world, fds, "top") == "it changed on the host since the box was opened", "doubt, never a wrong answer"


# -- how long what is known is kept ------------------------------------------------------------------------------------


def writing(text: str, *paths: str) -> Callable[[], None]:
    def act() -> None:
        for path in paths:
            write(path, text)

    return act


def pins(world: World) -> set[str]:
    return set(state.load(os.fspath(world.state)).pinned)


def test_pins_go_with_the_epoch_that_needed_them(world: World, fds: tuple[int, int]) -> None:
    """Each apply adds some, so without this a box's record would grow for as long as it lives."""
    begin(world, fds)
    for number in range(10):
        for path in ("top", "notes.txt", "src/a.py"):
            (world.base / path).write_text(str(number), "utf-8")
            state.pin(os.fspath(world.state), {path: look(fds[1], path)})
        assert pins(world) == {"top", "notes.txt", "src/a.py"}
        world.box(lambda: write("top", "goes on from what was applied"))
        state.await_tick()
        begin(world, fds)
        assert pins(world) == {"top"}, "the box's next change of it started from there"
        assert doubt(world, fds, "top") == ""
    os.unlink(world.upper / "top")
    begin(world, fds)
    assert pins(world) == set()
    assert doubt(world, fds, "top") == "", "it lies before the epoch by now"


def test_a_pin_that_the_host_overtook_is_dropped(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    world.box(lambda: write("top", "box"))
    state.pin(os.fspath(world.state), {"top": look(fds[1], "top")})
    (world.base / "top").write_text("by the host", "utf-8")
    state.await_tick()
    begin(world, fds)
    assert pins(world) == set()
    assert doubt(world, fds, "top")


def test_there_are_never_more_pins_than_the_bound(
    world: World, fds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "REVIEW_PINS_MAX", 2)
    begin(world, fds)
    for path in ("top", "notes.txt", "src/a.py", "notes.txt"):
        (world.base / path).write_text("new", "utf-8")
        state.pin(os.fspath(world.state), {path: look(fds[1], path)})
    assert pins(world) == {"src/a.py", "notes.txt"}
    assert doubt(world, fds, "top"), "what is not known any more is in doubt"
    monkeypatch.setattr(state, "HISTORY_BYTES", len("notes.txt") + 1)
    state.pin(os.fspath(world.state), {"notes.txt": look(fds[1], "notes.txt")})
    assert pins(world) == {"notes.txt"}, "by their length too"


def test_no_pin_is_kept_of_what_is_never_in_doubt(world: World, fds: tuple[int, int]) -> None:
    state.pin(os.fspath(world.state), {"gone": NOTHING, "src": look(fds[1], "src"), "top": look(fds[1], "top")})
    assert pins(world) == {"top"}


# -- epochs of a box that runs -----------------------------------------------------------------------------------------


def test_what_the_box_changes_after_it_looked_again_starts_from_the_hosts_edit(
    world: World, fds: tuple[int, int]
) -> None:
    begin(world, fds)
    world.box(lambda: write("src/b.py", "before"))
    for path in ("src/a.py", "src/b.py"):
        (world.base / path).write_text("by the host", "utf-8")
    state.await_tick()
    state.begin(os.fspath(world.state), *fds, state.now(fds[1]))
    world.box(writing("after", "src/a.py", "src/b.py"))
    assert doubt(world, fds, "src/a.py") == ""
    assert doubt(world, fds, "src/b.py"), "it was changed before the box could know"


def test_an_edit_between_the_moment_and_the_record_is_in_doubt(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    moment = state.now(fds[1])
    (world.base / "top").write_text("by the host", "utf-8")
    state.await_tick()
    state.begin(os.fspath(world.state), *fds, moment)
    assert doubt(world, fds, "top")


def test_what_lies_in_a_directory_of_the_box_is_as_old_as_that(world: World, fds: tuple[int, int]) -> None:
    """One entry stands for all that is in it; also when the host has a directory of that name later."""
    begin(world, fds)
    world.box(writing("box", *(f"made/{number}" for number in range(100))))
    begin(world, fds)
    assert set(state.load(os.fspath(world.state)).held) == {"made"}
    (world.base / "made").mkdir()
    (world.base / "made/7").write_text("by the host", "utf-8")
    state.await_tick()
    remove_tree(os.fspath(world.upper / "made/8"))
    for _ in range(3):
        begin(world, fds)
        assert doubt(world, fds, "made/7")


def test_what_was_discarded_is_of_the_last_epoch_when_it_is_made_again(world: World, fds: tuple[int, int]) -> None:
    begin(world, fds)
    world.box(writing("box", "top", "src/a.py", "src/b.py"))
    for path in ("top", "src/a.py", "src/b.py"):
        (world.base / path).write_text("by the host", "utf-8")
    state.await_tick()
    begin(world, fds)
    state.forget(os.fspath(world.state), ["src/a.py"])
    assert [bool(doubt(world, fds, path)) for path in ("top", "src/a.py", "src/b.py")] == [True, False, True]
    state.forget(os.fspath(world.state), ["src"])
    assert [bool(doubt(world, fds, path)) for path in ("top", "src/a.py", "src/b.py")] == [True, False, False]
    state.forget(os.fspath(world.state), [""])
    assert not doubt(world, fds, "top")
