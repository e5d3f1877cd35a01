"""What is remembered of a workspace's directories costs one look each, and nothing a box does makes it wrong."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.workspace import guarded, nested, repository, tree
from paddock.workspace.tree import Memory, Place, Walk
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Attack = Callable[[Path], None]

pytestmark = pytest.mark.box

SOON_NS = 50_000_000  # several ticks of the clock that stamps files


class Reader:
    """Marks what is marked, and knows which directories were read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def mark(self, place: str, names: list[str]) -> list[str]:
        self.read.append(place)
        return guarded.marked(place, names)

    def told(self) -> list[str]:
        told, self.read = sorted(self.read), []
        return told


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def memory(reader: Reader) -> Memory:
    return Memory(reader.mark, settled_ns=SOON_NS)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project whose directories changed long enough ago."""
    work = tmp_path / "work"
    for name in ("a/b/c", "a/b/d", "e/f", "clean/f"):
        (work / name).mkdir(parents=True)
        (work / name / "file").write_text("x")
    settle()
    return work


def settle() -> None:
    start = time.time_ns()
    until(lambda: time.time_ns() > start + 2 * SOON_NS, "the last change lies back")


def found(work: Path, memory: Memory | None = None) -> set[str]:
    return {item.path for item in nested.find(os.fspath(work), memory).nested}


ALL = ["", "a", "a/b", "a/b/c", "a/b/d", "clean", "clean/f", "e", "e/f"]


def test_what_did_not_change_is_not_read_again(work: Path, memory: Memory, reader: Reader) -> None:
    found(work, memory)
    assert reader.told() == ALL
    found(work, memory)
    assert reader.told() == []
    (work / "a/b/c/file").write_text("another content, of the same name")
    found(work, memory)
    assert reader.told() == []
    (work / "a/b/c/new").touch()
    found(work, memory)
    assert reader.told() == ["a/b/c"]
    assert repr(memory) == f"<Memory of {len(ALL) - 1} directories>"


def test_what_changed_a_moment_ago_is_read_each_time(work: Path, memory: Memory, reader: Reader) -> None:
    (work / "e/f/new").touch()
    found(work, memory)
    reader.told()
    found(work, memory)
    assert reader.told() == ["e/f"]
    settle()
    found(work, memory)
    found(work, memory)
    assert reader.told() == ["e/f"]


def test_a_change_at_the_moment_of_a_walk_is_seen_by_the_next(tmp_path: Path) -> None:
    memory = Memory(guarded.marked)
    for number in range(300):
        place = tmp_path / str(number)
        place.mkdir()
        found(tmp_path, memory)
        (place / ".git").mkdir()
        assert f"{number}/.git" in found(tmp_path, memory)
        (place / ".git").rmdir()


def plainly(work: Path) -> None:
    (work / "a/b/c/.git").mkdir()


def by_setting_all_times_back(work: Path) -> None:
    for place in (work / "a/b/c", work / "a/b", work / "a", work):
        before = place.stat()
        if place.name == "c":
            (place / ".git").mkdir()
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert place.stat().st_mtime_ns == before.st_mtime_ns


def by_moving_a_tree_in(work: Path) -> None:
    outside = work.parent / "outside/x/y"
    (outside / ".git").mkdir(parents=True)
    settle()
    (work.parent / "outside").rename(work / "a/b/moved")


def by_moving_a_tree_over_a_known_one(work: Path) -> None:
    other = work.parent / "other"
    (other / "c/.git").mkdir(parents=True)
    (other / "d").mkdir()
    known = (work / "a/b").stat()
    os.utime(other, ns=(known.st_atime_ns, known.st_mtime_ns))
    settle()
    (work / "a/b").rename(work.parent / "gone")
    other.rename(work / "a/b")
    assert (work / "a/b").stat().st_mtime_ns == known.st_mtime_ns


def by_exchanging_two(work: Path) -> None:
    other = work.parent / "other"
    (other / ".git").mkdir(parents=True)
    settle()
    for_names = [os.open(path, os.O_PATH) for path in (work / "a/b", work.parent)]
    fs.exchange(for_names[0], "c", for_names[1], "other")
    for fd in for_names:
        os.close(fd)


def by_renaming_what_is_there(work: Path) -> None:
    (work / "e/f").rename(work / "e/.git")


def by_a_hard_link(work: Path) -> None:
    (work.parent / "pointer").write_text("gitdir: /elsewhere\n")
    settle()
    os.link(work.parent / "pointer", work / "clean/f/.git")


def by_taking_the_inode_of_one_that_is_gone(work: Path) -> None:
    """Many file systems give the number of what was removed to what is made next."""
    place = work / "a/b/d"
    number = place.stat().st_ino
    (place / "file").unlink()
    for _ in range(100):
        place.rmdir()
        place.mkdir()
        if place.stat().st_ino == number:
            break
    (place / ".git").mkdir()


def by_going_away_and_coming_back(work: Path) -> None:
    (work / "a").rename(work / "away")
    (work / "away/b/c/.git").mkdir()
    (work / "away").rename(work / "a")


def as_a_bare_one(work: Path) -> None:
    for name in ("objects", "refs"):
        (work / "e/f" / name).mkdir()
    (work / "e/f/HEAD").touch()


ATTACKS: list[Attack] = [
    plainly,
    by_setting_all_times_back,
    by_moving_a_tree_in,
    by_moving_a_tree_over_a_known_one,
    by_exchanging_two,
    by_renaming_what_is_there,
    by_a_hard_link,
    by_taking_the_inode_of_one_that_is_gone,
    by_going_away_and_coming_back,
    as_a_bare_one,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_no_repository_stays_unseen(work: Path, memory: Memory, attack: Attack) -> None:
    assert found(work, memory) == set()
    attack(work)
    truth = found(work)
    assert len(truth) == 1
    for _ in range(2):
        assert found(work, memory) == truth
        settle()


def test_a_repository_that_is_known_is_looked_at_each_time(work: Path, memory: Memory) -> None:
    (work / "a/.git").mkdir()
    (work / "a/.git/config").touch()
    settle()
    before = nested.find(os.fspath(work), memory)
    (work / "a/.git/config").write_text("x")
    after = nested.find(os.fspath(work), memory)
    assert [item.path for item in nested.new(before, after, 0)] == ["a/.git"]


def test_a_file_in_a_trusted_place_is_looked_at_each_time(work: Path, memory: Memory) -> None:
    (work / "e/.vscode/deep").mkdir(parents=True)
    (work / "e/.vscode/deep/tasks.json").touch()
    settle()
    surveys = []
    for text in ("", "x"):
        (work / "e/.vscode/deep/tasks.json").write_text(text)
        surveys.append(guarded.Survey())
        nested.find(os.fspath(work), memory, look=surveys[-1].look)
        settle()
    before, after = surveys
    assert [item.path for item in guarded.created(before, after, 0)] == ["e/.vscode"]


def test_a_directory_that_was_closed_is_told_though_it_is_known(work: Path, memory: Memory) -> None:
    assert nested.find(os.fspath(work), memory).complete
    (work / "a").chmod(0)
    try:
        assert nested.find(os.fspath(work), memory).complete == (os.getuid() == 0)
    finally:
        (work / "a").chmod(0o700)


def test_bounds_are_the_same_with_a_memory(work: Path, memory: Memory) -> None:
    entries = 7 + 4  # directories and files
    for _ in range(2):
        assert nested.find(os.fspath(work), memory, entries_max=entries + 1).complete
        assert not nested.find(os.fspath(work), memory, entries_max=entries).complete
    assert not nested.find(os.fspath(work), memory, seconds_max=-1).complete


def test_everything_is_forgotten_when_the_clock_was_set_back(
    work: Path, memory: Memory, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(work, memory)
    reader.told()
    lead_ns = tree._lead_ns()
    monkeypatch.setattr(tree, "_lead_ns", lambda: lead_ns + 10**12)
    found(work, memory)
    assert reader.told() == []
    monkeypatch.setattr(tree, "_lead_ns", lambda: lead_ns + 10**12 - 2 * 10**9)
    found(work, memory)
    assert reader.told() == ALL


def test_a_file_system_with_another_clock_is_read_each_time(reader: Reader) -> None:
    memory = Memory(reader.mark)
    reads = []
    for _ in range(2):
        with repository.opened("/proc/sys/fs") as root:
            Walk("/proc/sys/fs", memory).run(root, lambda place: place.listing.below)
        reads.append(reader.told())
    assert reads[0]
    assert reads[0] == reads[1]
    assert repr(memory) == "<Memory of 0 directories>"


def test_the_memory_is_bounded_and_keeps_what_was_walked_last(work: Path, tmp_path: Path, reader: Reader) -> None:
    memory = Memory(reader.mark, bytes_max=480 * len(ALL), settled_ns=SOON_NS)
    (tmp_path / "small/x").mkdir(parents=True)
    settle()
    found(work, memory)
    assert repr(memory) == f"<Memory of {len(ALL)} directories>"
    for _ in range(2):
        found(tmp_path / "small", memory)
    assert repr(memory) == "<Memory of 2 directories>"
    assert reader.told() == sorted([*ALL, "", "x"])
    found(tmp_path, memory)  # more than it holds
    assert repr(memory) == "<Memory of 0 directories>"


@pytest.mark.parametrize("place", ["long", ".vscode"])
def test_a_box_cannot_fill_it_with_long_names(tmp_path: Path, place: str) -> None:
    """Neither with paths nor with the names in a trusted place, all of which are marked."""
    memory = Memory(guarded.marked, bytes_max=50_000, settled_ns=SOON_NS)
    (tmp_path / place).mkdir()
    for number in range(300):
        name = tmp_path / place / f"{number:0200}"
        name.mkdir() if place == "long" else name.touch()
    settle()
    assert nested.find(os.fspath(tmp_path), memory).complete
    assert repr(memory) == "<Memory of 0 directories>"


def test_threads_share_it_while_the_tree_moves(work: Path, tmp_path: Path, memory: Memory) -> None:
    (tmp_path / "outside/b/c/.git").mkdir(parents=True)
    (work / "link").symlink_to(tmp_path / "outside")
    done = threading.Event()
    seen: list[set[str]] = []

    def swap() -> None:
        while not done.is_set():
            os.rename(work / "a", work / "x")
            os.rename(work / "link", work / "a")
            os.rename(work / "a", work / "link")
            os.rename(work / "x", work / "a")

    def look() -> None:
        seen.extend(found(work, memory) for _ in range(200))

    threads = [threading.Thread(target=action) for action in (swap, look, look)]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    done.set()
    threads[0].join()
    assert seen == [set()] * 400


def test_a_walk_goes_where_it_is_sent_and_says_how_far_it_is(work: Path, memory: Memory) -> None:
    seen: list[str] = []

    def visit(place: Place) -> Sequence[str]:
        seen.append(place.path)
        return [path for path in place.listing.below if path != "a/b/c"]

    for name in ("a/b", "a/b/c", "e"):
        (work / name / ".envrc").touch()
    walk = Walk(os.fspath(work), memory)
    with repository.opened(os.fspath(work)) as root:
        walk.run(root, visit)
    assert seen == ["e", "a/b"]
    assert repr(walk) == f"<Walk of {work}, {len(ALL) - 1} directories seen>"
