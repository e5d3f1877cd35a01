"""The daemon's verbs about networks: strict about their arguments, and clear about a daemon without a gateway."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.daemon import api, network_api
from paddock.errors import PaddockError, Unavailable, UserError
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS: dict[str, dict[str, object]] = {
    "network": {"box": "box", "change": {"rules": []}},
    "network_logs": {"box": ""},
    "attend": {"box": "box"},
    "policy_show": {"box": ""},
    "policy_check": {"box": "", "target": "example.com"},
    "policy_user": {"rules": []},
    "policy_rm": {"box": "", "patterns": []},
    "policy_suggest": {"box": "box"},
    "policy_pending": {},
    "policy_answer": {"ask": "1", "decision": "once"},
    "policy_approve": {"box": "box"},
    "policy_export": {"box": "", "format": "paddock"},
}


def test_every_verb_is_one_of_the_daemons() -> None:
    assert set(ARGUMENTS) == set(network_api.VERBS)
    assert set(network_api.VERBS) < set(api.VERBS)


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_without_a_gateway_a_verb_says_so(tmp_path: Path, verb: str) -> None:
    (tmp_path / "work").mkdir()

    async def act() -> None:
        async with running(tmp_path / "home") as runtime:
            await runtime.create(request(tmp_path / "work", name="box"))
            with pytest.raises(Unavailable) as caught:
                await api.call(runtime, verb, ARGUMENTS[verb])
            assert caught.value.code == "gateway"

    asyncio.run(act())


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("policy_answer", {"ask": "1", "decision": "perhaps"}),
        ("policy_export", {"box": "", "format": "xml"}),
        ("network", {"box": "box", "change": {"default": "open"}}),
        ("network", {"box": "box", "change": {"rules": [{"action": "allow"}]}}),
        ("policy_user", {"rules": [{"action": "permit", "pattern": "a.example"}]}),
        ("policy_rm", {"box": "", "patterns": "a.example"}),
    ],
)
def test_arguments_that_are_not_the_verbs_are_refused(tmp_path: Path, verb: str, args: dict[str, object]) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(UserError):
                await api.call(runtime, verb, args)

    asyncio.run(act())


def test_a_port_cannot_be_published_later(tmp_path: Path) -> None:
    async def act() -> None:
        async with running(tmp_path) as runtime:
            change = {"publish": [{"port": 8080, "box_port": 80}]}
            with pytest.raises(PaddockError) as caught:
                await api.call(runtime, "network", {"box": "box", "change": change})
            assert caught.value.code == "different"

    asyncio.run(act())
