"""Whatever changes below a directory is noticed and named, once, and nothing else is."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from paddock.fs import tree
from paddock.fs.tree import Altered, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    (place / "a/b/c").mkdir(parents=True)
    (place / ".git/refs").mkdir(parents=True)
    for name in ("top", "a/one", "a/b/c/deep", ".git/refs/main"):
        (place / name).write_text("x", "utf-8")
    return place


@pytest.fixture
def watched(root: Path) -> Iterator[Tree]:
    with Tree(os.fspath(root), watches_max=ALL, skipped=frozenset({".git"})) as found:
        assert not found.look(after()).altered
        assert found.is_whole
        yield found


def after() -> int:
    """A time that no file was changed at yet."""
    return time.time_ns() + 10**9


def replaced(path: Path) -> None:
    beside = path.with_name("beside")
    beside.write_text("y", "utf-8")
    beside.rename(path)


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (lambda root: (root / "a/b/c/deep").write_text("y", "utf-8"), "a/b/c/deep"),
        (lambda root: replaced(root / "a/b/c/deep"), "a/b/c/deep"),
        (lambda root: (root / "a/b/c/deep").unlink(), "a/b/c/deep"),
        (lambda root: (root / "a/b/c/deep").chmod(0o600), "a/b/c/deep"),
        (lambda root: (root / "a/b/new").touch(), "a/b/new"),
        (lambda root: (root / "a/b/link").symlink_to("x"), "a/b/link"),
        (lambda root: (root / "a/b").chmod(0o700), "a/b"),
        (lambda root: shutil.rmtree(root / "a/b"), "a/b"),
        (lambda root: (root / "a/b").rename(root / "moved"), "moved"),
        (lambda root: (root / "top").rename(root / "a/b/top"), "a/b/top"),
        (lambda root: (root / os.fsdecode(b"a/\xff\n")).touch(), os.fsdecode(b"a/\xff\n")),
    ],
)
def test_a_change_at_any_depth_is_named_once(
    root: Path, watched: Tree, act: Callable[[Path], object], path: str
) -> None:
    act(root)
    assert path in watched.changed().paths
    assert not watched.changed()


def test_what_is_only_read_has_not_changed(root: Path, watched: Tree) -> None:
    (root / "a/b/c/deep").read_text("utf-8")
    list(root.rglob("*"))
    assert not watched.changed()


def test_what_is_skipped_says_nothing(root: Path, watched: Tree) -> None:
    (root / ".git/refs/main").write_text("y", "utf-8")
    (root / ".paddock-0123456789ab-7").touch()
    assert not watched.changed()
    (root / ".paddock-notes").touch()
    assert watched.changed().paths == (".paddock-notes",)


def test_directories_that_come_later_are_watched_too(root: Path, watched: Tree) -> None:
    (root / "new/inner").mkdir(parents=True)
    assert watched.changed().paths == ("new",), "it stands for all that is in it"
    (root / "new/inner/file").touch()
    assert watched.changed().paths == ("new/inner/file",)


def test_a_directory_that_moved_is_named_by_its_new_place(root: Path, watched: Tree) -> None:
    (root / "a").rename(root / "z")
    watched.changed()
    (root / "z/b/c/deep").write_text("y", "utf-8")
    assert watched.changed().paths == ("z/b/c/deep",)
    (root / "z/b").rename(root.parent / "outside")
    watched.changed()
    (root.parent / "outside/c/deep").write_text("z", "utf-8")
    assert not watched.changed(), "what left is not ours"


def test_what_changed_before_there_was_a_watch_is_found_by_its_time(root: Path) -> None:
    since_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    time.sleep(0.02)  # until the clock that stamps inodes has passed it
    (root / "a/b/c/deep").write_text("y", "utf-8")
    (root / "a/one").unlink()
    with Tree(os.fspath(root), watches_max=ALL) as found:
        assert set(found.look(since_ns).altered.paths) == {"a", "a/b/c/deep"}, "of what is gone its directory is named"


def test_a_queue_that_ran_over_is_made_up_for_by_a_walk(
    root: Path, watched: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    time.sleep(0.05)
    watched.changed()
    time.sleep(0.05)
    (root / "a/b/c/deep").write_text("y", "utf-8")
    overflow = (-1, 0x4000, "")
    events = watched._events
    monkeypatch.setattr(watched, "_events", lambda: [*events(), overflow])
    assert watched.changed().paths == ("a/b/c/deep",)


def test_many_moves_are_made_up_for_by_a_walk(root: Path, watched: Tree) -> None:
    for number in range(100):
        (root / f"d{number}").mkdir()
    watched.changed()
    for number in range(100):
        (root / f"d{number}").rename(root / f"e{number}")
    assert watched.changed()
    (root / "e7/file").touch()
    assert watched.changed().paths == ("e7/file",)


def test_more_directories_than_allowed_are_not_all_watched_and_that_is_known(root: Path) -> None:
    with Tree(os.fspath(root), watches_max=2) as found:
        found.look(after())
        assert not found.is_whole
        (root / "top").write_text("y", "utf-8")
        assert found.changed().paths == ("top",), "those near the top are"


def test_more_names_than_are_kept_are_told_as_more(root: Path, watched: Tree) -> None:
    for number in range(tree.KEPT + 1):
        (root / f"f{number}").touch()
    found = watched.changed()
    assert (len(found.paths), found.more) == (tree.KEPT, True)


def test_a_link_leads_no_watch_outside(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    with Tree(os.fspath(root), watches_max=ALL) as found:
        found.look(after())
        (outside / "file").touch()
        assert not found.changed()


def test_a_root_that_is_replaced_is_a_change(root: Path, watched: Tree) -> None:
    root.rename(root.with_name("elsewhere"))
    (root.with_name("elsewhere") / "top").write_text("y", "utf-8")
    assert watched.changed()


def test_a_closed_tree_says_nothing(root: Path) -> None:
    found = Tree(os.fspath(root), watches_max=ALL)
    found.look(after())
    found.close()
    found.close()
    assert found.changed() == Altered()
    assert repr(found).startswith("<Tree ")


@pytest.mark.privileged
def test_files_of_others_are_found_on_the_way(root: Path) -> None:
    os.chown(root / "a/b/c/deep", 61999, -1)
    with Tree(os.fspath(root), watches_max=ALL) as found:
        assert found.look(after(), (0, 0)).foreign == ("a/b/c/deep",)


def test_an_editors_share_of_watches_is_left_alone() -> None:
    assert 0 < tree.watches_max(5) <= 5
    with open("/proc/sys/fs/inotify/max_user_watches", encoding="ascii") as file:
        assert tree.watches_max(10**9) == int(file.read()) // 4
