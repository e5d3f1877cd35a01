"""What a box left that nobody has been told yet, kept with the box until somebody is.

A detached job ends while nobody looks, and a box may be stopped by a limit: what they left in the workspace, and which
commits came home, is then said by the next command that a person runs with the box.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paddock import codec, fs
from paddock.errors import PaddockError
from paddock.reports import LeaveReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)
T = TypeVar("T")
_FILE = "left.json"
_MOST = 200  # of each kind; nobody reads more
_BYTES = 200_000  # of all names: an answer is one message, and a box chooses how long they are


class Untold:
    """In a box's directory, which the box does not see."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{_FILE}"
        self._report: LeaveReport | None = None  # not read yet

    def __repr__(self) -> str:
        return f"<Untold {count(self.peek())}>"

    def peek(self) -> LeaveReport:
        if self._report is None:
            try:
                with open(self._path, "rb") as file:
                    self._report = codec.from_wire(LeaveReport, json.loads(file.read()))
            except FileNotFoundError:
                self._report = LeaveReport()
            except (OSError, ValueError, PaddockError) as error:
                log.warning("%s: %s", self._path, error)
                problem = "what the box left before could not be read; look at the workspace"
                self._report = LeaveReport(problems=(problem,))
        return self._report

    def add(self, report: LeaveReport) -> None:
        """Remember it, also for the next daemon. Waits for the disk."""
        if report == LeaveReport():
            return
        self._report = merged(self.peek(), report)
        try:
            fs.write_atomic(self._path, json.dumps(codec.to_wire(self._report)).encode())
        except PaddockError as error:
            log.warning("what a box left is not written down: %s", error)

    def take(self) -> LeaveReport:
        """It is being told now. Waits for the disk."""
        report, self._report = self.peek(), LeaveReport()
        if report != LeaveReport():
            try:
                os.unlink(self._path)
            except FileNotFoundError:
                pass
        return report


def count(report: LeaveReport) -> int:
    """How many things there are to tell."""
    parts = (report.trusted, report.nested, report.arrived, report.problems)
    return sum(map(len, parts)) + (not report.complete)


def merged(first: LeaveReport, second: LeaveReport) -> LeaveReport:
    """One report of two, the second being the later one."""
    cut = _Cut()
    report = LeaveReport(
        trusted=cut.joined((*first.trusted, *second.trusted), lambda item: item.path),
        nested=cut.joined((*first.nested, *second.nested), lambda path: path),
        complete=first.complete and second.complete,
        arrived=cut.joined((*first.arrived, *second.arrived), lambda item: item.ref),
        problems=cut.joined((*first.problems, *second.problems), lambda line: line),
    )
    if not cut.left_out:
        return report
    return replace(report, problems=(*report.problems, f"the box left {cut.left_out} more than can be named here"))


class _Cut:
    def __init__(self) -> None:
        self.left_out = 0
        self._room_bytes = _BYTES

    def joined(self, items: Iterable[T], key: Callable[[T], str]) -> tuple[T, ...]:
        found = {key(item): item for item in items}
        kept: list[T] = []
        for name, item in found.items():
            self._room_bytes -= len(os.fsencode(name))
            if self._room_bytes >= 0 and len(kept) < _MOST:
                kept.append(item)
        self.left_out += len(found) - len(kept)
        return tuple(kept)
