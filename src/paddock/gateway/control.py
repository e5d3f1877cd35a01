"""What the daemon and the gateway say to each other, as values and as messages.

One SEQPACKET message holds one JSON object of at most 64 KiB. A request is {"n": number, "op": word, ...} and its reply
{"n": number, "ok": true, ...} or {"n": number, "error": {...}}. What may be large (a policy, the host's names, a
certificate authority, secrets) travels beside it as a memfd; sockets and log files travel the same way. Without being
asked the gateway says {"usage": {...}} when a box has spent something; who misses it may ask.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from paddock.errors import UserError
from paddock.limits import GATEWAY_DOCUMENT_BYTES
from paddock.metering.ledger import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MESSAGE_BYTES: Final = 64 * 1024
FDS_MAX: Final = 253  # SCM_RIGHTS carries no more in one message
BOX_FDS: Final = 7  # door, policy, audit, audit, denials, authority, secrets; then the published listeners
_INT = struct.Struct("i")

Decision = Literal["once", "no"]
Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What the jailed gateway cannot look up itself; the daemon sends it anew when it changes."""

    nameservers: tuple[str, ...] = ()  # addresses, from /etc/resolv.conf; "192.0.2.1" or "192.0.2.1#5353"
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # name -> addresses, from /etc/hosts
    proxy: str = ""  # the user's own proxy, as a URL: http://[user:password@]host:port or socks5h://...
    no_proxy: str = ""  # NO_PROXY as the user has it
    addresses: tuple[str, ...] = ()  # the host's own, which no name may lead to


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxNet:
    """A box as the gateway knows it."""

    id: str
    name: str  # as people call it, for refusals and logs
    attended: bool = False  # someone is at a terminal to be asked
    publish: tuple[int, ...] = ()  # the box port behind each published listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    version: str
    boxes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAsk:
    """A refused connection someone may still allow. `held` is false when the client was already sent away."""

    ask: str
    box: str
    host: str
    port: int
    protocol: str
    time: str
    held: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxStats:
    id: str
    sealed: bool  # its sockets are here: the box has its way out
    flows: int
    connections: int  # since it was added
    denied: int
    queries: int
    bytes_out: int
    bytes_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxUsage:
    """What a metered box spent in its life, told after every request."""

    id: str
    lines: tuple[Line, ...] = ()
    seconds: float = 0.0  # that it has run
    over: str = ""  # why nothing more is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    boxes: tuple[BoxStats, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message and the descriptors that came with it, which belong to whoever received it.

    `cut` when this process had no room for all the descriptors: then there are none, and the words are whole.
    """

    body: Json
    fds: list[int]
    cut: bool = False


def send(sock: socket.socket, body: Json, fds: Sequence[int] = ()) -> None:
    data = json.dumps(body, separators=(",", ":")).encode("ascii")
    if len(data) > MESSAGE_BYTES:
        raise UserError(f"a message of {len(data)} bytes for the gateway is too long", code="too-long")
    socket.send_fds(sock, [data], list(fds))


def receive(sock: socket.socket, most_bytes: int = MESSAGE_BYTES, most_fds: int = FDS_MAX) -> Message | None:
    """The next message; None at the end. Raises BlockingIOError, OSError, and ValueError for what is no message."""
    space = socket.CMSG_SPACE(most_fds * _INT.size)
    data, ancillary, flags, _ = sock.recvmsg(most_bytes, space, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += (number for (number,) in _INT.iter_unpack(raw[: len(raw) // _INT.size * _INT.size]))
    if not data and not fds:
        return None
    cut = bool(flags & socket.MSG_CTRUNC)
    if cut:
        close_all(fds)
        fds = []
    try:
        if flags & socket.MSG_TRUNC:
            raise ValueError("it is too long")
        body = json.loads(data)
        if not isinstance(body, dict):
            raise TypeError("it is no object")
    except (ValueError, TypeError, RecursionError) as error:
        close_all(fds)
        raise ValueError(f"not a message: {error}") from error
    return Message(body=body, fds=fds, cut=cut)


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def document(name: str, data: bytes) -> int:
    """A descriptor that holds `data`, for what does not fit into a message."""
    if len(data) > GATEWAY_DOCUMENT_BYTES:
        raise UserError(f"{name} has {len(data)} bytes, at most {GATEWAY_DOCUMENT_BYTES} are read", code="too-long")
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_document(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    if size > GATEWAY_DOCUMENT_BYTES:
        raise UserError(f"a document of {size} bytes, at most {GATEWAY_DOCUMENT_BYTES} are read", code="too-long")
    parts, offset = [], 0
    while offset < size and (part := os.pread(fd, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
