"""The user's agent, asked for its keys by a program that waits."""

from __future__ import annotations

import os
import struct

from paddock import fs
from paddock.errors import Unavailable
from paddock.limits import AGENT_MESSAGE_BYTES
from paddock.sshagent import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_TIMEOUT_S = 10.0


def keys(path: str) -> list[tuple[bytes, str]]:
    """Keys and what their owner calls them; Unavailable if nobody answers."""
    try:
        with fs.connect_unix(os.path.dirname(path), os.path.basename(path)) as peer:
            peer.settimeout(_TIMEOUT_S)
            peer.sendall(wire.framed(bytes([wire.REQUEST_IDENTITIES])))
            (size,) = struct.unpack(">I", _exactly(peer, 4))
            if not 0 < size <= AGENT_MESSAGE_BYTES:
                raise wire.Malformed
            answer = _exactly(peer, size)
    except OSError as error:
        hint = "start one: eval $(ssh-agent); ssh-add"
        raise Unavailable(
            f"the ssh-agent does not answer: {error.strerror or error}", hint=hint, code="agent"
        ) from error
    if answer[0] != wire.IDENTITIES:
        raise Unavailable("the ssh-agent does not say its keys", hint="is it locked?", code="agent")
    return [(key, comment.decode("utf-8", "replace")) for key, comment in wire.identities_of(answer[1:])]


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise wire.Malformed
        data += piece
    return data
