"""A scripted daemon on a real socket, for tests of how clients bear what a daemon does."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING

from paddock import frames, fs, paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    Script = Callable[[socket.socket], None]


class Answering:
    """Serves each connection with the script, one after another, in a thread that ends with the context."""

    def __init__(self, home: Path, script: Script) -> None:
        self.where = paths.Paths({"PADDOCK_HOME": os.fspath(home)})
        os.makedirs(self.where.run, mode=0o700)
        self.connections = 0
        self._script = script
        self._listener = fs.bind_unix(self.where.run, paths.SOCKET)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a client may leave
                self._script(sock)


def question(sock: socket.socket) -> frames.Message | None:
    """The next request, or None when the client hung up."""
    decoder = frames.Decoder()
    while data := sock.recv(65536):
        for _, payload in decoder.feed(data):
            return frames.decode_message(payload)
    return None


def answer(sock: socket.socket, result: object, fds: list[int] | None = None) -> None:
    data = frames.encode_message({"ok": True, "result": result})
    sent = socket.send_fds(sock, [data], fds) if fds else 0
    sock.sendall(data[sent:])


def echo(sock: socket.socket) -> None:
    """Answers every request with its own arguments."""
    while (asked := question(sock)) is not None:
        answer(sock, asked["args"])


def refuse(sock: socket.socket) -> None:
    error = {"kind": "user", "code": "no", "message": "no", "hint": ""}
    while question(sock) is not None:
        sock.sendall(frames.encode_message({"ok": False, "error": error}))


def hang_up(sock: socket.socket) -> None:
    question(sock)


def babble(sock: socket.socket) -> None:
    if question(sock) is not None:
        sock.sendall(b"\xff" * 100)


def mirror(sock: socket.socket) -> None:
    """Sends every STDIN frame back as output, as `cat` in a box would."""
    decoder = frames.Decoder()
    while data := sock.recv(65536):
        for kind, payload in decoder.feed(data):
            if kind == frames.STDIN and not payload:
                return
            sock.sendall(frames.encode(frames.STDOUT, payload))
