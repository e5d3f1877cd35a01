"""The danger report: WS-05, WS-10 to WS-13, WS-18, WS-19."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from paddock.workspace import changes
from paddock.workspace.changes import Change, Kind
from paddock.workspace.danger import Danger, Examiner, classify
from paddock.workspace.entries import Entry, Seen
from tests.workspace.worlds import World, write

if TYPE_CHECKING:
    from collections.abc import Callable


def added(path: str, mode: int = 0o644, **more: object) -> Change:
    return Change(path=path, kind=Kind.ADDED, new=Seen(entry=Entry.FILE, mode=mode), **more)  # type: ignore[arg-type]


def kinds(found: tuple[Danger, ...]) -> set[str]:
    return {one.kind for one in found}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".gitattributes", "git"), ("sub/.gitmodules", "git"), (".githooks/pre-push", "git"),
        (".husky/pre-commit", "hooks"), (".husky/_/husky.sh", "hooks"), (".pre-commit-config.yaml", "hooks"),
        ("lefthook.yml", "hooks"), (".lintstagedrc.json", "hooks"),
        (".github/workflows/ci.yml", "ci"), (".github/actions/x/action.yml", "ci"), (".gitlab-ci.yml", "ci"),
        ("Jenkinsfile", "ci"), (".circleci/config.yml", "ci"),
        (".vscode/tasks.json", "ide"), (".vscode/settings.json", "ide"), (".idea/workspace.xml", "ide"),
        ("x.code-workspace", "ide"), (".devcontainer/devcontainer.json", "ide"), (".dir-locals.el", "ide"),
        (".envrc", "shell"), (".tool-versions", "shell"), ("mise.toml", "shell"), (".env.local", "shell"),
        (".npmrc", "packages"), (".yarnrc.yml", "packages"), ("Gemfile", "packages"),
        ("Makefile", "build"), ("sub/GNUmakefile", "build"), ("justfile", "build"), ("setup.py", "build"),
        ("build.rs", "build"), (".cargo/config.toml", "build"), ("CMakeLists.txt", "build"), ("flake.nix", "build"),
        ("build.gradle.kts", "build"), (".bazelrc", "build"), ("vite.config.ts", "build"),
        ("conftest.py", "tests"), ("a/b/conftest.py", "tests"), (".eslintrc.cjs", "tests"),
        ("Dockerfile", "containers"), ("Dockerfile.dev", "containers"), ("docker-compose.yml", "containers"),
        ("compose.yaml", "containers"), ("main.tf", "containers"),
        ("sitecustomize.py", "python"), ("lib/x.pth", "python"), ("__pycache__/a.cpython-311.pyc", "python"),
        ("CLAUDE.md", "agent"), ("AGENTS.md", "agent"), (".claude/settings.json", "agent"), (".mcp.json", "agent"),
        (".cursor/rules/x.mdc", "agent"), (".codex/config.toml", "agent"), (".gemini/settings.json", "agent"),
        (".github/copilot-instructions.md", "agent"),
        # Other spellings that a file system may take for the same name.
        ("makefile", "build"), ("MAKEFILE", "build"), (".ENVRC", "shell"), (".VsCode/tasks.json", "ide"),
        ("Makefile.", "build"), (".envrc ", "shell"), (".Hus\u212aY/pre-commit", "hooks"),
        ("sub/.git/config", "git"), (".g\u200bit/config", "git"),
    ],
)  # fmt: skip
def test_a_file_that_the_host_obeys_is_told_by_its_name(path: str, kind: str) -> None:
    assert kind in kinds(classify(added(path), None, b""))


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "src/main.py",
        "src/hooks/useThing.ts",
        "docs/makefile.md",
        "tests/test_env.py",
        "a.txt",
        "lib/git.py",
    ],
)
def test_an_ordinary_file_is_no_danger(path: str) -> None:
    assert classify(added(path), None, b"ordinary\n") == ()


def test_a_deletion_is_no_danger() -> None:
    change = Change(path="Makefile", kind=Kind.DELETED, old=Seen(entry=Entry.FILE))
    assert classify(change, b"all:\n", None) == ()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (added("tool", 0o755), "executable"),
        (added("tool", 0o654), "executable"),
        (added("shared", 0o666), "open"),
        (Change(path="d", kind=Kind.ADDED, new=Seen(entry=Entry.DIR, mode=0o777)), "open"),
        (added("one", links=2), "hard link"),
        (added("README", twin="readme"), "collision"),
        (added("gnp\u202etxt"), "name"),
        (added("line\nbreak"), "name"),
        (
            Change(
                path="x",
                kind=Kind.MODE,
                new=Seen(entry=Entry.FILE, mode=0o755),
                old=Seen(entry=Entry.FILE, mode=0o644),
            ),
            "executable",
        ),
        (Change(path="x", kind=Kind.TYPE, new=Seen(entry=Entry.FILE), old=Seen(entry=Entry.DIR)), "type"),
    ],
)
def test_an_entry_with_a_twist_is_told(change: Change, kind: str) -> None:
    assert kinds(classify(change, None, b"")) == {kind}


def test_a_file_that_could_be_run_before_is_told_for_nothing_new() -> None:
    seen = Seen(entry=Entry.FILE, mode=0o755)
    assert classify(Change(path="x", kind=Kind.MODIFIED, new=seen, old=seen), b"a", b"b") == ()


@pytest.mark.parametrize("entry", [Entry.FILE, Entry.DIR])
def test_what_everybody_could_write_to_before_is_told_for_nothing_new(entry: Entry) -> None:
    seen = Seen(entry=entry, mode=0o666)
    assert classify(Change(path="x", kind=Kind.MODIFIED, new=seen, old=seen), b"a", b"b") == ()


@pytest.mark.parametrize(
    ("target", "is_told"),
    [
        ("/etc/passwd", True),
        ("/proc/self/root", True),
        ("../outside", True),
        ("../../../../etc", True),
        ("sub/../../outside", True),
        ("../.git/config", True),
        ("..", False),
        ("file", False),
        ("../other/file", False),
        ("./sub/../file", True),
    ],
)
def test_a_link_is_told_when_it_leaves_the_project(target: str, is_told: bool) -> None:
    path = "link" if target == "../outside" else "dir/link"
    change = Change(path=path, kind=Kind.ADDED, new=Seen(entry=Entry.SYMLINK, target=target))
    assert kinds(classify(change, None, None)) == ({"symlink"} if is_told else set())


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "if user != 'admin\u202e \u2066':", "hidden text"),
        ("", "zero\u200bwidth", "hidden text"),
        ("", "tags\U000e0041", "hidden text"),
        ("", "letters\u200djoined", "hidden text"),
        ("", "esc \x1b[8m hidden", "hidden text"),
        ("", "over\rwritten", "hidden text"),
        ("a\u200b", "a\u200b\u200b", "hidden text"),
        ("", "x" * 3000, "minified"),
        ("", "\x7fELF\2\1\1\0", "program"),
        ("", "\ufeffa byte order mark at the start", ""),
        ("", "\u2764\ufe0f and \U0001f469\u200d\U0001f4bb", ""),
        ("", "dos\r\nlines\r\n", ""),
        ("", "ordinary \u00fcml\u00e4ut", ""),
        ("was\u200bthere", "was\u200bthere still", ""),
        ("x" * 3000, "y" * 3000, ""),
    ],
)
def test_text_that_reads_other_than_it_is_is_told(old: str, new: str, kind: str) -> None:
    assert kinds(classify(added("file.txt"), old.encode(), new.encode())) == ({kind} if kind else set())


def test_a_file_that_nobody_can_read_through_is_told() -> None:
    assert kinds(classify(added("data"), None, None)) == {"huge"}


def examine(world: World) -> dict[str, set[str]]:
    with world.open() as (upper, base):
        found = Examiner(upper, base).examine(changes.read(upper, base).items)
    return {path: kinds(dangers) for path, dangers in found.items()}


def in_turn(*acts: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        for one in acts:
            one()

    return act


def chain() -> None:
    os.symlink("/etc", "out")
    os.symlink("out/passwd", "chain")


def repository() -> None:
    for name in ("HEAD", "config", "objects/x", "refs/x"):
        write(f"repo/{name}", "x")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda: write("package.json", '{"scripts": {"postinstall": "evil"}}'), {"package.json": {"packages"}}),
        (lambda: write("package.json", '{"name": "x"}'), {}),
        (lambda: write("package.json", '{"name": "x", "name": "y"}'), {"package.json": {"packages"}}),
        (
            repository,
            {f"repo/{name}": {"nested repository"} for name in
             ("HEAD", "config", "objects", "objects/x", "refs", "refs/x")},
        ),
        (lambda: os.symlink("top", "src/inward"), {}),
        (chain, {"out": {"symlink"}, "chain": {"symlink"}}),
        (lambda: write("yarn.lock", 'resolved "https://evil.test/x.tgz"'), {"yarn.lock": {"lock file"}}),
    ],
)  # fmt: skip
def test_changes_are_examined_where_they_are(
    world: World, act: Callable[[], None], expected: dict[str, set[str]]
) -> None:
    world.box(act)
    assert examine(world) == expected


def test_what_lies_behind_a_link_of_the_host_is_told_by_the_links_name(world: World) -> None:
    """A project may keep its editor's tasks elsewhere; a new link gives files that are there already another name."""
    os.symlink("src", world.base / ".vscode")
    os.symlink("notes.txt", world.base / "Makefile")
    texts = {"src/tasks.json": "{}", "notes.txt": "all:", "other": "x"}
    world.box(in_turn(*(partial(write, *item) for item in texts.items())))
    assert examine(world) == {"src/tasks.json": {"ide"}, "notes.txt": {"build"}}


