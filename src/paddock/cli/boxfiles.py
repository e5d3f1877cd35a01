"""A box's files for cp: one channel for a whole tree, where the SDK's Files opens one for each file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from paddock import frames
from paddock.client import answers
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from paddock.client import Entry
    from paddock.client.transport import Channel
    from paddock.frames import Message

_ALL_LEVELS = 1 << 30


class BoxFiles:
    """TRUST: every answer is the box's word; names, sizes and links in it are only text."""

    def __init__(self, connect: Callable[[], Channel]) -> None:
        self._connect = connect
        self._channel: Channel | None = None
        self._is_midway = False

    def __repr__(self) -> str:
        return f"<BoxFiles {'connected' if self._channel else 'not connected'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def stat(self, path: str) -> Entry:
        """Of what a link leads to."""
        return answers.entry(self._ask({"op": "stat", "path": path, "follow": True}).get("entry"))

    def entries(self, path: str) -> Iterator[Entry | tuple[str, str]]:
        """All that lies below a directory, parents first; a pair is a directory that could not be read, and why."""
        channel = self._connect()
        try:
            channel.send_message({"op": "list_dir", "path": path, "depth": _ALL_LEVELS})
            while (message := channel.receive_message()).get("event") != "done":
                yield from map(answers.entry, answers.expect_list(message.get("entries")))
                if unread := answers.expect_list(message.get("unread", [])):
                    yield str(unread[0]), str(unread[-1])
        finally:
            channel.close()

    @contextlib.contextmanager
    def read(self, path: str) -> Iterator[Iterator[bytes]]:
        """The chunks of a regular file; a refusal is raised before the first. What is not read is not left behind."""
        self._ask({"op": "read", "path": path, "offset": 0})
        self._is_midway = True
        try:
            yield self._chunks()
        finally:
            if self._is_midway:
                self._drop()  # the rest of this file must not be taken for an answer

    def _chunks(self) -> Iterator[bytes]:
        channel = self._open()
        while (frame := channel.receive()) is not None and frame[0] == frames.FILE:
            if not frame[1]:
                self._is_midway = False
                return
            yield frame[1]
        answers.message(frame)
        raise Unavailable("the box sent a message out of turn", code="protocol")

    def write(self, path: str, mode: int, chunks: Iterable[bytes]) -> None:
        self._ask({"op": "write", "path": path, "mode": mode, "parents": True})
        self._is_midway = True
        try:
            with _hung_up():
                for chunk in chunks:
                    self._open().send(frames.FILE, chunk)
                self._open().send(frames.FILE, b"")
            self._is_midway = False
            self._answer()
        finally:
            if self._is_midway:
                self._drop()

    def make_dir(self, path: str, mode: int) -> None:
        self._ask({"op": "make_dir", "path": path, "parents": True, "mode": mode})

    def symlink(self, path: str, to: str) -> None:
        self._ask({"op": "symlink", "path": path, "to": to})

    def remove(self, path: str) -> None:
        self._ask({"op": "remove", "path": path})

    def _ask(self, request: Message) -> Message:
        with _hung_up():
            self._open().send_message(request)
        return self._answer()

    def _answer(self) -> Message:
        try:
            return self._open().receive_message()
        except Unavailable:  # of a box that makes no sense nothing more is read
            self._drop()
            raise

    def _open(self) -> Channel:
        if self._channel is None:
            self._channel = self._connect()
        return self._channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            self._is_midway = False


@contextlib.contextmanager
def _hung_up() -> Iterator[None]:
    """A broken channel is the box's end, not that of whoever reads our output."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Unavailable("the box hung up", hint="run the command again", code="gone") from error
