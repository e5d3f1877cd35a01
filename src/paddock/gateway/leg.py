"""A socket with TLS on it, on the gateway's poller: never waits, and keeps no more than was not taken at once."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from paddock.gateway.flow import reset
from paddock.gateway.poller import READ, WRITE
from paddock.limits import FLOW_GATE_S, FLOW_GATED_LEAST_BYTES, INSPECTED_READ_BYTES, TLS_UNHEARD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.poller import Poller
    from paddock.gateway.tls import Tls


class Leg:
    """`ready` is called when there is something to read, or room for what waits to be sent."""

    __slots__ = (
        "_mask",
        "_poller",
        "_ready",
        "_rest",
        "_unheard",
        "ended",
        "read_bytes",
        "received",
        "sent",
        "sock",
        "tls",
    )

    def __init__(self, poller: Poller, sock: socket.socket, tls: Tls, ready: Callable[[int], None]) -> None:
        self._poller = poller
        self._ready = ready
        self._mask = 0
        self._rest = b""
        self._unheard = 0  # bytes that TLS itself had to say since the other end took the last of them
        self.sock = sock
        self.tls = tls
        self.ended = False  # the other end sends no more, whether it said so or not
        self.sent = self.received = 0
        self.read_bytes = 4 * FLOW_GATED_LEAST_BYTES

    def __repr__(self) -> str:
        return f"<Leg fd {self.sock.fileno()} {self.tls!r}, {len(self._rest)} bytes wait>"

    @property
    def blocked(self) -> bool:
        return bool(self._rest)

    def read(self) -> bytes:
        """What one read gives; nothing when nothing whole came. Raises OSError, of which ssl.SSLError is one."""
        try:
            data = self.sock.recv(self.read_bytes)
        except BlockingIOError:
            return b""
        if not data:
            self.ended = True
            return b""
        return self.feed(data)

    def feed(self, data: bytes) -> bytes:
        self.received += len(data)
        said, reply = self.tls.feed(data)
        if reply:
            self._reply(reply)
        if self.tls.ended:
            self.ended = True
        return said

    def took(self, began: float) -> None:
        """What was read is dealt with: of bytes that are slow to understand fewer are read at once."""
        spent = time.monotonic() - began
        if spent > FLOW_GATE_S:
            self.read_bytes = max(self.read_bytes // 2, FLOW_GATED_LEAST_BYTES)
        elif self.read_bytes < INSPECTED_READ_BYTES and spent < FLOW_GATE_S / 2:
            self.read_bytes *= 2

    def send(self, data: bytes) -> None:
        self._put(self.tls.write(data))

    def flush(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, b""
            self._put(rest)

    def acknowledge(self) -> None:
        """Tell the client at once that its last word was read: its kernel may hold the next back until then (Nagle).

        We have nothing to say after a handshake, and the acknowledgement alone would wait for 40 ms.
        """
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def say_hello(self) -> None:
        """A client begins."""
        self._put(self.tls.begin())

    def want(self, *, reading: bool, soon: bool = False) -> None:
        """Wait for what is there to wait for; `soon`: be called in any case."""
        mask = (READ if reading and not self.ended else 0) | (WRITE if self._rest or soon else 0)
        if mask == self._mask:
            return
        known, self._mask = self._mask, mask
        if not mask:
            self._poller.forget(self.sock.fileno())
        elif known:
            self._poller.change(self.sock.fileno(), mask)
        else:
            self._poller.watch(self.sock.fileno(), mask, self._ready)

    def say_goodbye(self, *, properly: bool) -> None:
        """Nothing more is sent, and the other end hears that; it may still send."""
        if properly:
            self._put(self.tls.close())
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._forget()
        self.sock.close()

    def reset(self) -> None:
        self._forget()
        reset(self.sock)

    def _forget(self) -> None:
        self._ready = _nothing
        if self._mask:
            self._mask = 0
            self._poller.forget(self.sock.fileno())

    def _reply(self, data: bytes) -> None:
        """TLS answers whoever asks for new keys: one who asks and does not read would fill our memory."""
        self._put(data)
        self._unheard = self._unheard + len(data) if self._rest else 0
        if self._unheard > TLS_UNHEARD_BYTES:
            raise ConnectionAbortedError("it does not read what TLS answers")

    def _put(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        self.sent += sent
        if sent < len(data):
            self._rest = data[sent:]


def _nothing(_events: int) -> None:
    """For who is called no more."""
