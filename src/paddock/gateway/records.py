"""What the gateway decided, as records: one line of JSON each, written by `audit` and read here.

Theory. The files of a box are two halves that take turns. Each begins with a line that holds its number; the half with
the higher number is the newer one, and when it is full the other is emptied and gets the next number. A reader
remembers a number and an offset, looks at the number again after reading, and so never mixes two turns up. Lines that
are torn or are no records are passed over: a writer that died in the middle of a line costs that line.
"""

from __future__ import annotations

import enum
import json
import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from paddock import codec, limits
from paddock.errors import Unavailable, UserError
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HEADER_BYTES = 64
_NUMBER_MAX = 1 << 62
_TRIES = 3  # a writer that turns faster than we read; the rest comes with the next poll
_CHARS = {"time": 32, "box": 64, "protocol": 16, "host": 256, "rule": 320, "reason": 320}
_CHARS |= {"method": 32, "path": 320, "secrets": 128}  # the line stays below 4 KiB
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encode(wire: dict[str, str | int]) -> bytes:
    """One line: ASCII, and nothing a value holds can end it."""
    return _encode(wire).encode("ascii") + b"\n"


def plain(text: str, limit: int) -> str:
    """At most `limit` printable ASCII characters: in JSON they take at most twice as many bytes."""
    shown = neutralise(text, limit)
    return shown if shown.isascii() else neutralise(shown.encode("ascii", "backslashreplace").decode("ascii"), limit)


class Event(enum.Enum):
    DECISION = "decision"
    END = "end"  # of a connection that was allowed
    REQUEST = "request"  # on an inspected connection: sent on, or refused
    POLICY = "policy"  # another policy is in force; `count` connections were closed by it
    LOST = "lost"  # `count` records found no room on the disk


class Decision(enum.Enum):
    NONE = "none"
    ALLOW = "allow"
    DENY = "deny"
    OBSERVE = "observe"  # would have been denied, and was let through to learn


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A destination and what was decided about it; `rule` and `reason` say why."""

    protocol: str
    host: str
    port: int
    decision: Decision
    rule: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    time: str  # UTC, ISO 8601
    event: Event
    box: str
    protocol: str = ""
    host: str = ""
    port: int = 0
    decision: Decision = Decision.NONE
    rule: str = ""
    reason: str = ""
    sent_bytes: int = 0  # by the box
    received_bytes: int = 0
    duration_ms: int = 0
    count: int = 0
    method: str = ""
    path: str = ""  # without the query
    status: int = 0  # of the answer; 0 when there was none
    secrets: str = ""  # the names of those that were put in, with commas between

    def to_line(self) -> bytes:
        """One line of ASCII, whatever the fields hold: controls are escaped and long text is cut."""
        wire: dict[str, str | int] = {
            "time": plain(self.time, _CHARS["time"]),
            "event": self.event.value,
            "box": plain(self.box, _CHARS["box"]),
        }
        for name in _OPTIONAL:
            value = getattr(self, name)
            if isinstance(value, str) and value:
                wire[name] = plain(value, _CHARS[name])
            elif isinstance(value, int) and value:
                wire[name] = min(max(value, 0), _NUMBER_MAX)
        if self.decision is not Decision.NONE:
            wire["decision"] = self.decision.value
        return encode(wire)


_OPTIONAL = tuple(field.name for field in fields(Record) if field.name not in {"time", "event", "box", "decision"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All records of one destination with one outcome."""

    box: str
    protocol: str
    host: str
    port: int
    decision: Decision
    rule: str
    reason: str
    count: int
    sent_bytes: int
    received_bytes: int
    first: str
    last: str


def parse_line(line: bytes) -> Record | None:
    """A record, or None for whatever is not exactly one."""
    if len(line) > limits.AUDIT_LINE_BYTES:
        return None
    try:
        wire = json.loads(line.decode("ascii"))
        record = codec.from_wire(Record, wire)
    except (ValueError, RecursionError, UserError):
        return None
    texts = ((getattr(record, name), most) for name, most in _CHARS.items())
    numbers = (record.port, record.sent_bytes, record.received_bytes, record.duration_ms, record.count, record.status)
    fits = all(len(text) <= most for text, most in texts) and all(0 <= number <= _NUMBER_MAX for number in numbers)
    return record if fits else None


