"""Agents are data: one file each, with exactly the keys we know; a user's own come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.agents import catalogue
from paddock.errors import UserError
from paddock.model import check_name

if TYPE_CHECKING:
    from pathlib import Path

OWN = 'name = "mine"\ntitle = "Mine"\nprogram = "mine"\n[interactive]\nargv = []\n'


@pytest.mark.parametrize("name", agents.built_in())
def test_every_agent_can_be_read_and_could_be_a_box(name: str) -> None:
    agent = agents.find(name).agent
    assert agent.name == name == check_name(name)
    assert agent.title
    assert agents.of(name, "") is agent


def test_all_agents_that_people_use_are_there() -> None:
    assert {"claude", "codex", "gemini", "copilot", "opencode", "kiro", "cagent", "shell"} == set(agents.built_in())
    assert agents.DEFAULT in agents.built_in()


@pytest.mark.parametrize("name", ["", "../shell", "shell.toml", "/etc/passwd", "SHELL", "shell\0"])
def test_an_agent_that_is_not_here_is_refused_with_those_that_are(name: str) -> None:
    for look in (lambda: agents.find(name), lambda: agents.of(name, "")):
        with pytest.raises(UserError) as caught:
            look()
        assert caught.value.code == "unknown-agent"
        assert "agents: cagent, claude," in caught.value.hint


def test_the_nearest_name_is_said() -> None:
    with pytest.raises(UserError) as caught:
        agents.find("cluade")
    assert caught.value.hint.startswith("did you mean 'claude'?")


def test_a_users_own_definition_is_found_and_comes_before_ours(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "mine.toml").write_text(OWN)
    (tmp_path / "agents" / "claude.toml").write_text(OWN.replace('"mine"', '"claude"'))
    found = agents.find("mine", str(tmp_path))
    assert (found.agent.title, found.definition) == ("Mine", OWN)
    assert agents.find("claude", str(tmp_path)).agent.title == "Mine"
    assert agents.find("claude").agent.title == "Claude Code"
    assert {"mine", "claude", "shell"} < set(agents.names(str(tmp_path)))
    assert agents.of("mine", OWN) == found.agent


def test_a_file_that_defines_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "other.toml").write_text(OWN)
    with pytest.raises(UserError, match="defines 'mine'"):
        agents.find("other", str(tmp_path))
    with pytest.raises(UserError, match="is of 'mine'"):
        agents.of("claude", OWN)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in (("none", "No such file"), ("binary", "not UTF-8")):
        with pytest.raises(UserError, match=why) as caught:
            agents.read(str(tmp_path / name))
        assert name in caught.value.message


def test_the_directory_of_a_users_own_may_be_missing(tmp_path: Path) -> None:
    assert agents.names(str(tmp_path)) == agents.built_in()
    assert catalogue.directory("/c") == "/c/agents"
