"""Frames, the event loop and a client's connection, as init uses them.

The guest package imports nothing but the standard library and itself: it travels into root file systems that have no
Paddock, and the launcher keeps it in memory for every box. Hence its own copy of the few lines of framing.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from paddock.engines.guest.command import Command
    from paddock.engines.guest.files import Watch
    from paddock.engines.guest.init import Init

    Request = dict[str, Any]
    Handler = Callable[[int], None]


HEADER = struct.Struct("!IB")
_INT = struct.Struct("i")
MESSAGE, STDIN, STDOUT, STDERR, FILE = range(5)
DATA_BYTES = 64 * 1024
MESSAGE_BYTES = 1024 * 1024
HIGH_BYTES, LOW_BYTES = 256 * 1024, 64 * 1024
WAIT_S = 3600.0  # the kernel counts milliseconds in an int; a later timer only takes another turn
READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
WRITABLE = select.EPOLLOUT


class Refused(Exception):
    """A request that cannot be served; becomes an error message on the wire."""

    def __init__(self, code: str, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.reply = {"event": "error", "code": code, "message": message, "errno": number}


def frame(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


def message(value: Request) -> bytes:
    return frame(MESSAGE, json.dumps(value, separators=(",", ":")).encode())


def receive_fds(sock: socket.socket, size: int, count: int) -> tuple[bytes, list[int], int]:
    """As socket.recv_fds, which drops its flags argument: without this one commands would inherit what we receive."""
    space = socket.CMSG_SPACE(count * _INT.size)
    data, ancillary, flags, _ = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += (number for (number,) in _INT.iter_unpack(raw[: len(raw) // _INT.size * _INT.size]))
    return data, fds, flags


class Loop:
    """epoll with one handler per descriptor and one timer queue."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._known: dict[int, tuple[int, Handler]] = {}
        self._new: set[int] = set()
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def want(self, fd: int, mask: int, handler: Handler) -> None:
        known = self._known.get(fd)
        if known is None:
            self._epoll.register(fd, mask)
            self._new.add(fd)
        elif known[0] != mask:
            self._epoll.modify(fd, mask)
        self._known[fd] = (mask, handler)

    def forget(self, fd: int) -> None:
        if self._known.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._timers.append((when, action))
        self._timers.sort(key=_when)

    def run_once(self) -> None:
        timeout = min(WAIT_S, max(0.0, self._timers[0][0] - time.monotonic())) if self._timers else -1
        ready = self._epoll.poll(timeout)
        self._new.clear()
        for fd, events in ready:
            known = self._known.get(fd)
            if known is not None and fd not in self._new:  # a new one under an old number: the event is not its own
                known[1](events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._timers.pop(0)[1]()


def _when(timer: tuple[float, object]) -> float:
    return timer[0]


class Connection:
    """One client: decodes requests, holds unsent bytes, pulls from a source while the client keeps up."""

    def __init__(self, init: Init, sock: socket.socket) -> None:
        self.init = init
        self.sock = sock
        self.command: Command | None = None
        self.source: Iterator[bytes] | None = None
        self.sink: int | None = None
        self.watch: Watch | None = None
        self.closing = False
        self._in = bytearray()
        self._fds: list[int] = []
        self._out = bytearray()
        self.update()

    @property
    def pending(self) -> int:
        return len(self._out)

    def send(self, data: bytes) -> None:
        if not self._out and self.sock.fileno() >= 0:
            try:
                sent = self.sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.close()
                return
            data = data[sent:]
        if data:
            self._out += data
        self.update()

    def update(self) -> None:
        if self.sock.fileno() < 0:
            return
        mask = 0
        if not (self.command and self.command.stdin_full()):
            mask |= READABLE
        if self._out or self.source:
            mask |= WRITABLE
        self.init.loop.want(self.sock.fileno(), mask, self._ready)

    def close(self) -> None:
        if self.sock.fileno() < 0:
            return
        self.init.loop.forget(self.sock.fileno())
        self.sock.close()
        self._out.clear()
        self.source = None
        for fd in self._fds:
            os.close(fd)
        if self.sink is not None:
            os.close(self.sink)
        if self.watch:
            self.watch.close()
        self.init.connections.discard(self)
        if self.command:
            command, self.command = self.command, None
            command.detach(self)

    def _ready(self, events: int) -> None:
        try:
            if events & WRITABLE:
                self._flush()
            if events & READABLE and self.sock.fileno() >= 0:
                self._receive()
        except Exception as error:  # noqa: BLE001  whatever one client asked for, the box and its other clients go on
            self.send(message(Refused("protocol", f"malformed request: {type(error).__name__}").reply))
            self.close()

    def _flush(self) -> None:
        try:
            if self._out:
                del self._out[: self.sock.send(self._out)]
            while self.source and len(self._out) < LOW_BYTES and self._pull():
                pass
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self.closing and not self._out and not self.source:
            self.close()
            return
        if self.command:
            self.command.update()
        self.update()

    def _pull(self) -> bool:
        """False when the source wants others to have their turn first."""
        assert self.source is not None
        try:
            data = next(self.source)
        except StopIteration:
            self.source = None
            return True
        except OSError as error:
            self.source = None
            data = message(os_refusal(error).reply)
        self._out += data
        return bool(data)

    def _receive(self) -> None:
        try:
            data, fds, _ = receive_fds(self.sock, DATA_BYTES + HEADER.size, 4)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)  # recv_fds drops the flag that would have said so
        self._fds += fds
        if not data:
            self.close()
            return
        self._in += data
        self._decode()

    def _decode(self) -> None:
        while len(self._in) >= HEADER.size and self.sock.fileno() >= 0:
            length, kind = HEADER.unpack_from(self._in)
            if length > (MESSAGE_BYTES if kind == MESSAGE else DATA_BYTES):
                raise ValueError
            if len(self._in) < HEADER.size + length:
                break
            payload = bytes(self._in[HEADER.size : HEADER.size + length])
            del self._in[: HEADER.size + length]
            try:
                self._frame(kind, payload)
            except Refused as refused:
                self.send(message(refused.reply))
            except OSError as error:
                self.send(message(os_refusal(error).reply))

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == MESSAGE:
            request = json.loads(payload)
            fds, self._fds = self._fds, []
            try:
                self.init.request(self, request, fds)
            finally:
                for fd in fds:  # those that were taken are gone from the list
                    os.close(fd)
        elif kind == STDIN and self.command:
            self.command.feed(payload)
            self.update()
        elif kind == FILE and self.sink is not None:
            self._write_file(payload)
        elif kind not in {STDIN, FILE}:
            raise ValueError

    def _write_file(self, payload: bytes) -> None:
        assert self.sink is not None
        try:
            if payload:
                view = memoryview(payload)
                while view:
                    view = view[os.write(self.sink, view) :]
                return
            os.close(self.sink)
        except OSError as error:
            os.close(self.sink)
            self.sink = None
            raise Refused("io", error.strerror or "i/o error", error.errno) from error
        self.sink = None
        self.send(message({"event": "done"}))


def os_refusal(error: OSError) -> Refused:
    codes = {errno.ENOENT: "no-file", errno.EEXIST: "exists", errno.ENOSPC: "no-space"}
    return Refused(codes.get(error.errno or 0, "io"), error.strerror or "i/o error", error.errno)
