"""logs: prints a journalled command's output, to its end when followed."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from paddock import frames, text
from paddock.cli.screen import ScreenFilter
from paddock.client import Paddock
from paddock.errors import Unavailable

if TYPE_CHECKING:
    import argparse

    from paddock.model import JobInfo

_POLL_S = 0.1
_READ_BYTES = 1 << 20


def logs(options: argparse.Namespace) -> int:
    name, _, job = options.box.partition("/")
    with Paddock() as paddock:
        if options.list:
            return _list(paddock, name)
        info, fds = paddock.journal(name, job)
        try:
            printer = _Printer(fds)
            printer.print_new()
            while options.follow and not printer.ended and _runs(paddock, info):
                time.sleep(_POLL_S)
                printer.print_new()
            printer.print_new()
        finally:
            for fd in fds:
                os.close(fd)
    return 0


def _list(paddock: Paddock, name: str) -> int:
    rows = []
    for job in paddock.named(name).jobs():
        state = "running" if job.running else f"exit {job.exit_code}" if job.exit_code is not None else "ended"
        rows.append((f"{job.box}/{job.id}", state, job.started_at, " ".join(job.argv)))
    print(text.table(rows, ("JOB", "STATE", "STARTED", "COMMAND")) if rows else "no journalled commands")
    return 0


def _runs(paddock: Paddock, info: JobInfo) -> bool:
    return any(job.id == info.id and job.running for job in paddock.named(info.box).jobs())


class _Printer:
    """Reads the two files of a journal in their order and prints what is new."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds
        self._sequence = -1
        self._dropped = 0
        self._offset = 0
        self._decoder = frames.Decoder()
        self._screens = {kind: ScreenFilter() for kind, fd in _OUTPUTS.items() if os.isatty(fd)}
        self.ended = False

    def print_new(self) -> None:
        while not self.ended:
            segment = self._next_segment()
            if segment is None:
                return
            if not self._print(segment) and self._newer() is None:
                return

    def _next_segment(self) -> int | None:
        """Stay on the segment in hand while it holds the current sequence; else go to the next one."""
        headers = {_sequence(fd): fd for fd in self._fds}
        headers.pop(None, None)
        if self._sequence in headers and os.fstat(headers[self._sequence]).st_size > self._offset:
            return headers[self._sequence]
        later = sorted(number for number in headers if number is not None and number > self._sequence)
        if not later:
            return headers.get(self._sequence)
        if later[0] > self._sequence + 1:
            print("[older output was dropped]", file=sys.stderr)
        self._sequence, self._offset, self._decoder = later[0], 0, frames.Decoder()
        return headers[self._sequence]

    def _newer(self) -> int | None:
        numbers = [number for number in map(_sequence, self._fds) if number is not None and number > self._sequence]
        return min(numbers) if numbers else None

    def _print(self, fd: int) -> bool:
        data = os.pread(fd, _READ_BYTES, self._offset)
        self._offset += len(data)
        try:
            decoded = self._decoder.feed(data)
        except Unavailable:  # torn or forged: nothing after it can be trusted
            self.ended = True
            return False
        for kind, payload in decoded:
            self._show(kind, payload)
        return bool(data)

    def _show(self, kind: int, payload: bytes) -> None:
        if kind in _OUTPUTS:
            screen = self._screens.get(kind)
            _write(_OUTPUTS[kind], screen.feed(payload) if screen else payload)
        elif kind == frames.MESSAGE:
            event = frames.decode_message(payload)
            if event.get("event") == "error":
                print(f"error: {text.neutralise(str(event.get('message')))}", file=sys.stderr)
            self.ended = self.ended or event.get("event") in {"exit", "error"}


_OUTPUTS = {frames.STDOUT: 1, frames.STDERR: 2}


def _sequence(fd: int) -> int | None:
    """The number in a segment's first frame."""
    head = os.pread(fd, 4096, 0)
    try:
        decoded = frames.Decoder().feed(head)
        message = frames.decode_message(decoded[0][1]) if decoded else {}
    except Unavailable:
        return None
    number = message.get("sequence")
    return number if isinstance(number, int) and message.get("event") == "segment" else None


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
