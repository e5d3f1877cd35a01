"""Words replaced in a stream, also where one lies across two pieces; what begins no word is never held back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Replacing:
    """Feed pieces, get pieces; `found` has the words that occurred."""

    __slots__ = ("_held", "_pattern", "_words", "found")

    def __init__(self, words: Mapping[bytes, bytes]) -> None:
        self._words = dict(words)
        self._pattern = re.compile(b"|".join(map(re.escape, self._words)))
        self._held = b""
        self.found: set[bytes] = set()

    def __repr__(self) -> str:
        return f"<Replacing {len(self._words)} words, {len(self.found)} found>"

    @property
    def keeps_length(self) -> bool:
        return all(len(old) == len(new) for old, new in self._words.items())

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data, self._held = self._held + data, b""
        if not any(word in data for word in self._words):  # much faster than the pattern, and nearly always so
            keep = self._begun(data, 0)
            if not keep:
                return data
            self._held = data[len(data) - keep :]
            return data[: len(data) - keep]
        out: list[bytes] = []
        start = 0
        for match in self._pattern.finditer(data):
            self.found.add(match[0])
            out += (data[start : match.start()], self._words[match[0]])
            start = match.end()
        keep = self._begun(data, start)
        out.append(data[start : len(data) - keep])
        self._held = data[len(data) - keep :]
        return b"".join(out)

    def end(self) -> bytes:
        """What was held back in vain."""
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes, start: int) -> int:
        """How many of the last bytes may be the beginning of a word."""
        most = 0
        for word in self._words:
            at = data.find(word[0], max(start, len(data) - len(word) + 1))
            while at >= 0 and not word.startswith(data[at:]):
                at = data.find(word[0], at + 1)
            if at >= 0:
                most = max(most, len(data) - at)
        return most
