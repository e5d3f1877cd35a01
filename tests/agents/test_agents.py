"""Agents are data: one file each, with exactly the keys we know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.errors import UserError
from paddock.model import check_name

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", agents.names())
def test_every_agent_can_be_read_and_is_reserved(name: str) -> None:
    agent = agents.find(name)
    assert agent.name == name
    assert agent.interactive
    assert agent.fallback
    assert name in agents.RESERVED


def test_the_default_agent_exists() -> None:
    assert agents.DEFAULT in agents.names()


@pytest.mark.parametrize("name", sorted(agents.RESERVED))
def test_a_reserved_name_could_be_a_box(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["claude", "", "../shell", "shell.toml", "/etc/passwd", "SHELL", "shell\0"])
def test_an_agent_that_is_not_here_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(UserError) as caught:
        agents.find(name)
    assert caught.value.code == "unknown-agent"
    assert "shell" in caught.value.hint


def test_a_key_nobody_knows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new.toml").write_text('name = "new"\ninteractive = []\nfallback = []\npermissions = "all"\n')
    monkeypatch.setattr(agents, "__file__", os.fspath(tmp_path / "__init__.py"))
    with pytest.raises(UserError, match="unknown key 'permissions'"):
        agents.find("new")
