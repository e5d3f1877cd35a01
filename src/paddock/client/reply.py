"""One request to the daemon and its answer, without any I/O: what is sent, and how chunks become a result."""

from __future__ import annotations

import os
from collections import deque

from paddock import errors, frames
from paddock._version import VERSION
from paddock.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.frames import Message

MAX_FDS = 4
ATTEMPTS = 3
READS = frozenset(  # verbs that change nothing
    (
        *("status", "ls", "inspect", "plan", "jobs", "logs", "ending", "network_logs"),
        *("policy_show", "policy_check", "policy_pending", "policy_suggest", "policy_export"),
    )
)
Frame = tuple[int, bytes]


def request(verb: str, args: Message) -> bytes:
    return frames.encode_message({"version": VERSION, "verb": verb, "args": args})


def lost() -> Unavailable:
    return Unavailable("the daemon went away", hint="run the command again: boxes keep running", code="daemon-lost")


class Reply:
    """Gathers the messages of one answer; a long list comes in several."""

    def __init__(self, verb: str) -> None:
        self.unread = False  # the daemon cannot have read all of the request
        self._verb = verb
        self.fds: list[int] = []
        self.result: object = None
        self.whole = False  # the answer's last message has come, be it a result or an error
        self._decoder = frames.Decoder()
        self._items: list[object] = []

    def __repr__(self) -> str:
        return f"<Reply {len(self._items)} items, {len(self.fds)} descriptors>"

    def may_ask_again(self, error: Exception) -> bool:
        """After a lost connection: whether asking the next daemon can do no harm."""
        self.drop()
        # Linux resets a unix connection whose other end had bytes left to read, and only ends it when it had none.
        return self.unread or isinstance(error, ConnectionResetError) or self._verb in READS

    def feed(self, data: bytes, fds: list[int]) -> bool:
        """True when the answer is whole. Raises the daemon's error, or EOFError when it hung up."""
        self.fds += fds
        if not data:
            raise EOFError
        for _, payload in self._decoder.feed(data):
            message = frames.decode_message(payload)
            if message.get("ok") is not True:
                self.whole = True
                raise errors.from_wire(message.get("error"))
            result = message.get("result")
            if message.get("more") and isinstance(result, list):
                self._items += result
                continue
            self.result = [*self._items, *result] if isinstance(result, list) else result
            self.whole = True
            return True
        return False

    def drop(self) -> None:
        """Close descriptors that came with an answer nobody will get."""
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()


class FrameQueue:
    """Frames of a box's channel, decoded as they come."""

    def __init__(self) -> None:
        self._decoder = frames.Decoder()
        self._ready: deque[Frame] = deque()

    def feed(self, data: bytes) -> None:
        self._ready.extend(self._decoder.feed(data))

    def pop(self) -> Frame | None:
        return self._ready.popleft() if self._ready else None
