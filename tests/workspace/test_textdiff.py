"""What people and programs are shown: WS-17."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.limits import REVIEW_TEXT_BYTES
from paddock.workspace import changes, danger
from paddock.workspace.textdiff import Differ, FileDiff, name_line, stat_lines
from tests.workspace.worlds import World, write

if TYPE_CHECKING:
    from collections.abc import Callable


def diffs(world: World, *, with_lines: bool = True) -> dict[str, FileDiff]:
    with world.open() as (upper, base):
        found = changes.read(upper, base).items
        dangers = danger.Examiner(upper, base).examine(found)
        return {one.path: one for one in Differ(upper, base, with_lines=with_lines).diffs(found, dangers)}


def test_a_changed_file_shows_its_lines_with_context(world: World) -> None:
    (world.base / "long").write_text("".join(f"{n}\n" for n in range(30)), "utf-8")
    world.box(lambda: write("long", "".join(f"{n}\n" for n in range(30) if n != 4).replace("20\n", "twenty\n")))
    assert diffs(world)["long"].lines == (
        "modified file long",
        "@@ -2,7 +2,6 @@", " 1", " 2", " 3", "-4", " 5", " 6", " 7",
        "@@ -18,7 +17,7 @@", " 17", " 18", " 19", "-20", "+twenty", " 21", " 22", " 23",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("act", "path", "expected"),
    [
        (lambda: write("new", "a\nb\n"), "new", ("added file new", "@@ -0,0 +1,2 @@", "+a", "+b")),
        (lambda: write("new", ""), "new", ("added file new",)),
        (lambda: os.unlink("top"), "top", ("deleted file top", "@@ -1,1 +0,0 @@", "-top")),
        (lambda: os.chmod("top", 0o600), "top", ("mode file top", "mode 0644 -> 0600")),
        (lambda: os.symlink("top", "link"), "link", ("added symlink link", "-> top")),
        (lambda: os.mkdir("dir"), "dir", ("added dir dir",)),
        (
            lambda: write("top", "no newline"),
            "top",
            ("modified file top", "@@ -1,1 +1,1 @@", "-top", "+no newline", "\\ no newline at the end"),
        ),
    ],
)
def test_every_kind_of_change_has_its_text(
    world: World, act: Callable[[], None], path: str, expected: tuple[str, ...]
) -> None:
    world.box(act)
    assert diffs(world)[path].lines == expected


def test_a_rename_names_its_source(world: World) -> None:
    world.box(lambda: os.rename("notes.txt", "moved"))
    assert "renamed from notes.txt" in diffs(world)["moved"].lines
    assert stat_lines([diffs(world)["moved"]])[0] == "notes.txt => moved | 3 +++"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jcleared", r"+\x1b[2Jcleared"),
        ("over\rwritten", r"+over\rwritten"),
        ("\u202eevil", r"+\u202eevil"),
        ("zero\u200bwidth", r"+zero\u200bwidth"),
        ("tag\U000e0041", r"+tag\U000e0041"),
        ("\udcff\udcfe", r"+\xff\xfe"),
        ("tab\there", "+tab\there"),
        ("\x9b31m", r"+\x9b31m"),
        ("x" * 5000, None),
    ],
)
def test_hostile_text_reaches_no_terminal(world: World, text: str, shown: str | None) -> None:
    world.box(lambda: write("hostile", text + "\n"))
    (line,) = (line for line in diffs(world)["hostile"].lines if line.startswith("+"))
    assert len(line) < 4100
    if shown is None:
        assert line.endswith("...[+" + line.rpartition("+")[2])
    else:
        assert line == shown


def test_hostile_names_are_neutralised_everywhere(world: World) -> None:
    world.box(lambda: write("line\nbreak\x1b[2J\udcff", "x\n"))
    (one,) = diffs(world).values()
    for text in (*one.lines, name_line(one), *stat_lines([one])):
        assert "\n" not in text
        assert "\x1b" not in text
        text.encode("utf-8")
    assert json.loads(json.dumps(codec.to_wire(one)))["path"] == "line\nbreak\x1b[2J\udcff"


@pytest.mark.parametrize("text", ["bin\0ary", "x" * (REVIEW_TEXT_BYTES + 1)])
def test_binary_and_huge_files_are_told_by_size_and_digest(world: World, text: str) -> None:
    world.box(lambda: write("top", text))
    one = diffs(world)["top"]
    assert one.binary
    assert [line[:14] for line in one.lines if "not shown" in line] == ["- (not shown: ", "+ (not shown: "]
    assert "sha256" in one.lines[-1]


def test_a_flood_is_bounded_over_all_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.workspace import textdiff

    monkeypatch.setattr(textdiff, "REVIEW_SHOWN_BYTES", 10_000)

    def act() -> None:
        for number in range(10):
            write(f"flood{number}", "line\n" * 1000)

    world.box(act)
    found = diffs(world).values()
    assert [one.binary for one in found] == [False, False, *[True] * 8]
    assert sum(len(line) for one in found for line in one.lines) < 20_000


def test_lines_are_counted_without_being_kept(world: World) -> None:
    world.box(lambda: write("notes.txt", "one\nTWO\nthree\nfour\n"))
    one = diffs(world, with_lines=False)["notes.txt"]
    assert (one.added, one.removed, one.lines) == (2, 1, ())


def test_the_stat_has_a_bar_per_file_and_totals(world: World) -> None:
    def act() -> None:
        write("notes.txt", "one\nTWO\nthree\n")
        write("many", "x\n" * 1000)
        os.mkfifo("fifo")
        write("binary", "\0")

    world.box(act)
    *rows, total = stat_lines(diffs(world).values())
    assert total == "4 changed, 1001 lines added, 1 removed"
    assert [row.split(" | ")[1] for row in rows] == ["0B -> 1B", "refused", "1000 " + "+" * 40, "2 +-"]
    assert stat_lines([]) == ["0 changed, 0 lines added, 0 removed"]


def test_a_name_line_marks_what_needs_a_look(world: World) -> None:
    def act() -> None:
        write("top", "TOP\n")
        write("Makefile", "all:\n")
        os.unlink("notes.txt")
        os.mkfifo("fifo")

    world.box(act)
    assert [name_line(one) for one in diffs(world).values()] == ["!A Makefile", "!A fifo", " D notes.txt", " M top"]


def test_a_diff_of_a_hundred_files_is_ready_at_once(world: World) -> None:
    for number in range(100):
        (world.base / f"f{number}.py").write_text("".join(f"line {n}\n" for n in range(200)), "utf-8")

    def act() -> None:
        for number in range(100):
            write(f"f{number}.py", "".join(f"line {n if n % 50 else 'new'}\n" for n in range(200)))

    world.box(act)
    start = time.process_time()
    assert len(diffs(world)) == 100
    assert time.process_time() - start < 0.5  # a quarter of that on an idle machine
