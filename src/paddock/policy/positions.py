"""Where a key or an element of a list stands in a TOML text. tomllib says what a file means and forgets where.

Reads only text that tomllib has accepted, so it need not refuse anything: it walks keys, strings, lists and tables just
closely enough to keep count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5}|"(?!"")(?:[^"\\\n]|\\.)*"|'
    r"'(?!'')[^'\n]*'",  # three that have no end are no string: to go on after them would take a box's file forever
    re.DOTALL,
)
_PLAIN = re.compile(r"[^\"'#]+")
_COMMENT = re.compile(r"#[^\n]*")
_PARTS_MAX = 16
_SCALAR = re.compile(r"[^,\]}#\n]*[^,\]}#\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A key with its value, or an element: where it begins, and where its value begins and ends."""

    line: int
    start: int
    value: int
    end: int


def is_deep(text: str) -> bool:
    """Whether a key has more parts than any of ours; tomllib takes half a minute for one that fills 64 KiB."""
    words: list[str] = []
    at = 0
    while at < len(text):
        plain = _PLAIN.match(text, at)
        found = plain or _STRING.match(text, at) or _COMMENT.match(text, at)
        if found is None:
            break  # a string without an end, where tomllib gives up
        words.append(_BARE.sub("k", plain[0]) if plain else "" if text[at] == "#" else "k")
        at = found.end()
    return "k." * _PARTS_MAX in re.sub(r"[ \t]+", "", "".join(words))


def positions(text: str) -> dict[Path, Spot]:
    return _Walk(text).document()


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[Path, Spot] = {}
        self._tables: dict[Path, int] = {}

    def document(self) -> dict[Path, Spot]:
        table: Path = ()
        self._skip()
        while self._at < len(self._text):
            table = self._pair(table) if self._text[self._at] != "[" else self._header()
            self._skip()
        return self._found

    def _header(self) -> Path:
        start = self._at
        many = self._text.startswith("[[", start)
        self._at += 2 if many else 1
        table = self._key()
        self._at = self._text.find("]", self._at) + (2 if many else 1)
        if many:
            count = self._tables.get(table, 0)
            self._tables[table] = count + 1
            table = (*table, count)
        self._note(table, start, start)
        return table

    def _pair(self, table: Path) -> Path:
        start = self._at
        key = (*table, *self._key())
        self._at += 1  # the equals sign, which _key stopped at
        self._skip()
        self._value(key, start)
        return table

    def _key(self) -> Path:
        """A dotted key; stops at whatever follows it."""
        parts: list[str | int] = []
        while True:
            self._skip()
            bare = _BARE.match(self._text, self._at)
            if bare:
                parts.append(bare[0])
                self._at = bare.end()
            else:
                parts.append(self._quoted())
            self._skip()
            if not self._text.startswith(".", self._at):
                return tuple(parts)
            self._at += 1

    def _quoted(self) -> str:
        import tomllib

        match = _STRING.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        value = tomllib.loads(f"key = {match[0]}")["key"]
        assert isinstance(value, str)
        return value

    def _value(self, path: Path, start: int) -> None:
        begin = self._at
        match self._text[begin]:
            case "[":
                self._list(path)
            case "{":
                self._inline(path)
            case _:
                found = _STRING.match(self._text, begin) or _SCALAR.match(self._text, begin)
                assert found is not None
                self._at = found.end()
        self._note(path, start, begin)

    def _list(self, path: Path) -> None:
        self._at += 1
        count = 0
        while True:
            self._skip(",")
            if self._text[self._at] == "]":
                break
            self._value((*path, count), self._at)
            count += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while True:
            self._skip(",")
            if self._text[self._at] == "}":
                break
            self._pair(path)
        self._at += 1

    def _skip(self, also: str = "") -> None:
        while True:
            match = _BLANK.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if not also or not self._text.startswith(also, self._at):
                return
            self._at += 1

    def _note(self, path: Path, start: int, value: int) -> None:
        line = self._text.count("\n", 0, start) + 1
        self._found.setdefault(path, Spot(line=line, start=start, value=value, end=self._at))
