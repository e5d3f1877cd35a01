"""A build, followed on blocking calls."""

from __future__ import annotations

import socket

import pytest

from paddock import codec, frames
from paddock.client._sync.builds import Build
from paddock.client.transport import Channel
from paddock.errors import UserError
from paddock.model.build import BuildInfo

MADE = BuildInfo(name="a", tag="b", digest="", layers=1, steps=1)


def test_it_is_told_to_its_end() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(frames.encode_message({"event": "note", "text": "wait"}))
        ours.sendall(frames.encode_message({"event": "built", "template": codec.to_wire(MADE)}))
        build = Build(Channel(theirs.detach()))
        assert build.finish() == MADE
        assert repr(build) == "<Build a>"
        assert ours.recv(1) == b"", "it let go"


def test_what_failed_is_raised() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(frames.encode_message({"event": "error", "error": UserError("line 3", code="x").to_wire()}))
        with pytest.raises(UserError, match="line 3"):
            Build(Channel(theirs.detach())).finish()
