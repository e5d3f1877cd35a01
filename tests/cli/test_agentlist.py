"""Agents are listed with where a box finds each, and shown in words; no daemon is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.cli import agentlist
from paddock.cli.main import main
from paddock.errors import UserError
from tests.support.tools import agent, define, publish, put, text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home/.local/bin").mkdir(parents=True)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/home/.local/bin")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setattr("paddock.cli.agentlist.home_directory", lambda: str(tmp_path / "home"))
    return tmp_path


def _rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["agent", "ls", "--json"]) == 0
    return {str(row["name"]): row for row in json.loads(capsys.readouterr().out)}


def test_every_agent_is_listed_with_its_program_and_its_key(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    define(home / "config")
    rows = _rows(capsys)
    assert {"claude", "codex", "gemini", "copilot", "opencode", "kiro", "cagent", "demo"} == set(rows)
    assert (rows["claude"]["origin"], rows["claude"]["key"]) == ("", "")
    assert rows["claude"]["keys"] == ["claude", "anthropic"]
    assert rows["demo"]["source"] == f"{home}/config/agents/demo.toml"
    program = put(home / "home/.local/bin", name="claude")
    publish(home / "state")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-" + "x" * 93 + "AA")
    rows = _rows(capsys)
    assert (rows["claude"]["origin"], rows["claude"]["program"]) == ("host", str(program))
    assert rows["claude"]["key"] == "anthropic ($ANTHROPIC_API_KEY)"
    assert (rows["demo"]["origin"], rows["demo"]["version"]) == ("tool", "1.0.0")
    assert main(["agent", "ls"]) == 0
    said = capsys.readouterr().out
    assert "tool 1.0.0" in said
    assert "not installed" in said
    assert "missing: openai" in said
    assert "sk-ant" not in said
    assert main(["agent", "ls", "-q"]) == 0
    assert "demo" in capsys.readouterr().out.split()


def test_one_damaged_file_does_not_hide_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(home / "config")
    (home / "config/agents/bad.toml").write_text("name = 3")
    assert "demo" in _rows(capsys)


def test_a_program_that_a_box_does_not_see_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "home/private").mkdir()
    (home / "home/.local/bin/claude").symlink_to(put(home / "home/private", name="claude"))
    assert main(["agent", "show", "claude"]) == 0
    assert "which a box does not see" in capsys.readouterr().out


def test_a_definition_is_shown_in_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "show", "claude"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert "api.anthropic.com:443" in lines["hosts"]
    assert "~/.claude" in lines["state"]
    assert lines["keys"] == "one of claude, anthropic; none is there"
    assert lines["headless"].startswith("claude -p --dangerously-skip-permissions")
    assert "[--model MODEL]" in lines["headless"]
    assert "[--continue | --resume ID]" in lines["headless"]
    assert lines["headless"].endswith("[FLAGS] [-- PROMPT]")


def test_a_definition_is_shown_to_programs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "mine.toml"
    file.write_text(text("mine"))
    assert main(["agent", "show", "--json", "--agent-file", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["definition"]["headless"]["argv"][0] == "-p"
    assert shown["info"]["name"] == "mine"


def test_text_of_a_file_is_made_harmless(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(home / "config", more='fallback = "x"').write_text(text().replace('"Demo"', '"De\\u001b[2Jmo"'))
    for verb in (["ls"], ["show", "demo"]):
        assert main(["agent", *verb]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert r"De\x1b[2Jmo" in said


def test_an_unknown_agent_is_met_with_the_list_and_the_nearest_name(home: Path) -> None:
    with pytest.raises(UserError, match="there is no agent 'claud'") as caught:
        agentlist.chosen("claud", "", str(home / "config"))
    assert "did you mean 'claude'?" in caught.value.hint
    assert "opencode" in caught.value.hint
    file = define(home / "config")
    assert agentlist.chosen("demo", "", str(home / "config")).agent == agent()
    with pytest.raises(UserError, match="the file defines 'demo', not 'claude'"):
        agentlist.chosen("claude", str(file), "")
    with pytest.raises(UserError, match="which agent"):
        agentlist.chosen("", "", "")
