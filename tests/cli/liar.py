"""A box whose init says whatever a test wants: the frames are real, the words are not to be trusted."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Self

from paddock import frames
from paddock.cli.boxfiles import BoxFiles
from paddock.client.transport import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Answer = Callable[[dict[str, object]], Iterable[bytes]]


def says(**message: object) -> bytes:
    return frames.encode(frames.MESSAGE, json.dumps(message).encode())


def entry(path: str, kind: str = "file", mode: int | None = None, **more: object) -> dict[str, object]:
    usual = 0o755 if kind == "directory" else 0o644
    return {"path": path, "kind": kind, "size": 1, "mode": usual if mode is None else mode, "mtime": 0.0, **more}


class Liar:
    """Serves every connection with `answers[op]`; a missing one is a refusal."""

    def __init__(self, **answers: Answer) -> None:
        self._answers = answers
        self._threads: list[threading.Thread] = []
        self.asked: list[dict[str, object]] = []
        self.connections = 0

    @property
    def files(self) -> BoxFiles:
        return BoxFiles(self.connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def connect(self) -> Channel:
        ours, theirs = socket.socketpair()
        self.connections += 1
        thread = threading.Thread(target=self._serve, args=(theirs,))
        self._threads.append(thread)
        thread.start()
        return Channel(ours.detach())

    def _serve(self, sock: socket.socket) -> None:
        decoder = frames.Decoder()
        with sock:
            try:
                while data := sock.recv(65536):
                    for kind, payload in decoder.feed(data):
                        self._frame(sock, kind, payload)
            except OSError:
                return

    def _frame(self, sock: socket.socket, kind: int, payload: bytes) -> None:
        if kind == frames.FILE:
            if not payload:
                sock.sendall(says(event="done"))
            return
        request = json.loads(payload)
        self.asked.append(request)
        answer = self._answers.get(request["op"])
        for piece in answer(request) if answer else [says(event="error", code="io", message="refused")]:
            sock.sendall(piece)


def tree(top: str, *entries: dict[str, object], content: bytes = b"content") -> Liar:
    """A box with one directory."""

    def read(_request: dict[str, object]) -> Iterable[bytes]:
        return [says(event="entry"), frames.encode(frames.FILE, content), frames.encode(frames.FILE, b"")]

    return Liar(
        stat=lambda _request: [says(event="entry", entry=entry(top, "directory", 0o755))],
        list_dir=lambda _request: [says(event="entries", entries=list(entries)), says(event="done")],
        read=read,
    )
