"""A gateway of a few lines for tests of sealed boxes: it holds the other end of a door and answers as the real one.

Every name means the refusal address unless the test allowed it; every connection is reset unless its name is allowed,
and then it is served here, with `serve`. What it saw is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock import fs, limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_SO_ORIGINAL_DST = 80
_FDS = 200
ALLOWED = "198.18.1.7"  # what the allowed name means


def original_destination(sock: socket.socket) -> tuple[str, int] | None:
    """Where a connection was meant to go, or None when nothing turned it."""
    try:
        raw = sock.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    except OSError:
        return None
    found = socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")
    return None if found == sock.getsockname() else found


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def hello(sock: socket.socket, destination: tuple[str, int]) -> None:
    """Say where the connection was meant to go."""
    sock.sendall(f"{destination[0]}:{destination[1]}\n".encode())
    sock.close()


class TestGateway:
    """One box's gateway; `door` is the box's end."""

    __test__ = False

    def __init__(self, allowed: str = "allowed.test", serve: Callable[..., None] = hello) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._inode = os.fstat(self._theirs.fileno()).st_ino
        self._stop_read, self._stop_write = os.pipe()
        self._allowed, self._serve = allowed, serve
        self.asked: list[str] = []
        self.connections: list[tuple[str, int] | None] = []
        self.sockets: list[socket.socket] = []
        self.sealed = threading.Event()
        self.silent = False
        self.refusal = limits.REFUSAL_ADDRESS
        self.direct: bytes | None = None  # what a direct connection is answered with instead of a reset
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<TestGateway {len(self.sockets)} sockets>"

    @property
    def door(self) -> int:
        return self._theirs.fileno()

    def is_open(self) -> bool:
        """Does the box still hold its end of the door? Nobody else does once it is sealed."""
        lines = Path("/proc/net/unix").read_text().splitlines()[1:]
        return self._inode in [int(line.split()[6]) for line in lines]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As when it dies: door and sockets are gone."""
        if self._ours.fileno() < 0:
            return
        os.write(self._stop_write, b"x")
        self._thread.join(10)
        assert not self._thread.is_alive()
        for sock in (self._ours, self._theirs, *self.sockets):
            sock.close()
        for fd in (self._stop_read, self._stop_write):
            os.close(fd)

    def ask(self, **request: Any) -> tuple[dict[str, Any], list[socket.socket]]:
        """One request through the door."""
        return self.ask_raw(json.dumps(request).encode())

    def ask_raw(self, data: bytes) -> tuple[dict[str, Any], list[socket.socket]]:
        self._ours.settimeout(10)
        self._ours.send(data)
        return self.hear()

    def send_only(self, data: bytes) -> None:
        self._ours.send(data)

    def hear(self) -> tuple[dict[str, Any], list[socket.socket]]:
        self._ours.settimeout(10)
        answer, fds = fs.receive_fds(self._ours, 65536, _FDS)
        return json.loads(answer), [socket.socket(fileno=fd) for fd in fds]

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._stop_read, selectors.EVENT_READ)
            waiting.register(self._ours, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in waiting.select()]
                if self._stop_read in ready:
                    return
                if self._ours in ready:
                    waiting.unregister(self._ours)  # what comes next are answers
                    self._take(waiting)
                for sock in self.sockets:
                    if sock in ready:
                        self._answer(sock)

    def _take(self, waiting: selectors.BaseSelector) -> None:
        data, fds = fs.receive_fds(self._ours, 65536, _FDS)
        if not data:
            return
        assert json.loads(data) == {"sealed": True}
        self._theirs.close()  # the box has it; ours would keep the door open
        self.sockets = [socket.socket(fileno=fd) for fd in fds]
        if not self.silent:
            for sock in self.sockets:
                waiting.register(sock, selectors.EVENT_READ)
        self.sealed.set()

    def _answer(self, sock: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, IndexError, UnicodeDecodeError):  # the last two: no question
            if sock.type == socket.SOCK_DGRAM:
                data, peer = sock.recvfrom(4096)
                sock.sendto(self._name(data), peer)
            else:
                self._connection(sock.accept()[0])

    def _name(self, query: bytes) -> bytes:
        place, labels = 12, []
        while size := query[place]:
            labels.append(query[place + 1 : place + 1 + size].decode("ascii"))
            place += 1 + size
        name, kind = ".".join(labels), int.from_bytes(query[place + 1 : place + 3], "big")
        self.asked.append(name)
        address = ALLOWED if name == self._allowed else self.refusal
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(address) if kind == 1 else b""
        return query[:2] + struct.pack(">HHHHH", 0x8180, 1, kind == 1, 0, 0) + query[12 : place + 5] + record

    def _connection(self, sock: socket.socket) -> None:
        destination = original_destination(sock)
        self.connections.append(destination)
        local = sock.getsockname()[1]
        sock.settimeout(10)
        if destination and destination[0] == ALLOWED:
            self._serve(sock, destination)
        elif local != limits.SEAL_TCP_PORT:
            self._serve(sock, ("localhost", local))
        elif self.direct is not None:
            sock.sendall(self.direct)
            sock.close()
        else:
            reset(sock)
