"""Relays one connection: a client in the box, a server outside, bytes both ways until both have ended.

Theory. A read is sent on in the same callback, so most bytes cost one event and two system calls. What the other side
does not take at once is kept, and nothing more is read from where it came until it is gone: that is all of the
back-pressure, and it bounds a flow to one read per direction. A direction that has moved a lot goes on through a pipe
with splice, so that its bytes no longer pass through Python (prototype: half the processor time).

A gate looks at what the client sends before the server gets it: it returns what may pass, or raises. A flow with a gate
never splices in that direction.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import time
from typing import TYPE_CHECKING, Final

from paddock.gateway.poller import READ, WRITE
from paddock.limits import (
    FLOW_CHUNK_BYTES,
    FLOW_GATE_S,
    FLOW_GATED_BYTES,
    FLOW_GATED_LEAST_BYTES,
    FLOW_HAND_BACK_S,
    FLOW_PIPE_BYTES,
    FLOW_SPLICE_AFTER_BYTES,
    FLOW_TURN_BYTES,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from paddock.gateway.pipes import Pipes
    from paddock.gateway.poller import Poller

    Gate = Callable[[bytes], bytes]

log = logging.getLogger(__name__)
_RESET: Final = struct.pack("ii", 1, 0)
_NONBLOCK: Final = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


def reset(sock: socket.socket) -> None:
    """Close with RST instead of FIN: the other side hears at once that this was no orderly end."""
    if sock.fileno() < 0:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except OSError:
        pass
    sock.close()


class Direction:
    """Bytes on their way from one socket to the other."""

    __slots__ = ("count", "ended", "finished", "gate", "gated_bytes", "pipe", "piped", "rest", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.gate: Gate | None = None
        self.gated_bytes = FLOW_GATED_LEAST_BYTES  # that one read gives to the gate
        self.rest = b""  # read, and not yet taken by the sink
        self.pipe: tuple[int, int] | None = None
        self.piped = 0  # bytes in the pipe
        self.count = 0  # bytes the sink has taken
        self.ended = False  # the source will send no more
        self.finished = False  # and the sink has been told

    def took(self, gate_s: float) -> None:
        """How long the gate looked: of bytes that are slow to understand fewer are read at once."""
        if gate_s > FLOW_GATE_S:
            self.gated_bytes = max(self.gated_bytes // 2, FLOW_GATED_LEAST_BYTES)
        elif gate_s < FLOW_GATE_S / 4:
            self.gated_bytes = min(self.gated_bytes * 2, FLOW_GATED_BYTES)

    @property
    def blocked(self) -> bool:
        return bool(self.rest) or self.piped > 0


class Flow:
    """Both sockets belong to the flow from now on. `on_end` is called once, when they are closed."""

    __slots__ = (
        "_masks",
        "_on_end",
        "_pipes",
        "_poller",
        "_taker",
        "_timer",
        "active",
        "client",
        "closed",
        "inward",
        "outward",
        "server",
    )

    def __init__(
        self,
        poller: Poller,
        pipes: Pipes,
        client: socket.socket,
        server: socket.socket,
        on_end: Callable[[], None],
    ) -> None:
        self._poller = poller
        self._pipes = pipes
        self._on_end = on_end
        self.client = client
        self.server = server
        self.outward = Direction(client, server)
        self.inward = Direction(server, client)
        self._masks = [0, 0]  # of the client, of the server
        self._taker: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.active = poller.now
        self.closed = False

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<Flow {state} out {self.outward.count} in {self.inward.count}>"

    @property
    def sent(self) -> int:
        return self.outward.count

    @property
    def received(self) -> int:
        return self.inward.count

    @property
    def half_closed(self) -> bool:
        return self.outward.finished or self.inward.finished

    def start(self, first: bytes = b"", gate: Gate | None = None, *, passed: bool = False) -> None:
        """Relay from now on. `first` was read from the client already; it goes through the gate unless it has."""
        self.outward.gate = gate
        if passed:
            self._guarded(self._send, self.outward, first)
            self._guarded(self._after_gate, self.outward)
        elif first:
            self._guarded(self._forward, self.outward, first)
        if not self.closed:
            self._update()

    def abort(self) -> None:
        """End both connections at once, with a reset."""
        if not self.closed:
            self._leave()
            reset(self.client)
            reset(self.server)
            self._on_end()

    def close(self) -> None:
        """End both connections in order; what the kernel has taken is still delivered."""
        if not self.closed:
            self._leave()
            self.client.close()
            self.server.close()
            self._on_end()

    def hand_back(self, taker: Callable[[], None]) -> None:
        """Send the server nothing more, and when it has said its last word, close it and call `taker`.

        The client is then the taker's. A gate may call this: what it returns is still sent.
        """
        self._taker = taker
        self._timer = self._poller.loop.call_later(FLOW_HAND_BACK_S, self.abort)

    def send_on(self, data: bytes) -> None:
        """Bytes for the server that have passed the gate already."""
        if data and not self.closed:
            self._guarded(self._send, self.outward, data)
            self._guarded(self._after_gate, self.outward)

    def _release(self) -> None:
        taker = self._taker
        assert taker is not None
        self._leave()
        self.server.close()
        self._on_end()
        taker()

    def _leave(self) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()  # or it would keep all of this for as long as it runs
            self._timer = None
        if self._masks[0]:
            self._poller.forget(self.client.fileno())
        if self._masks[1]:
            self._poller.forget(self.server.fileno())
        for direction in (self.outward, self.inward):
            if direction.pipe is not None:
                self._pipes.give_back(direction.pipe)
                direction.pipe = None
            direction.rest = b""
            direction.gate = None

    # -- events --------------------------------------------------------------------------------------------------------

    def _client_ready(self, events: int) -> None:
        if not events & WRITE and not self.inward.blocked:  # the common case: only a read is wanted
            self._guarded(self._read, self.outward)
        else:
            self._guarded(self._both, self.outward, self.inward)

    def _server_ready(self, events: int) -> None:
        if not events & WRITE and not self.outward.blocked:
            self._guarded(self._read, self.inward)
        else:
            self._guarded(self._both, self.inward, self.outward)

    def _guarded(self, action: Callable[..., None], *args: object) -> None:
        if self.closed:
            return
        try:
            action(*args)
        except OSError:
            if self._taker is not None and self.server.fileno() >= 0 and not self.inward.blocked:
                self._release()
            else:
                self.abort()  # reset or unreachable: the other side hears the same
        except Exception:
            log.exception("a flow failed")
            self.abort()

    def _both(self, reading: Direction, writing: Direction) -> None:
        if writing.blocked:
            self._flush(writing)
        if not self.closed:
            self._read(reading)

    def _read(self, direction: Direction) -> None:
        if direction.ended or direction.blocked:
            return
        if direction.pipe is not None:
            self._splice(direction)
            return
        try:
            data = direction.source.recv(FLOW_CHUNK_BYTES if direction.gate is None else direction.gated_bytes)
        except BlockingIOError:
            return
        self.active = self._poller.now
        if not data:
            if direction.gate is not None:
                self._forward(direction, data)  # a gate that still held something must let go of it or not
            direction.ended = True
            self._finish(direction)
            return
        self._forward(direction, data)

    def _forward(self, direction: Direction, data: bytes) -> None:
        if direction.gate is None:
            self._send(direction, data)
            return
        began = time.monotonic()
        data = direction.gate(data)
        direction.took(time.monotonic() - began)
        if data and not self.closed:
            self._send(direction, data)
        self._after_gate(direction)

    def _after_gate(self, direction: Direction) -> None:
        if self._taker is not None and direction is self.outward and not direction.ended and not self.closed:
            direction.ended = True
            direction.gate = None
            self._finish(direction)

    def _send(self, direction: Direction, data: bytes) -> None:
        if not data:
            return
        if direction.rest:
            direction.rest += data
            return
        try:
            sent = direction.sink.send(data)
        except BlockingIOError:
            sent = 0
        direction.count += sent
        if sent < len(data):
            direction.rest = data[sent:]
            self._update()
        elif direction.count > FLOW_SPLICE_AFTER_BYTES and direction.gate is None and direction.pipe is None:
            direction.pipe = self._pipes.take()

    def _flush(self, direction: Direction) -> None:
        if direction.rest:
            try:
                sent = direction.sink.send(direction.rest)
            except BlockingIOError:
                return
            direction.count += sent
            direction.rest = direction.rest[sent:]
            self.active = self._poller.now
        elif direction.piped:
            self._splice(direction)
        if not direction.blocked:
            if direction.ended:
                self._finish(direction)
            else:
                self._update()

    def _splice(self, direction: Direction) -> None:
        assert direction.pipe is not None
        reader, writer = direction.pipe
        source, sink = direction.source.fileno(), direction.sink.fileno()
        was_blocked = direction.piped > 0
        turn = 0
        try:
            while turn < FLOW_TURN_BYTES:
                if not direction.piped:
                    direction.piped = os.splice(source, writer, FLOW_PIPE_BYTES, flags=_NONBLOCK)
                    if not direction.piped:
                        direction.ended = True
                        break
                sent = os.splice(reader, sink, direction.piped, flags=_NONBLOCK)
                direction.piped -= sent
                direction.count += sent
                turn += sent
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EINVAL or direction.piped:
                raise
            self._pipes.give_back(direction.pipe)  # this kind of socket cannot be spliced
            direction.pipe = None
        self.active = self._poller.now
        if direction.ended and not direction.piped:
            self._finish(direction)
        elif was_blocked != (direction.piped > 0):
            self._update()

    def _finish(self, direction: Direction) -> None:
        """The source has ended and all it sent is delivered."""
        if self.closed:
            return
        if direction.blocked or direction.finished:
            self._update()
            return
        direction.finished = True
        if direction is self.inward and self._taker is not None:
            self._release()
            return
        other = self.inward if direction is self.outward else self.outward
        if other.finished:
            self.close()
            return
        try:
            direction.sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.abort()  # it is gone, and so is what it still had to say
            return
        self._update()

    # -- what to wait for ----------------------------------------------------------------------------------------------

    def _update(self) -> None:
        if self.closed:
            return
        outward, inward = self.outward, self.inward
        client = 0 if outward.ended or outward.blocked else READ
        server = 0 if inward.ended or inward.blocked else READ
        if inward.blocked:
            client |= WRITE
        if outward.blocked:
            server |= WRITE
        if client != self._masks[0]:
            self._want(0, self.client.fileno(), client)
        if server != self._masks[1]:
            self._want(1, self.server.fileno(), server)

    def _want(self, side: int, fd: int, mask: int) -> None:
        known, self._masks[side] = self._masks[side], mask
        if not mask:  # registered without a mask it would still report the end, again and again
            self._poller.forget(fd)
        elif known:
            self._poller.change(fd, mask)
        else:
            self._poller.watch(fd, mask, self._server_ready if side else self._client_ready)
