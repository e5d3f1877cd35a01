"""A RUN of a Dockerfile as a box: what it is asked for. tests/boxes/test_template_builds.py runs some."""

from __future__ import annotations

import asyncio
import socket

import pytest

from paddock import frames
from paddock.errors import Unavailable, UserError
from paddock.model import EngineName, Network, NetworkRule
from paddock.runtime import steps

WAY = steps.Way(place="/w", network=Network(rules=(NetworkRule(action="allow", pattern="a.test"),)), runtime="crun")


def test_its_box_has_its_root_and_what_it_may_reach() -> None:
    spec = steps._spec(("one", "two"), WAY, has_network=True)
    assert (spec.layers, spec.bare, spec.ephemeral, spec.engine) == (("one", "two"), True, True, EngineName.CONTAINER)
    assert (spec.mounts, spec.secrets, spec.env, spec.template) == ((), (), {}, "")
    assert [rule.pattern for rule in spec.network.rules] == ["a.test"]
    assert spec.limits.wall_s
    closed = steps._spec(("one",), WAY, has_network=False).network
    assert (closed.rules, closed.project) == ((), '[network]\ndefault = "deny"\n')


def _answered(*parts: bytes) -> tuple[int, bytes]:
    async def act() -> tuple[int, bytes]:
        said = bytearray()

        async def output(_kind: int, data: bytes) -> None:
            said.extend(data)

        ours, theirs = socket.socketpair()
        with ours, theirs:
            for part in parts:
                theirs.sendall(part)
            theirs.shutdown(socket.SHUT_WR)
            code = await steps._exit_code(ours, output)
        return code, bytes(said)

    return asyncio.run(act())


def test_output_is_passed_on_until_the_exit_code() -> None:
    started = frames.encode_message({"event": "started", "pid": 2})
    end = frames.encode_message({"event": "exit", "code": 3})
    words = frames.encode(frames.STDOUT, b"out"), frames.encode(frames.STDERR, b"err")
    assert _answered(started, *words, end) == (3, b"outerr")


@pytest.mark.parametrize(
    "message",
    [{"event": "exit"}, {"event": "exit", "code": True}, {"event": "exit", "code": 256}, {"event": "exit", "code": -1}],
)
def test_a_hostile_init_is_not_believed(message: dict[str, object]) -> None:
    with pytest.raises(Unavailable, match="malformed"):
        _answered(frames.encode_message(message))


def test_what_it_refuses_or_leaves_unsaid_is_an_error() -> None:
    with pytest.raises(Unavailable, match="ended before"):
        _answered()
    with pytest.raises(UserError, match="no user"):
        _answered(frames.encode_message({"event": "error", "code": "bad-user", "message": "no user"}))
