"""Out of a box: whatever it says about its tree, nothing is written but below the one directory that was named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.cli import fetching
from paddock.cli.copying import Skipped
from paddock.cli.fetching import below, fetch, stays_below
from paddock.errors import Unavailable, UserError
from tests.cli.liar import Liar, entry, says, tree

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where copies go, with a neighbour that must stay as it is."""
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("untouched")
    return tmp_path / "target"


def everything(top: Path) -> dict[str, str]:
    """All below, and what it is: a link's target, a file's mode and content, or a directory's mode."""
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        if stat.S_ISLNK(status.st_mode):
            found[str(path.relative_to(top))] = f"-> {path.readlink()}"
        elif stat.S_ISDIR(status.st_mode):
            found[str(path.relative_to(top))] = mode
        else:
            found[str(path.relative_to(top))] = f"{mode} {path.read_text()}"
    return found


def fetched(box: Liar, target: Path) -> int:
    skipped = Skipped()
    with box, box.files as files:
        fetch(files, "/t", str(target), [], skipped)
    return skipped.count


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("/t/a", "a"),
        ("/t/a/b", "a/b"),
        ("/t/a\nb\x1b[31m", "a\nb\x1b[31m"),
        ("/t/\udcff", "\udcff"),
        ("/t/...", "..."),
        ("/t", None),
        ("/t/", None),
        ("/tx/a", None),
        ("/etc/passwd", None),
        ("t/a", None),
        ("/t/..", None),
        ("/t/../a", None),
        ("/t/a/../../b", None),
        ("/t/./a", None),
        ("/t//a", None),
        ("/t/a/", None),
        ("/t/a\0b", None),
        ("/t/\ud800", None),
        ("", None),
    ],
)
def test_only_a_plain_path_below_is_a_name(path: str, relative: str | None) -> None:
    assert below(path, "/t") == relative


def test_everything_is_below_the_root() -> None:
    assert below("/a/b", "/") == "a/b"


@pytest.mark.parametrize(
    ("relative", "link", "stays"),
    [
        ("l", "a", True),
        ("l", "a/b", True),
        ("l", "./a//b/", True),
        ("l", ".", True),
        ("l", "..", False),
        ("l", "../a", False),
        ("d/l", "..", True),
        ("d/l", "../a", True),
        ("d/l", "../../a", False),
        ("d/e/l", "../../a", True),
        ("l", "/etc/passwd", False),
        ("l", "a/..", False),
        ("l", "a/../b", False),
        ("d/l", "../a/../..", False),
        ("l", "", False),
        ("l", "a\0", False),
        ("l", "\ud800", False),
        ("l", "\udcff", True),
    ],
)
def test_a_link_stays_below_or_is_not_made(relative: str, link: str, stays: bool) -> None:
    assert stays_below(relative, link) is stays


