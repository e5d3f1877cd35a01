"""What a box did, read from what the kernel wrote."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import changes
from paddock.workspace.changes import Change, Kind
from paddock.workspace.entries import Entry
from tests.workspace.worlds import World, write

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = ("line\nbreak", "\x1b[2J", "\udcff\udcfe", "-rf", "\u202egnp", " ", "*")


def read(world: World) -> dict[str, Change]:
    with world.open() as (upper, base):
        found = changes.read(upper, base)
    assert found.complete
    return {change.path: change for change in found.items}


def told(world: World) -> dict[str, str]:
    return {path: f"{change.kind.value} {change.entry.value}" for path, change in read(world).items()}


def rename(old: str, new: str) -> None:
    """As mv does: the kernel refuses to rename a directory of the lower tree, so it is copied."""
    try:
        os.rename(old, new)
    except OSError:
        shutil.copytree(old, new, symlinks=True)
        shutil.rmtree(old)


def many(*acts: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        for one in acts:
            one()

    return act


def writing(*paths: str) -> Callable[[], None]:
    def act() -> None:
        for path in paths:
            write(path, "!")

    return act


def replace_directory() -> None:
    shutil.rmtree("old")
    write("old/new", "new\n")
    write("old/x", "other\n")


def bind(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda: None, {}),
        (lambda: write("top", "top\n"), {}),  # copied up, but the same
        (lambda: os.utime("top", (1, 1)), {}),
        (lambda: write("top", "TOP\n"), {"top": "modified file"}),
        (lambda: write("top", "longer than before\n"), {"top": "modified file"}),
        (lambda: os.chmod("top", 0o755), {"top": "mode file"}),
        (lambda: os.chmod("src", 0o700), {"src": "mode dir"}),
        (lambda: os.unlink("top"), {"top": "deleted file"}),
        (lambda: write("n/m", "x"), {"n": "added dir", "n/m": "added file"}),
        (lambda: os.mkdir("empty"), {"empty": "added dir"}),
        (lambda: os.symlink("top", "link"), {"link": "added symlink"}),
        (many(lambda: os.unlink("top"), lambda: os.symlink("src", "top")), {"top": "type symlink"}),
        (many(lambda: os.unlink("top"), lambda: os.mkdir("top")), {"top": "type dir"}),
        (many(lambda: os.unlink("top"), lambda: write("top", "back")), {"top": "modified file"}),
        (
            lambda: shutil.rmtree("old"),
            {"old": "deleted dir", "old/x": "deleted file", "old/y": "deleted dir", "old/y/z": "deleted file"},
        ),
        (
            replace_directory,  # an opaque directory
            {"old/new": "added file", "old/x": "modified file", "old/y": "deleted dir", "old/y/z": "deleted file"},
        ),
        (
            many(lambda: shutil.rmtree("old"), lambda: write("old", "a file")),
            {"old": "type file", "old/x": "deleted file", "old/y": "deleted dir", "old/y/z": "deleted file"},
        ),
        (
            many(lambda: shutil.rmtree("old"), lambda: os.makedirs("old/y")),  # a directory in an opaque one
            {"old/x": "deleted file", "old/y/z": "deleted file"},
        ),
        (many(lambda: write("new", "x"), lambda: os.unlink("new")), {}),
        (lambda: write("src/deep/c.py", "c = 4\n"), {"src/deep/c.py": "modified file"}),
    ],
)  # fmt: skip
def test_every_act_of_a_box_is_told(world: World, act: Callable[[], None], expected: dict[str, str]) -> None:
    world.box(act)
    assert told(world) == expected


def test_a_change_says_what_was_there_and_what_is(world: World) -> None:
    def act() -> None:
        write("top", "TOP TOP\n")
        os.chmod("top", 0o750)
        os.symlink("../elsewhere", "src/link")

    world.box(act)
    found = read(world)
    top = found["top"]
    assert (top.mode, top.size, top.old.size, top.old.entry) == (0o750, 8, 4, Entry.FILE)
    assert found["src/link"].target == "../elsewhere"


def test_a_renamed_file_names_its_source(world: World) -> None:
    world.box(lambda: os.rename("notes.txt", "src/moved.txt"))
    found = read(world)
    assert found["src/moved.txt"].source == "notes.txt"
    assert found["notes.txt"].kind is Kind.DELETED


def test_a_renamed_directory_is_copied_and_each_file_names_its_source(world: World) -> None:
    world.box(lambda: rename("old", "fresh"))
    found = read(world)
    assert (found["fresh/x"].source, found["fresh/y/z"].source) == ("old/x", "old/y/z")
    assert found["old"].kind is Kind.DELETED


def test_of_equal_sources_the_one_of_the_same_name_is_taken(world: World) -> None:
    (world.base / "old/other").write_text("zed\n", "utf-8")
    world.box(lambda: rename("old", "fresh"))
    assert read(world)["fresh/y/z"].source == "old/y/z"


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (lambda: os.mkfifo("entry"), "entry"),
        (lambda: bind("entry"), "entry"),
        (many(lambda: os.unlink("top"), lambda: os.mkfifo("top")), "top"),
        (many(lambda: write("entry", "x"), lambda: os.chmod("entry", 0o4755)), "entry"),
        (lambda: os.chmod("top", 0o2755), "top"),
        (lambda: write(".git/hooks/pre-commit", "x"), ".git"),
        (lambda: write("src/.git", "gitdir: /elsewhere"), "src/.git"),
        (lambda: write("src/.GIT/config", "x"), "src/.GIT"),
        (lambda: write("src/.g\u200dit/config", "x"), "src/.g\u200dit"),
        (lambda: write("GIT~1/config", "x"), "GIT~1"),
        (lambda: os.symlink("elsewhere", ".git"), ".git"),
    ],
)
def test_what_never_comes_home_is_refused_with_a_reason(world: World, act: Callable[[], None], path: str) -> None:
    world.box(act)
    found = read(world)
    assert found[path].refused
    assert not [other for other in found if other.startswith(f"{path}/")]


def test_git_files_of_the_project_are_refused_when_changed_and_when_deleted(world: World) -> None:
    for name in (".git/HEAD", ".git/config", "sub/.git/config"):
        (world.base / name).parent.mkdir(parents=True, exist_ok=True)
        (world.base / name).write_text("x", "utf-8")
    world.box(many(lambda: write(".git/config", "evil"), lambda: shutil.rmtree("sub")))
    found = read(world)
    assert found[".git"].refused
    assert found["sub/.git"].refused
    assert "sub/.git/config" not in found
    assert ".git/config" not in found


def test_a_git_directory_that_was_only_a_mount_point_is_no_change(world: World) -> None:
    (world.base / ".git").mkdir()
    world.box(lambda: os.chmod(".git", 0o755))
    assert read(world) == {}


def test_a_hard_link_is_told_for_each_of_its_names(world: World) -> None:
    world.box(many(lambda: write("one", "x"), lambda: os.link("one", "two")))
    assert [change.links for change in read(world).values()] == [2, 2]


def test_names_that_trip_scripts_survive(world: World) -> None:
    world.box(writing(*(f"{name}/{name}" for name in ODD)))
    found = read(world)
    assert {f"{name}/{name}" for name in ODD} <= set(found)


@pytest.mark.parametrize(("name", "twin"), [("TOP", "top"), ("SRC", "src"), ("caf\u00e9", "cafe\u0301")])
def test_a_name_that_another_file_system_takes_for_a_second_one_names_its_twin(
    world: World, name: str, twin: str
) -> None:
    (world.base / "cafe\u0301").touch()
    world.box(lambda: write(name, "x"))
    assert read(world)[name].twin == twin


@pytest.mark.parametrize("marks", [("user.overlay.opaque", b"y"), ("user.overlay.whiteout", b"y")])
def test_a_box_cannot_forge_the_marks_of_the_kernel(world: World, marks: tuple[str, bytes]) -> None:
    def act() -> None:
        write("old/mine", "")
        for place in ("old", "old/mine"):
            try:
                os.setxattr(place, *marks)
            except OSError:
                continue

    world.box(act)
    assert told(world) == {"old/mine": "added file"}


def test_a_file_closed_to_its_owner_is_told_not_guessed(world: World) -> None:
    world.box(many(lambda: os.chmod("top", 0), lambda: write("n/x", "x"), lambda: os.chmod("n", 0)))
    with world.open() as (upper, base):
        found = {change.path: change for change in changes.read(upper, base).items}
    (world.upper / "n").chmod(0o700)  # let pytest clean up
    if os.geteuid() == 0:
        assert found["top"].kind is Kind.MODE
        assert "n/x" in found
    else:
        assert "chmod" in found["top"].refused
        assert [change.refused for change in found.values() if "chmod" in change.refused]


def test_a_path_too_long_for_any_program_is_refused(world: World) -> None:
    def act() -> None:
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        write("file", "x")

    world.box(act)
    found = read(world)
    longest = max(found, key=len)
    assert found[longest].refused
    assert 4095 < len(longest) < 4300


def test_more_changes_than_the_bound_are_not_all_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.box(writing(*(f"many/{number}/file" for number in range(100))))
    monkeypatch.setattr(changes, "REVIEW_ENTRIES", 50)
    with world.open() as (upper, base):
        found = changes.read(upper, base)
    assert not found.complete
    assert 50 <= len(found.items) < 60


def test_only_what_lies_below_the_named_paths_is_chosen(world: World) -> None:
    world.box(writing("src/a.py", "srcx", "top"))
    with world.open() as (upper, base):
        found = changes.read(upper, base)
    assert [change.path for change in found.below(["src/"])] == ["src/a.py"]
    assert [change.path for change in found.below(["top", "srcx"])] == ["srcx", "top"]
    assert found.below([""]) == found.items


def test_directories_stand_before_what_is_in_them(world: World) -> None:
    world.box(writing("a/b", "a-b", "a.c", "a/b2"))
    assert list(read(world)) == ["a", "a/b", "a/b2", "a-b", "a.c"]


@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", ".git ", ".git.", ".g\u200cit", "git~1", ".git::$INDEX"])
def test_all_spellings_of_git_are_known(name: str) -> None:
    assert changes.is_git(name)


@pytest.mark.parametrize("name", [".github", "git", ".gitignore", ".gitx", "x.git", "git~2"])
def test_other_names_are_not_taken_for_git(name: str) -> None:
    assert not changes.is_git(name)


def test_a_file_that_only_says_to_be_large_is_refused_before_it_is_read(world: World) -> None:
    world.box(many(lambda: write("sparse", ""), lambda: os.truncate("sparse", 1 << 42)))
    assert "paddock cp" in read(world)["sparse"].refused
