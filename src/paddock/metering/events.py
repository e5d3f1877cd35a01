"""Server-sent events: the data of each is handed on as it arrives, whatever pieces it comes in.

Lines end in CR, LF or both; a line that is empty ends the event. Nothing of a line is kept but its first few bytes,
until it is known whether it is data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.metering.scanner import Scanner

_FIELD = b"data:"
_LINE = re.compile(rb"[^\r\n]+")
_CR = b"\r"


class Events:
    """Feeds a scanner with one text an event."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._begun = b""  # of a line, up to the length of `data:`
        self._after_cr = False

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if match := _LINE.match(data, at):
                self._after_cr = False
                self._part(match[0])
                at = match.end()
                continue
            mark = data[at : at + 1]
            if not (self._after_cr and mark != _CR):  # the LF of a CRLF ends nothing more
                self._line_end()
            self._after_cr = mark == _CR
            at += 1

    def _part(self, part: bytes) -> None:
        missing = len(_FIELD) - len(self._begun)
        self._begun += part[:missing]
        if self._begun == _FIELD:
            self._scanner.feed(part[missing:])

    def _line_end(self) -> None:
        if not self._begun:
            self._scanner.reset()
        elif self._begun == _FIELD:
            self._scanner.feed(b"\n")
        self._begun = b""
