"""Live mode's trusted files are read-only where they are and reported where they are new; secrets are named."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.workspace import guarded, nested
from paddock.workspace.tree import Memory
from tests.workspace.scenes import enter

if TYPE_CHECKING:
    from pathlib import Path


def survey(work: Path) -> guarded.Survey:
    found = guarded.Survey()
    nested.find(os.fspath(work), Memory(guarded.marked), look=found.look)
    return found


def fill(work: Path, *names: str) -> Path:
    for name in names:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    return work


@pytest.mark.parametrize("name", [name for name, _ in guarded.TRUSTED])
def test_every_trusted_name_is_closed_and_cannot_be_replaced(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    name = name.replace("*", "any")
    fill(work, f"{name}/inner" if "." not in name[1:] and name.startswith(".") else name)
    found = guarded.existing(os.fspath(work))
    assert [item.path for item in found.closed] == [name]
    mounts = guarded.mounts(os.fspath(work), found)
    script = f"set +e; echo y > '{name}'; echo y > '{name}/inner'; mv '{name}' moved; rm -rf '{name}'; touch free; true"
    (tmp_path / "private").mkdir()
    enter(list(mounts), script, work, tmp_path / "private")
    assert sorted(os.listdir(work)) == sorted([name, "free"])
    place = work / name / "inner" if (work / name).is_dir() else work / name
    assert place.read_text() == "x"
    enter([], script, work, tmp_path / "private")  # the oracle
    assert name not in os.listdir(work)


def test_the_table_is_in_order() -> None:
    names = [name for name, _ in guarded.TRUSTED]
    assert names == [name.casefold() for name in names]
    assert len(names) == len(set(names))
    assert all(why for _, why in guarded.TRUSTED)


def test_other_files_are_the_boxs(tmp_path: Path) -> None:
    fill(tmp_path, "src/main.py", "README.md", ".gitignore", ".github/workflows/x.yml", "package.json", "Makefile")
    assert guarded.existing(os.fspath(tmp_path)) == guarded.Existing(closed=(), links=())


def test_another_case_counts(tmp_path: Path) -> None:
    fill(tmp_path, ".VSCode/tasks.json", ".Envrc")
    assert [item.path for item in guarded.existing(os.fspath(tmp_path)).closed] == [".Envrc", ".VSCode"]


def test_a_link_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / ".claude").symlink_to("/elsewhere")
    found = guarded.existing(os.fspath(tmp_path))
    assert ([item.path for item in found.links], found.closed) == ([".claude"], ())


def test_what_the_user_opened_is_writable_and_the_rest_is_not(tmp_path: Path) -> None:
    work = fill(tmp_path / "work", ".claude/settings.json", ".claude/commands/a.md", ".vscode/tasks.json", ".envrc")
    writable = tuple(guarded.check_writable(os.fspath(work), path) for path in (".claude/commands", f"{work}/.vscode"))
    assert writable == (".claude/commands", ".vscode")
    mounts = guarded.mounts(os.fspath(work), guarded.existing(os.fspath(work)), writable)
    (tmp_path / "private").mkdir()
    names = ".claude/settings.json .claude/commands/a.md .vscode/tasks.json .envrc"
    script = f"set +e; for name in {names}; do echo y > $name; done; true"
    enter(list(mounts), script, work, tmp_path / "private")
    changed = [
        path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file() and path.read_text() == "y\n"
    ]
    assert sorted(changed) == [".claude/commands/a.md", ".vscode/tasks.json"]


def test_new_and_changed_ones_are_reported_at_every_depth(tmp_path: Path) -> None:
    fill(tmp_path, ".vscode/tasks.json", "deep/er/.idea/x", "deep/.husky/_/pre-commit", "deep/.claude/settings.json")
    before = survey(tmp_path)
    since_ns = time.time_ns()
    while time.time_ns() < since_ns + 50_000_000:  # the clock of the file system ticks in steps
        (tmp_path / "tick").touch()
    fill(tmp_path, ".envrc", "deep/er/.idea/x", "deep/.husky/_/pre-commit", "sub/.mcp.json", "plain/file")
    after = survey(tmp_path)
    expected = [".envrc", "deep/.husky", "deep/er/.idea", "sub/.mcp.json"]
    assert [item.path for item in guarded.created(before, after, since_ns)] == expected
    assert [item.path for item in guarded.created(None, after, since_ns)] == expected  # without a look before
    assert guarded.created(before, after, since_ns)[0].why == "direnv runs it"
    assert ".envrc" not in [item.path for item in guarded.created(before, after, since_ns, (".envrc",))]
    assert repr(after) == "<Survey of 6 places>"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (".env", True),
        (".env.local", True),
        (".env.production", True),
        ("prod.env", True),
        (".ENV", True),
        ("server.key", True),
        ("cert.pem", True),
        ("id_ed25519", True),
        ("terraform.tfstate", True),
        (".npmrc", True),
        ("secrets.yaml", True),
        (".env.example", False),
        (".env.sample", False),
        (".env.template", False),
        ("id_ed25519.pub", False),
        ("main.py", False),
        ("environment.py", False),
        (".envrc", False),
        ("keyboard", False),
    ],
)
def test_files_that_look_secret_are_named(tmp_path: Path, name: str, secret: bool) -> None:
    assert guarded.looks_secret(name) is secret
    fill(tmp_path, f"config/{name}", "node_modules/x/.env")
    seen = [f"config/{name}"] if secret else []
    assert guarded.visible_secrets(os.fspath(tmp_path)) == seen
    assert survey(tmp_path).secrets == seen
    assert guarded.unmasked(seen, ()) == tuple(seen)
    assert guarded.unmasked(seen, ("config",)) == ()
    assert guarded.unmasked(seen, (f"config/{name}", "x")) == ()
    assert guarded.unmasked(seen, ("con",)) == tuple(seen)
    assert guarded.visible_secrets(os.fspath(tmp_path), entries_max=0) == []


def test_everything_that_is_looked_for_is_marked() -> None:
    wanted = [name for name, _ in guarded.TRUSTED] + list(guarded.SECRET) + [".git", "git~2", *nested.BARE, ".ｇｉｔ"]
    names = [name.replace("*", "any") for name in wanted]
    names += [name.upper() for name in names if name not in nested.BARE] + [
        "ſecrets.json",
        ".K\u212airo",
        "\u212aubeconfig",
    ]
    marked = guarded.marked("", names)
    assert marked == [
        name for name in names if guarded.why(name) or guarded.looks_secret(name) or nested.marked("", [name])
    ]
    assert set(names) - set(marked) == {".K\u212airo"}
    assert guarded.marked("src", ["main.py", ".gitignore", ".github", "HEADER", "environment", "é"]) == []
    assert guarded.marked("src/.vscode/x", ["main.py"]) == ["main.py"]


def test_the_command_that_hides_them_can_be_typed() -> None:
    words = guarded.mask_words([".env", "with space/.env", "a\x1b[2J.env", "$(x).pem"])
    assert words == "--mask .env --mask 'with space/.env' --mask '$(x).pem'"


@pytest.mark.parametrize("check", [guarded.check_mask, guarded.check_writable])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../outside", "not inside"),
        ("/etc/passwd", "not inside"),
        ("", "not inside"),
        (".", "not inside"),
        (".vscode/../../x", "not inside"),
        (".vscode/link/passwd", "behind a link"),
        (".vscode/link", "neither a file"),
        (".vscode/fifo", "neither a file"),
        (".vscode/missing", "does not exist"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(
    tmp_path: Path, check: Callable[[str, str], str], path: str, said: str
) -> None:
    work = fill(tmp_path / "work", ".vscode/tasks.json")
    (work / ".vscode/link").symlink_to("/etc")
    os.mkfifo(work / ".vscode/fifo")
    with pytest.raises(UserError, match=said):
        check(os.fspath(work), path)


if TYPE_CHECKING:
    from collections.abc import Callable


def test_only_what_is_closed_can_be_opened_and_git_cannot_be_hidden(tmp_path: Path) -> None:
    fill(tmp_path, ".vscode/x", "src/y", ".git/config", "src/.env")
    assert guarded.check_writable(os.fspath(tmp_path), "./.vscode//x") == ".vscode/x"
    assert guarded.check_mask(os.fspath(tmp_path), f"{tmp_path}/src/.env") == "src/.env"
    for path in ("src", ".git/config"):
        with pytest.raises(UserError, match="is not closed"):
            guarded.check_writable(os.fspath(tmp_path), path)
    with pytest.raises(UserError, match="git's own"):
        guarded.check_mask(os.fspath(tmp_path), ".git/config")
