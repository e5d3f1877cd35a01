"""Commits of a box as we show them: read from their objects, so that none decides how much is read or what reads it.

A message may be as long as memory is, and a commit names the encoding that `git log` would hand it to, which is one of
the C library's many converters. Here the long ones are known by their size alone, and bytes stay what they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from paddock import limits
from paddock.text import size
from paddock.workspace import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.git import Place

_READ_BYTES = 16 * limits.KIB  # of one commit
_ROW_BYTES = 256  # what git says of an object, with room
_AUTHOR = re.compile(rb"^author (.*?) ?<([^<>\n]*)> (\d{1,15}) ([+-])(\d\d)(\d\d)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """As the box wrote it: names and subject are untrusted text."""

    oid: str
    author: str
    email: str
    date: str
    subject: str


def read(place: Place, ids: list[str]) -> tuple[Commit, ...]:
    """Those commits, in that order, each once; of one that is too long to be read only its size."""
    sizes = _sizes(place, ids)
    small = [oid for oid, count in sizes.items() if count <= _READ_BYTES]
    bodies = dict(_bodies(place, small)) if small else {}
    return tuple(parse(oid, bodies[oid]) if oid in bodies else _unread(oid, count) for oid, count in sizes.items())


def parse(oid: str, data: bytes) -> Commit:
    """What stands in a commit object; empty where it is malformed."""
    head, _, message = data.partition(b"\n\n")
    paragraph = message.lstrip(b"\n").partition(b"\n\n")[0]
    subject = b" ".join(line.strip() for line in paragraph.split(b"\n"))
    found = _AUTHOR.search(head)
    name, email, seconds, *zone = found.groups() if found else (b"", b"", b"", b"", b"", b"")
    return Commit(
        oid=oid, author=_text(name), email=_text(email), date=_date(seconds, *zone), subject=_text(subject.strip())
    )


def _date(seconds: bytes, sign: bytes, hours: bytes, minutes: bytes) -> str:
    try:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == b"-" else offset) if offset else UTC
        return datetime.fromtimestamp(int(seconds), zone).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _unread(oid: str, count: int) -> Commit:
    return Commit(oid=oid, author="", email="", date="", subject=f"(a commit of {size(count)}, too long to be shown)")


def _sizes(place: Place, ids: list[str]) -> dict[str, int]:
    words = ["cat-file", "--batch-check=%(objectname) %(objectsize)"]
    said = git.output(words, place, stdin=_lines(ids), output_bytes_max=_ROW_BYTES * (len(ids) + 1))
    rows = [line.partition(" ") for line in _text(said).splitlines()]
    return {oid: int(count) for oid, _, count in rows if count.isdigit()}  # not those that are gone by now


def _bodies(place: Place, ids: list[str]) -> Iterator[tuple[str, bytes]]:
    room = (_READ_BYTES + _ROW_BYTES) * len(ids)
    said = git.output(["cat-file", "--batch"], place, stdin=_lines(ids), output_bytes_max=room)
    at = 0
    while at < len(said):
        end = said.index(b"\n", at)
        oid, _, count = said[at:end].split(b" ")
        at = end + 1 + int(count) + 1
        yield _text(oid), said[end + 1 : at - 1]


def _lines(ids: list[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in ids).encode("ascii")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
