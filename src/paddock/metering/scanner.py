"""Reads numbers and short strings at known places of a JSON text that arrives in pieces, and keeps nothing else.

Theory. A response may be as large as a model likes to talk, so it is never held: what is kept is how deep the text is
nested, the key that each of the first few levels is at, and the string or number at hand, up to a bound. A place is a
path of keys; a level of a list has the empty key. What a model says stands inside strings, so it cannot look like a
place. The text is not checked: a server that sends nonsense is not understood, and then what passed is estimated.
"""

from __future__ import annotations

import re
from typing import Protocol

from paddock.limits import METER_WORD_BYTES

Path = tuple[bytes, ...]

_LEVELS = 8  # what a Gemini model says, in a list of answers
_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE = b'"', b"\\", b":", b",", (b"{", b"["), (b"}", b"]")
_IN_STRING = re.compile(rb'[^"\\]+')
_OUTSIDE = re.compile(rb'[^"{}\[\]:,]+')
_INTEGER = re.compile(rb"[0-9]{1,15}")


class Sink(Protocol):
    def number(self, path: Path, value: int) -> None: ...
    def string(self, path: Path, value: bytes, length: int) -> None:
        """`value` is empty if the string is longer than a word; escapes are as they stand."""


class Scanner:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.reset()

    def reset(self) -> None:
        """Another text begins."""
        self._depth = 0
        self._keys: list[bytes] = []
        self._quoted = False
        self._escaped = False
        self._word = b""  # of the string or number at hand, as much as is kept
        self._length = 0
        self._string: tuple[bytes, int] | None = None  # one that ended; what follows says whether it was a key

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at = self._in_string(data, at) if self._quoted else self._outside(data, at)

    def _in_string(self, data: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._take(data[at : at + 1])
            return at + 1
        if match := _IN_STRING.match(data, at):
            self._take(match[0])
            return match.end()
        if data[at : at + 1] == _BACKSLASH:
            self._escaped = True
            self._take(_BACKSLASH)
        else:
            self._quoted = False
            self._string = self._word if self._length <= METER_WORD_BYTES else b"", self._length
            self._word, self._length = b"", 0
        return at + 1

    def _outside(self, data: bytes, at: int) -> int:
        if match := _OUTSIDE.match(data, at):
            self._take(match[0])
            return match.end()
        mark = data[at : at + 1]
        if mark == _QUOTE:
            self._quoted = True
            self._word, self._length = b"", 0
            return at + 1
        if mark == _COLON:
            self._key()
        else:
            self._value()
            self._structure(mark)
        self._word, self._length, self._string = b"", 0, None
        return at + 1

    def _take(self, piece: bytes) -> None:
        self._length += len(piece)
        if len(self._word) < METER_WORD_BYTES:
            self._word += piece[: METER_WORD_BYTES - len(self._word)]

    def _key(self) -> None:
        if self._keys and self._depth == len(self._keys):
            self._keys[-1] = self._string[0] if self._string else b""

    def _value(self) -> None:
        if self._depth > _LEVELS:
            return
        if self._string is not None:
            self._sink.string(tuple(self._keys), *self._string)
        elif self._length <= METER_WORD_BYTES and _INTEGER.fullmatch(word := self._word.strip()):
            self._sink.number(tuple(self._keys), int(word))

    def _structure(self, mark: bytes) -> None:
        if mark in _OPEN:
            self._depth += 1
            if self._depth <= _LEVELS:
                self._keys.append(b"")
        elif mark in _CLOSE and self._depth:
            self._depth -= 1
            del self._keys[self._depth :]
        elif mark == _COMMA and self._keys and self._depth == len(self._keys):
            self._keys[-1] = b""