def test_a_directory_that_a_new_link_makes_a_trusted_one_is_told(world: World) -> None:
    def act() -> None:
        write("meta/workflows/ci.yml", "on: push")
        os.symlink("meta", ".github")

    world.box(act)
    assert examine(world)["meta/workflows/ci.yml"] == {"ci"}


def test_a_link_whose_way_can_be_turned_later_is_told_at_once(world: World) -> None:
    """Three changes, each harmless by itself: the link, the way to it removed, and a link in the place of the way."""
    world.box(lambda: os.symlink("src/../../x", "d"))
    assert examine(world) == {"d": {"symlink"}}
    world.box(in_turn(lambda: os.unlink("d"), lambda: os.symlink("./src/../top", "d")))
    assert examine(world) == {"d": {"symlink"}}


def test_a_bare_repository_is_told_however_many_times_it_takes_to_come(world: World) -> None:
    write(os.fspath(world.base / "repo/HEAD"), "ref: refs/heads/main\n")
    world.box(lambda: os.makedirs("repo/objects"))
    assert examine(world) == {"repo/objects": {"nested repository"}}
    world.box(in_turn(lambda: os.rmdir("repo/objects"), lambda: write("repo/commondir", "../elsewhere")))
    assert examine(world) == {"repo/commondir": {"nested repository"}}


def test_what_the_repositorys_own_settings_make_git_obey_is_told(world: World) -> None:
    write_both = [partial(write, name, "x") for name in ("src/hooks/pre-commit", "notes.txt")]
    world.box(in_turn(*write_both, lambda: os.symlink("src", "team")))
    with world.open() as (upper, base):
        found = Examiner(upper, base, ("src/hooks", "team/config")).examine(changes.read(upper, base).items)
    assert {path: kinds(dangers) for path, dangers in found.items()} == {
        path: {"git"} for path in ("src/hooks", "src/hooks/pre-commit", "team")
    }


def test_what_is_refused_needs_no_report(world: World) -> None:
    world.box(lambda: os.mkfifo("Makefile"))
    assert examine(world) == {}
