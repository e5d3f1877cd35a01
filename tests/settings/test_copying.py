"""What of a home is copied, and what stays: links, credentials, histories, and what is too much."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.settings import copying

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "ghp_0123456789abcdefghij0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / ".claude/commands/deep").mkdir(parents=True)
    (place / ".claude/CLAUDE.md").write_text("be kind\n")
    (place / ".claude/commands/one.md").write_text("one\n")
    (place / ".claude/commands/deep/run.sh").write_text("#!/bin/sh\n")
    (place / ".claude/commands/deep/run.sh").chmod(0o700)
    return place


def copied(home: Path, *paths: str) -> tuple[copying.Copied, set[str]]:
    place = home.parent / "copy"
    place.mkdir()
    found = copying.copy(os.fspath(home), paths, os.fspath(place))
    return found, {file.relative_to(place).as_posix() for file in place.rglob("*") if file.is_file()}


def test_chosen_files_are_copied_as_they_are(home: Path) -> None:
    found, files = copied(home, ".claude/CLAUDE.md", ".claude/commands", ".claude/missing")
    assert files == {".claude/CLAUDE.md", ".claude/commands/one.md", ".claude/commands/deep/run.sh"}
    assert found.paths == [".claude/CLAUDE.md", ".claude/commands"]
    assert found.warnings() == []
    script = home.parent / "copy/.claude/commands/deep/run.sh"
    assert script.read_text() == "#!/bin/sh\n"
    assert os.access(script, os.X_OK)


def test_what_looks_like_a_credential_stays_and_is_named(home: Path) -> None:
    commands = home / ".claude/commands"
    (commands / ".credentials.json").write_text("{}")
    (commands / "deploy.md").write_text(f"push with {TOKEN}\n")
    (commands / "settings.json").write_text('{"env": {"MY_TOKEN": "plain words"}}')
    (commands / "broken.json").write_text("{")
    (commands / "good.json").write_text('{"model": "opus"}')
    found, files = copied(home, ".claude/commands")
    names = {os.path.basename(path) for path in files}
    assert names == {"one.md", "run.sh", "good.json"}
    said = "\n".join(found.warnings())
    for name in (".credentials.json", "deploy.md", "settings.json", "broken.json"):
        assert name in said
    assert TOKEN not in said


def test_no_link_is_followed_and_no_history_comes(home: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    (outside / "notes.md").write_text("not chosen")
    commands = home / ".claude/commands"
    (commands / "link.md").symlink_to(outside / "notes.md")
    (commands / "dir").symlink_to(outside)
    (home / ".claude/rules").symlink_to(outside)
    (commands / "history.jsonl").write_text("{}")
    os.mkfifo(commands / "pipe")
    found, files = copied(home, ".claude/commands", ".claude/rules", ".claude/rules/notes.md")
    assert {os.path.basename(path) for path in files} == {"one.md", "run.sh"}
    said = "\n".join(found.warnings())
    for name in ("link.md", "commands/dir", ".claude/rules", "history.jsonl", "pipe"):
        assert name in said


def test_number_size_and_depth_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "SETTINGS_FILES_MAX", 3)
    monkeypatch.setattr(copying, "SETTINGS_DEPTH_MAX", 2)
    monkeypatch.setattr(copying, "SETTINGS_FILE_BYTES", 100)
    monkeypatch.setattr(copying, "SETTINGS_BYTES", 150)
    place = home / "rules"
    (place / "a/b/c").mkdir(parents=True)
    (place / "a/b/c/deep").write_text("x")
    (place / "b").write_text("x" * 101)
    (place / "c").write_text("x" * 90)
    (place / "d").write_text("x" * 90)
    for number in range(5):
        (place / f"e{number}").write_text("x")
    found, files = copied(home, "rules")
    assert files == {"rules/c", "rules/e0", "rules/e1"}
    assert found.left_out == {
        "too many": ["rules/a/b/c", "rules/e2", "rules/e3", "rules/e4"],
        "too large": ["rules/b", "rules/d"],
    }
