"""What a run asks for; boxes that are there already are tested in test_running.py and test_agentruns.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.cli import opening, parser
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.model import SecretUse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-ant-api03-" + "x" * 40


@pytest.fixture
def paddock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paddock]:
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with Paddock(home=str(tmp_path / "home")) as found:
        yield found


def options(*words: str) -> argparse.Namespace:
    return parser.parse(["run", *words])[1]


def test_an_agents_request_has_its_definition_and_a_key_of_the_callers_shell(
    paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    request, lent = opening.request(paddock, options("claude"), agents.find("claude"), ephemeral=False)
    assert (request.agent, request.definition) == ("claude", "")
    assert request.secrets == (SecretUse(name="anthropic", variable="ANTHROPIC_API_KEY"),)
    assert lent.given == {"anthropic": KEY}


def test_a_key_that_was_named_is_the_one_and_a_login_needs_none(
    paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", KEY)
    found = agents.find("claude")
    named, _ = opening.request(paddock, options("--secret", "anthropic", "claude"), found, ephemeral=False)
    assert [use.name for use in named.secrets] == ["anthropic"]
    first, _ = opening.request(paddock, options("claude"), found, ephemeral=False)
    assert [use.name for use in first.secrets] == ["claude"], "the agent's own order"
    login, _ = opening.request(paddock, options("--allow-login", "claude", "claude"), found, ephemeral=False)
    assert login.secrets == ()


def test_without_a_key_the_way_to_one_is_said(paddock: Paddock) -> None:
    with pytest.raises(UserError) as caught:
        opening.request(paddock, options("codex"), agents.find("codex"), ephemeral=False)
    assert caught.value.message == "codex has no key: there is no secret 'openai', and OPENAI_API_KEY is not set"
    assert caught.value.hint.startswith("`paddock secret set openai`")


def test_a_command_is_a_shells(paddock: Paddock) -> None:
    request, lent = opening.request(paddock, options("--", "true"), ephemeral=True)
    assert (request.agent, request.ephemeral, lent.uses) == ("shell", True, ())