def test_links_that_stay_below_do_so_together(tmp_path: Path) -> None:
    """Each alone looks harmless; the kernel is the judge of all combinations, chains of links included."""
    top = tmp_path / "top"
    (top / "d/e").mkdir(parents=True)
    (tmp_path / "x").write_text("outside")
    made = []
    words = ["d", "..", "x", "l0", "l1"]
    for place in ("l0", "d/l1", "d/e/l2"):
        for link in [f"{one}/{two}/{three}" for one in words for two in words for three in words]:
            if stays_below(place, link):
                made.append((place, link))
    assert len(made) > 100
    for place, link in made:
        for other_place, other_link in made[:: len(made) // 5]:
            for path, to in {other_place: other_link, place: link}.items():
                (top / path).symlink_to(to)
            for path in {place, other_place}:
                real = os.path.realpath(top / path)
                assert real == str(top) or real.startswith(f"{top}/"), (place, link, other_place, other_link)
                (top / path).unlink()


# -- what a hostile box says -------------------------------------------------------------------------------------------
HOSTILE = [
    entry("/t/../../outside/file"),
    entry("/t/../../outside/new"),
    entry("/outside/file"),
    entry("/etc/passwd"),
    entry("/t/a/../../../outside/file"),
    entry("/t/abs", "symlink", link="/outside"),
    entry("/t/rel", "symlink", link="../../outside"),
    entry("/t/odd\ud800"),
    entry("/t/odd\ud800", "directory"),
    entry("/t/odd\0"),
    entry("/t/link\ud800", "symlink", link="a"),
    entry("/t/bad", "symlink", link="\ud800"),
    entry("/t/" + "n" * 300),
    entry("/t/" + "n/" * 3000 + "x"),
    entry("/t/missing/parent"),
    entry("/t/device", "other"),
    entry("/t/unknown", "\x1b[31mkind"),
    entry("/t", "file"),
    entry("/t/", "symlink", link="x"),
]


def naive(entries: list[dict[str, object]], target: Path) -> None:
    """What a copier does that believes the box."""
    for row in entries:
        place = os.path.join(target, "t", str(row["path"]).removeprefix("/t/"))
        try:
            if row["kind"] == "symlink":
                os.symlink(str(row["link"]), place)
            elif row["kind"] == "directory":
                os.mkdir(place)
            else:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                Path(place).write_text("naive")
        except (OSError, ValueError):
            continue


def test_no_word_of_a_box_leads_out_of_the_target(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = everything(target.parent / "outside")
    assert fetched(tree("/t", *HOSTILE, entry("/t/good")), target) == len(HOSTILE)
    assert everything(target) == {"t": "755", "t/good": "644 content"}
    assert everything(target.parent / "outside") == outside
    warnings = capsys.readouterr().err
    assert warnings.count("warning: not copied: ") == len(HOSTILE)
    assert "\x1b" not in warnings

    naive(HOSTILE[:2], target)
    assert everything(target.parent / "outside") != outside, "the oracle: who believes the box writes outside"


def test_a_file_is_not_written_through_a_link_that_was_just_copied(target: Path) -> None:
    (target / "t").mkdir()
    through = [entry("/t/d", "symlink", link="e"), entry("/t/e", "directory"), entry("/t/d/file")]
    assert fetched(tree("/t", *through), target) == 1
    assert everything(target) == {"t": "755", "t/d": "-> e", "t/e": "755"}
    naive([entry("/t/d/file")], target)
    assert "t/e/file" in everything(target), "the oracle: a plain open goes through the link"


@pytest.mark.parametrize("planted", ["t", "t/d", "t/d/file"])
def test_a_link_planted_in_the_target_is_not_followed(target: Path, planted: str) -> None:
    outside = target.parent / "outside"
    (outside / "d").mkdir()
    (target / planted).parent.mkdir(parents=True, exist_ok=True)
    (target / planted).symlink_to(outside / "file" if planted.endswith("file") else outside)
    before = everything(outside)
    box = tree("/t", entry("/t/d", "directory"), entry("/t/d/file"), content=b"evil")
    if planted == "t":
        with pytest.raises(UserError, match="cannot write"):
            fetched(box, target)
    else:
        fetched(box, target)
    assert everything(outside) == before
    naive([entry("/t/d/file")], target)
    assert everything(outside) != before or planted == "t/d/file", "the oracle: a plain open follows it"


def test_set_id_bits_are_dropped_and_the_umask_holds(target: Path) -> None:
    rows = [entry("/t/suid", mode=0o6755), entry("/t/all", mode=0o7777), entry("/t/sticky", "directory", 0o7777)]
    old = os.umask(0o027)
    try:
        assert fetched(tree("/t", *rows), target) == 0
    finally:
        os.umask(old)
    assert everything(target / "t") == {"all": "750 content", "sticky": "750", "suid": "750 content"}


def test_closed_directories_are_filled_first_and_closed_then(target: Path) -> None:
    rows = [entry("/t/d", "directory", 0o555), entry("/t/d/e", "directory", 0o000), entry("/t/d/e/f", mode=0o400)]
    assert fetched(tree("/t", *rows), target) == 0
    assert stat.S_IMODE((target / "t/d").stat().st_mode) == 0o555
    assert stat.S_IMODE((target / "t/d/e").stat().st_mode) == 0
    for path in (target / "t/d", target / "t/d/e"):
        path.chmod(0o755)
    assert everything(target / "t") == {"d": "755", "d/e": "755", "d/e/f": "400 content"}


def test_a_second_copy_replaces_the_first(target: Path) -> None:
    first = tree("/t", entry("/t/a"), entry("/t/l", "symlink", link="a"), entry("/t/d", "directory"), content=b"longer")
    rows = [entry("/t/a", "symlink", link="l"), entry("/t/l"), entry("/t/d", "directory"), entry("/t/d/new")]
    assert fetched(first, target) == 0
    assert fetched(tree("/t", *rows, content=b"2"), target) == 0
    assert everything(target / "t") == {"a": "-> l", "l": "644 2", "d": "755", "d/new": "644 2"}


def test_what_is_in_the_way_stays(target: Path) -> None:
    (target / "t/file").mkdir(parents=True)
    (target / "t/dir").write_text("mine")
    rows = [entry("/t/file"), entry("/t/dir", "directory"), entry("/t/dir/x"), entry("/t/ok")]
    assert fetched(tree("/t", *rows), target) == 3
    assert everything(target / "t") == {"file": "755", "dir": "644 mine", "ok": "644 content"}


def test_a_flood_of_bad_entries_is_counted_not_shown(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = Skipped()
    with tree("/t", *[entry("/elsewhere")] * 500) as box, box.files as files:
        fetch(files, "/t", str(target), [], skipped)
    assert skipped.finish() == 1
    assert capsys.readouterr().err.splitlines()[-1] == "warning: not copied: 480 more"


def test_directories_that_could_not_be_read_are_named(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listing(_request: dict[str, object]) -> Iterator[bytes]:
        yield says(event="entries", entries=[entry("/t/d", "directory")], unread=["/t/d", "Permission denied"])
        yield says(event="done")

    box = Liar(stat=lambda _request: [says(event="entry", entry=entry("/t", "directory", 0o755))], list_dir=listing)
    assert fetched(box, target) == 1
    assert capsys.readouterr().err == "warning: not copied: /t/d: Permission denied\n"


def test_an_endless_file_stops_before_the_disk_is_full(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_request: dict[str, object]) -> Iterator[bytes]:
        yield says(event="entry")
        while True:
            yield frames.encode(frames.FILE, b"x" * 65536)

    monkeypatch.setattr(fetching, "_LOOK_BYTES", 1 << 20)
    real, looks = os.fstatvfs, []

    def shrinking(fd: int) -> os.statvfs_result:
        looks.append(fd)
        values = list(real(fd))
        values[4] = 0 if len(looks) > 3 else values[4]  # f_bavail
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "fstatvfs", shrinking)
    box = Liar(stat=lambda _request: [says(event="entry", entry=entry("/t"))], read=endless)
    with pytest.raises(Unavailable, match="the copy was stopped"):
        fetched(box, target)
    assert (target / "t").stat().st_size == 3 << 20


# -- where it goes -----------------------------------------------------------------------------------------------------


def test_a_target_that_is_no_directory_yet_is_the_new_name(target: Path) -> None:
    assert fetched(tree("/t", entry("/t/a")), target / "renamed") == 0
    assert everything(target) == {"renamed": "755", "renamed/a": "644 content"}


@pytest.mark.parametrize(("name", "message"), [("no/", "there is no directory"), ("no/x", "cannot open")])
def test_a_target_that_is_not_there_is_named(target: Path, name: str, message: str) -> None:
    box = tree("/t", entry("/t/a"))
    with box, box.files as files, pytest.raises(UserError, match=message) as caught:
        fetch(files, "/t", f"{target}/{name}", [], Skipped())
    assert f"{target}/no" in caught.value.message
    assert everything(target) == {}


@pytest.mark.parametrize("kind", ["other", "symlink", "", "\x1b"])
def test_what_is_no_file_and_no_directory_is_refused(target: Path, kind: str) -> None:
    box = Liar(stat=lambda _request: [says(event="entry", entry=entry("/t", kind))])
    with pytest.raises(UserError, match="no file and no directory"):
        fetched(box, target)


def test_a_file_the_box_will_not_give_leaves_nothing_behind(target: Path) -> None:
    box = Liar(stat=lambda _request: [says(event="entry", entry=entry("/t"))])
    with pytest.raises(UserError, match="refused"):
        fetched(box, target)
    assert everything(target) == {}
