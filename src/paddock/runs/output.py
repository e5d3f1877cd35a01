"""What an agent said, read from its journal: the last message, its name for the conversation, and its last words.

TRUST: a journal is written inside the box, and what is in it is whatever the agent writes: it is decoded as hostile
bytes, within bounds of size and time, and nothing of it leaves here that is not neutralised. A message that a box
forges is told as the agent's, which it is.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from paddock import frames
from paddock.errors import Unavailable
from paddock.limits import RUN_FINAL_CHARS, RUN_LINE_BYTES, RUN_READ_S, RUN_TAIL_BYTES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paddock.agents import Agent
    from paddock.agents.definition import Event

_READ_BYTES = 1 << 20
_LINES_MAX = 60
_LINE_CHARS = 500
_LOOKED_AT = 8  # times what is kept: escape sequences are taken out of it
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}\Z")
# What a program writes for a terminal: colours, cursor movements, titles. No two parts that repeat take the same.
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]{0,256}[ -/]{0,16}[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_c-z=>78])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    final: str = ""
    session: str = ""
    words: Literal["", "auth", "quota", "flag"] = ""  # what the end of it says of a failure


def read(fds: Sequence[int], agent: Agent | None, clock: Callable[[], float] = time.monotonic) -> Said:
    """Of the two files of a journal; what cannot be read, or not in time, is left out."""
    listener = _Listener(agent)
    deadline_s = clock() + RUN_READ_S
    try:
        for kind, payload in _frames(fds):
            if clock() > deadline_s:
                return listener.cut_off()
            if kind in {frames.STDOUT, frames.STDERR}:
                listener.hear(kind, payload)
    except (OSError, Unavailable):
        pass  # a torn or forged frame: nothing after it can be told
    return listener.said()


def _frames(fds: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    halves = sorted((number, fd) for fd in fds if (number := _sequence(fd)) >= 0)
    for _, fd in halves:
        decoder, offset = frames.Decoder(), 0
        while data := os.pread(fd, _READ_BYTES, offset):
            offset += len(data)
            yield from decoder.feed(data)


def _sequence(fd: int) -> int:
    """The number in a half's first frame; -1 if there is none."""
    try:
        found = frames.Decoder().feed(os.pread(fd, 4096, 0))
        message = frames.decode_message(found[0][1]) if found and found[0][0] == frames.MESSAGE else {}
    except Unavailable:
        return -1
    number = message.get("sequence")
    return number if type(number) is int and message.get("event") == "segment" else -1


class _Listener:
    def __init__(self, agent: Agent | None) -> None:
        self._agent = agent
        self._format = agent.output.format if agent else "text"
        self._line = bytearray()
        self._too_long = False
        self._whole = bytearray()
        self._tail = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        self._final = self._session = ""

    def hear(self, kind: int, payload: bytes) -> None:
        tail = self._tail[kind]
        tail += payload
        if len(tail) > 4 * RUN_TAIL_BYTES:  # now and then: output may come a byte at a time
            del tail[:-RUN_TAIL_BYTES]
        if kind != frames.STDOUT:
            return
        if self._format == "json" and len(self._whole) <= RUN_LINE_BYTES:
            self._whole += payload
        elif self._format == "jsonl":
            self._lines(payload)

    def _lines(self, payload: bytes) -> None:
        *ended, rest = payload.split(b"\n")
        for piece in ended:
            self._add(piece)
            if not self._too_long:
                self._event(bytes(self._line))
            self._line.clear()
            self._too_long = False
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._too_long |= len(self._line) + len(piece) > RUN_LINE_BYTES
        if self._too_long:
            self._line.clear()
        else:
            self._line += piece

    def _event(self, line: bytes) -> None:
        value = _object(line)
        if value is None or self._agent is None:
            return
        for event in self._agent.output.event:
            if all(_is(_at(value, path), wanted) for path, wanted in event.where.items()):
                self._take(event, value)

    def _take(self, event: Event, value: object) -> None:
        final = _at(value, event.final) if event.final else None
        session = _at(value, event.session) if event.session else None
        self._final = final if isinstance(final, str) and final.strip() else self._final
        if isinstance(session, str) and _SESSION.match(session):
            self._session = session

    def said(self) -> Said:
        if self._format == "jsonl" and not self._too_long:
            self._event(bytes(self._line))  # the last line may have no end
        elif self._format == "json" and len(self._whole) <= RUN_LINE_BYTES:
            start = self._whole.find(b"{")  # programs print warnings before it
            self._event(bytes(self._whole[start:] if start >= 0 else b""))
        words = self._tail[frames.STDOUT][-RUN_TAIL_BYTES:].decode("utf-8", "replace")
        return Said(final=plain(self._final or _text(words)), session=self._session, words=self._words())

    def cut_off(self) -> Said:
        """What is known without the end."""
        return Said(session=self._session)

    def _words(self) -> Literal["", "auth", "quota", "flag"]:
        if self._agent is None:
            return ""
        tails = (bytes(tail[-RUN_TAIL_BYTES:]) for tail in self._tail.values())
        heard = b"\n".join(tails).decode("utf-8", "replace").casefold()
        for failure in self._agent.failure:
            if any(word.casefold() in heard for word in failure.match):
                return failure.reason
        return ""


def plain(text: str) -> str:
    """Lines of text for people, of which at most so many characters; what was cut off is its beginning."""
    text = _CONTROLS.sub("", text[-_LOOKED_AT * RUN_FINAL_CHARS :]).strip()
    lines = [neutralise(line.rstrip(), _LINE_CHARS) for line in text.splitlines()]
    kept = "\n".join(lines[-_LINES_MAX:])
    return kept if len(kept) <= RUN_FINAL_CHARS else f"...{kept[3 - RUN_FINAL_CHARS :]}"


def _text(words: str) -> str:
    """What a program without machine output said last."""
    return _CONTROLS.sub("", words).replace("\r\n", "\n").strip()[-RUN_FINAL_CHARS:]


def _object(line: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is(found: object, wanted: str) -> bool:
    """Whether a plain value is what a definition says, which writes all of them as text."""
    if isinstance(found, bool):
        return wanted == ("true" if found else "false")
    return (isinstance(found, str) and found == wanted) or (isinstance(found, int) and str(found) == wanted)


def _at(value: object, path: str) -> object:
    """The value at a dotted path; None where there is none."""
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
