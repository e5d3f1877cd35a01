"""Files of a box, through its init: they are read and written with the box's own rights, by paths inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock import frames
from paddock.client import answers
from paddock.errors import Unavailable, UserError
from paddock.limits import FRAME_DATA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.client.transport import Channel
    from paddock.client.answers import Change, Entry
    from paddock.frames import Message

ENTRIES_MAX = 1_000_000
READ_BYTES_MAX = 256 * 1024 * 1024


class Files:
    def __init__(self, connect: Callable[[str], Channel], box: str) -> None:
        self._connect = connect
        self._box = box

    def __repr__(self) -> str:
        return f"<Files of {self._box}>"

    def read(self, path: str) -> bytes:
        """The whole file, up to 256 MiB; `stream` has no such limit."""
        kept = bytearray()
        for chunk in self.stream(path):
            kept += chunk
            if len(kept) > READ_BYTES_MAX:
                raise UserError(f"{path} is larger than {READ_BYTES_MAX} bytes", hint="use stream()", code="too-large")
        return bytes(kept)

    def stream(self, path: str, *, offset: int = 0) -> Iterator[bytes]:
        channel = self._connect(self._box)
        try:
            channel.send_message({"op": "read", "path": path, "offset": offset})
            channel.receive_message()
            while True:
                frame = channel.receive()
                if frame is None or frame[0] != frames.FILE:
                    answers.message(frame)
                    raise Unavailable("the box sent a message out of turn", code="protocol")
                if not frame[1]:
                    return
                yield frame[1]
        finally:
            channel.close()

    def write(
        self, path: str, data: bytes, *, mode: int = 0o644, append: bool = False, parents: bool = True
    ) -> None:
        channel = self.writer(path, mode=mode, append=append, parents=parents)
        try:
            for start in range(0, len(data), FRAME_DATA_BYTES):
                channel.send(frames.FILE, data[start : start + FRAME_DATA_BYTES])
            finish_write(channel)
        finally:
            channel.close()

    def writer(self, path: str, *, mode: int = 0o644, append: bool = False, parents: bool = True) -> Channel:
        """A channel that takes FILE frames; end it with `finish_write`."""
        channel = self._connect(self._box)
        request: Message = {"op": "write", "path": path, "mode": mode, "append": append, "parents": parents}
        try:
            channel.send_message(request)
            channel.receive_message()
        except BaseException:
            channel.close()
            raise
        return channel

    def stat(self, path: str, *, follow: bool = False) -> Entry:
        return answers.entry((self._ask({"op": "stat", "path": path, "follow": follow})).get("entry"))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except UserError as error:
            if error.code == "no-file":
                return False
            raise
        return True

    def list(self, path: str, *, depth: int = 1) -> list[Entry]:
        found: list[Entry] = []
        channel = self._connect(self._box)
        try:
            channel.send_message({"op": "list_dir", "path": path, "depth": depth})
            while True:
                message = channel.receive_message()
                if message.get("event") == "done":
                    return found
                found += [answers.entry(row) for row in answers.expect_list(message.get("entries"))]
                if len(found) > ENTRIES_MAX:
                    raise UserError(f"{path} holds over {ENTRIES_MAX} entries", hint="list a part", code="too-large")
        finally:
            channel.close()

    def make_dir(self, path: str, *, parents: bool = True) -> Entry:
        return answers.entry((self._ask({"op": "make_dir", "path": path, "parents": parents})).get("entry"))

    def symlink(self, path: str, to: str) -> None:
        self._ask({"op": "symlink", "path": path, "to": to})

    def move(self, path: str, to: str) -> None:
        self._ask({"op": "move", "path": path, "to": to})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._ask({"op": "remove", "path": path, "recursive": recursive})

    def watch(self, path: str, *, recursive: bool = False) -> Iterator[Change]:
        """Changes as they happen; the first item, of kind `watching`, says that watching has begun."""
        channel = self._connect(self._box)
        try:
            channel.send_message({"op": "watch", "path": path, "recursive": recursive})
            channel.receive_message()
            yield answers.Change(kind="watching", path=path)
            while True:
                yield answers.change(channel.receive_message())
        finally:
            channel.close()

    def _ask(self, request: Message) -> Message:
        channel = self._connect(self._box)
        try:
            channel.send_message(request)
            return channel.receive_message()
        finally:
            channel.close()


def finish_write(channel: Channel) -> None:
    channel.send(frames.FILE, b"")
    channel.receive_message()
