"""logs: prints a journalled command's output, to its end when followed.

TRUST: a journal was written inside the box: it is decoded as hostile bytes and goes to a terminal through ScreenFilter.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from paddock import frames, text
from paddock.cli.attach import Screens
from paddock.client import Paddock
from paddock.errors import Unavailable, UserError

if TYPE_CHECKING:
    import argparse

    from paddock.model import JobInfo

_POLL_S = 0.1
_ASK_EVERY = 10  # polls: the journal tells when its command ended, only a killed box leaves it without a last word
_READ_BYTES = 1 << 20
_OUTPUTS = {frames.STDOUT: 1, frames.STDERR: 2}


def logs(options: argparse.Namespace) -> int:
    name, slash, job = options.box.partition("/")
    if not name or (slash and not job):
        hint = "BOX or BOX/JOB; `paddock logs --list BOX` lists the jobs"
        raise UserError(f"{options.box!r} names no job", hint=hint, code="usage")
    with Paddock() as paddock:
        if options.list:
            return _list(paddock, name)
        info, fds = paddock.journal(name, job)
        with contextlib.ExitStack() as stack:
            for fd in fds:
                stack.callback(os.close, fd)
            printer = _Printer(fds, stack.enter_context(Screens()))
            printer.print_new()
            if options.follow:
                _follow(paddock, info, printer)
    return 0


def _follow(paddock: Paddock, info: JobInfo, printer: _Printer) -> None:
    polls = 0
    while not printer.ended:
        if polls % _ASK_EVERY == 0 and not _runs(paddock, info):
            printer.print_new()
            return
        polls += 1
        time.sleep(_POLL_S)
        printer.print_new()


def _list(paddock: Paddock, name: str) -> int:
    rows = []
    for job in paddock.named(name).jobs():
        state = "running" if job.running else f"exit {job.exit_code}" if job.exit_code is not None else "ended"
        rows.append((f"{job.box}/{job.id}", state, job.started_at, " ".join(job.argv)))
    if rows:
        print(text.table(rows, ("JOB", "STATE", "STARTED", "COMMAND")))
    else:
        print("no journalled commands; `paddock run -d` and `paddock exec -d` make one", file=sys.stderr)
    return 0


def _runs(paddock: Paddock, info: JobInfo) -> bool:
    return any(job.id == info.id and job.running for job in paddock.named(info.box).jobs())


class _Printer:
    """Reads the two files of a journal in their order and prints what is new."""

    def __init__(self, fds: list[int], screens: Screens) -> None:
        self._fds = fds
        self._screens = screens
        self._sequence = -1
        self._offset = 0
        self._decoder = frames.Decoder()
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
        headers = {number: fd for fd in self._fds if (number := _sequence(fd)) is not None}
        if self._sequence in headers and os.fstat(headers[self._sequence]).st_size > self._offset:
            return headers[self._sequence]
        later = sorted(number for number in headers if number > self._sequence)
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
            for kind, payload in self._decoder.feed(data):
                self._show(kind, payload)
        except Unavailable:  # torn or forged: nothing after it can be trusted
            print("[the journal is damaged here]", file=sys.stderr)
            self.ended = True
        return bool(data)

    def _show(self, kind: int, payload: bytes) -> None:
        if kind in _OUTPUTS:
            self._screens.show(_OUTPUTS[kind], payload)
        elif kind == frames.MESSAGE:
            event = frames.decode_message(payload)
            if event.get("event") == "error":
                print(f"error: {text.neutralise(str(event.get('message')))}", file=sys.stderr)
            if event.get("event") in {"exit", "error"}:
                self._screens.flush()
                self.ended = True


def _sequence(fd: int) -> int | None:
    """The number in a segment's first frame."""
    try:
        decoded = frames.Decoder().feed(os.pread(fd, 4096, 0))
        message = frames.decode_message(decoded[0][1]) if decoded else {}
    except Unavailable:
        return None
    number = message.get("sequence")
    return number if type(number) is int and message.get("event") == "segment" else None
