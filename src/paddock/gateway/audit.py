"""Writing records: the host's log of a box in two halves that take turns, and the box's own file of refusals.

Each record is one write of one line to a descriptor opened with O_APPEND, by one writer. Nothing here raises for want
of room or for a broken disk: what could not be written is counted, and the count is written when there is room again.
Whatever a box can choose (names, methods, paths, and reasons that quote them) passes `clean` before it is cut to size.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import limits
from paddock.gateway.records import Decided, Event, Record, encode, header, plain, write_header

if TYPE_CHECKING:
    from collections.abc import Callable

    Clean = Callable[[str], str]

_HOST_CHARS, _TEXT_CHARS, _PROTOCOL_CHARS = 256, 320, 16
_LOOKED_AT_CHARS = _TEXT_CHARS + limits.SECRET_BYTES  # a value that begins in what is kept is there whole


def open_log(path: str, mode: int = 0o600) -> int:
    """A descriptor as Audit and Denials want it: appending, and readable so that a new gateway can go on."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    os.fchmod(fd, mode)  # whatever the umask
    return fd


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Audit:
    """The host's log of one box; takes the descriptors over and closes them."""

    def __init__(
        self, fd0: int, fd1: int, limit_bytes: int = limits.AUDIT_BYTES, *, box: str, clock: Callable[[], str] = now
    ) -> None:
        self._fds = (fd0, fd1)
        self._half_bytes = limit_bytes // 2
        self._box = box
        self._clock = clock
        self.clean: Clean = str
        self.lost = 0
        self._segment, self._half, self._size = self._resume()

    def __repr__(self) -> str:
        return f"<Audit {self._box} segment {self._segment} at {self._size}, {self.lost} lost>"

    def decision(self, decided: Decided) -> None:
        self._write(self._record(Event.DECISION, decided, decided.reason))

    def end(
        self, decided: Decided, *, sent_bytes: int, received_bytes: int, duration_ms: int, reason: str = ""
    ) -> None:
        """The end of a connection; `reason` when it did not end by itself."""
        self._write(self._record(Event.END, decided, reason, sent_bytes, received_bytes, duration_ms))

    def request(
        self,
        decided: Decided,
        *,
        method: str,
        path: str,
        status: int,
        secrets: str = "",
        sent_bytes: int = 0,
        received_bytes: int = 0,
        duration_ms: int = 0,
    ) -> None:
        """A request on an inspected connection, when its answer has ended or it was refused."""
        record = self._record(Event.REQUEST, decided, decided.reason, sent_bytes, received_bytes, duration_ms)
        method, path = self.clean(method[:_LOOKED_AT_CHARS]), self.clean(path[:_LOOKED_AT_CHARS])
        self._write(replace(record, method=method, path=path, status=status, secrets=secrets))

    def policy(self, reason: str, closed: int) -> None:
        """Another policy is in force, and `closed` connections ended by it."""
        self._write(Record(time=self._clock(), event=Event.POLICY, box=self._box, reason=reason, count=closed))

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = (-1, -1)

    def _record(
        self, event: Event, decided: Decided, reason: str, sent: int = 0, received: int = 0, duration_ms: int = 0
    ) -> Record:
        return Record(
            time=self._clock(),
            event=event,
            box=self._box,
            protocol=decided.protocol,
            host=self.clean(decided.host),
            port=decided.port,
            decision=decided.decision,
            rule=decided.rule,
            reason=self.clean(reason),
            sent_bytes=sent,
            received_bytes=received,
            duration_ms=duration_ms,
        )

    def _write(self, record: Record) -> None:
        lost = self.lost
        if lost:
            note = Record(time=record.time, event=Event.LOST, box=self._box, count=lost)
            if not self._append(note.to_line()):
                self.lost += 1
                return
            self.lost = 0
        if not self._append(record.to_line()):
            self.lost += 1

    def _append(self, line: bytes) -> bool:
        try:
            if self._segment < 0 or self._size + len(line) > self._half_bytes:
                self._turn()
            return self._put(line)
        except OSError:
            return False

    def _turn(self) -> None:
        """Nothing counts as turned before the number is written: a half without one is not read."""
        other = 1 - self._half
        begin = write_header(self._segment + 1)
        os.ftruncate(self._fds[other], 0)
        if os.write(self._fds[other], begin) != len(begin):
            os.ftruncate(self._fds[other], 0)
            raise OSError
        self._segment, self._half, self._size = self._segment + 1, other, len(begin)

    def _put(self, line: bytes) -> bool:
        """A line that found room only in part is taken back, so that readers never see one."""
        fd = self._fds[self._half]
        if os.write(fd, line) != len(line):
            os.ftruncate(fd, self._size)
            return False
        self._size += len(line)
        return True

    def _resume(self) -> tuple[int, int, int]:
        """Go on where the last writer ended."""
        try:
            segments = [header(fd)[0] for fd in self._fds]
            half = segments.index(max(segments))
            if segments[half] >= 0:
                return segments[half], half, _cut_torn(self._fds[half])
        except OSError:
            pass  # the first record will meet it too, and be counted
        return -1, 1, 0  # the first record turns to half 0


class Denials:
    """The refusals of a box in a file that the box reads; when it is full the older half is dropped.

    The file is mounted into the box, so it stays the same file. Takes the descriptor over and closes it.
    """

    def __init__(self, fd: int, limit_bytes: int = limits.DENIALS_BYTES, *, clock: Callable[[], str] = now) -> None:
        self._fd = fd
        self._limit_bytes = limit_bytes
        self._clock = clock
        self.clean: Clean = str
        try:
            _cut_torn(fd)
        except OSError:
            pass  # as in _resume

    def __repr__(self) -> str:
        return f"<Denials fd {self._fd}>"

    def add(self, decided: Decided, *, allow: str) -> None:
        """`allow` is the command that would allow it."""
        wire: dict[str, str | int] = {
            "time": self._clock(),
            "protocol": plain(decided.protocol, _PROTOCOL_CHARS),
            "host": plain(self.clean(decided.host), _HOST_CHARS),
            "port": decided.port,
            "rule": plain(decided.rule, _TEXT_CHARS),
            "reason": plain(self.clean(decided.reason), _TEXT_CHARS),
            "allow": plain(self.clean(allow), _TEXT_CHARS),
        }
        line = encode(wire)
        try:
            size = os.fstat(self._fd).st_size
            if size + len(line) > self._limit_bytes:
                size = self._shrink(size)
            if os.write(self._fd, line) != len(line):
                os.ftruncate(self._fd, size)
        except OSError:
            return

    def close(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def _shrink(self, size: int) -> int:
        half = self._limit_bytes // 2
        kept = os.pread(self._fd, half, max(size - half, 0)).partition(b"\n")[2]
        os.ftruncate(self._fd, 0)
        if os.write(self._fd, kept) != len(kept):
            os.ftruncate(self._fd, 0)
            return 0
        return len(kept)


def _cut_torn(fd: int) -> int:
    """Take away a last line that its writer did not finish; the size that is left."""
    size = os.fstat(fd).st_size
    start = max(size - limits.AUDIT_LINE_BYTES, 0)
    whole = start + os.pread(fd, limits.AUDIT_LINE_BYTES, start).rfind(b"\n") + 1
    if whole != size:
        os.ftruncate(fd, whole)
    return whole