def aggregate(records: Iterable[Record]) -> tuple[Summary, ...]:
    """Decisions counted and bytes added up per destination and outcome, the latest first."""
    found: dict[tuple[str, ...], Summary] = {}
    for record in records:
        refused = record.event is Event.REQUEST and record.decision is Decision.DENY
        if record.event not in {Event.DECISION, Event.END} and not refused:
            continue
        decided = record.event is Event.DECISION or refused
        key = (record.box, record.protocol, record.host, str(record.port), record.decision.value, record.rule)
        so_far = found.pop(key, None) or Summary(
            box=record.box,
            protocol=record.protocol,
            host=record.host,
            port=record.port,
            decision=record.decision,
            rule=record.rule,
            reason=record.reason,
            count=0,
            sent_bytes=0,
            received_bytes=0,
            first=record.time,
            last=record.time,
        )
        found[key] = replace(
            so_far,
            count=so_far.count + decided,
            reason=record.reason if decided else so_far.reason,
            sent_bytes=so_far.sent_bytes + record.sent_bytes,
            received_bytes=so_far.received_bytes + record.received_bytes,
            last=record.time,
        )
    return tuple(reversed(found.values()))


def read(paths: Sequence[str]) -> list[Record]:
    """All records of a box, the oldest first; a full log takes a second."""
    return Reader(paths).poll()


class Reader:
    """Follows the two halves of a box: each `poll` gives what came since the one before."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._segment = -1
        self._offset = 0

    def __repr__(self) -> str:
        return f"<Reader segment {self._segment} at {self._offset}>"

    def poll(self) -> list[Record]:
        """Records in order; Unavailable when a file cannot be read. One that is missing is empty."""
        found: list[Record] = []
        try:
            for _ in range(_TRIES):
                if self._read_halves(found):
                    break
        except OSError as error:
            raise Unavailable(f"the network log cannot be read: {error.strerror}", code="no-log") from error
        return found

    def skip(self) -> None:
        """Begin with what comes from now on."""
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            try:
                segment = header(fd)[0]
                if segment > self._segment:
                    self._segment, self._offset = segment, os.fstat(fd).st_size
            finally:
                os.close(fd)

    @property
    def segment(self) -> int:
        """The number of the half that was read last: it leaps where one was emptied unread."""
        return self._segment

    def _read_halves(self, found: list[Record]) -> bool:
        """Whether no half was emptied while it was read."""
        fds = []
        try:
            for path in self._paths:
                try:
                    fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
                except FileNotFoundError:
                    continue
            halves = sorted((*header(fd), fd) for fd in fds)
            return all(self._read_half(*half, found) for half in halves if half[0] >= max(self._segment, 0))
        finally:
            for fd in fds:
                os.close(fd)

    def _read_half(self, segment: int, start: int, fd: int, found: list[Record]) -> bool:
        offset = self._offset if segment == self._segment else start
        length = min(os.fstat(fd).st_size - offset, limits.AUDIT_BYTES)
        data = os.pread(fd, length, offset) if length > 0 else b""
        if header(fd)[0] != segment:
            return False
        whole = data.rfind(b"\n") + 1
        found += [record for record in map(parse_line, data[:whole].splitlines()) if record]
        self._segment, self._offset = segment, offset + whole
        return True


def write_header(segment: int) -> bytes:
    return b'{"segment":%d}\n' % segment


def header(fd: int) -> tuple[int, int]:
    """The number of the half in `fd` and the length of the line that holds it; (-1, 0) when there is none."""
    line = os.pread(fd, _HEADER_BYTES, 0).partition(b"\n")[0]
    digits = line.removeprefix(b'{"segment":').removesuffix(b"}")
    if not digits.isdigit() or len(digits) > 15 or write_header(int(digits)) != line + b"\n":
        return -1, 0
    return int(digits), len(line) + 1
