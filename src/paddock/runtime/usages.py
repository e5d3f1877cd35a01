"""What boxes spent, as the gateway tells it: kept on disk, also for a while when the box is gone.

Time runs while a box does. The gateway counts it too, so neither loses it when the other dies.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError
from paddock.gateway.purse import Spending
from paddock.limits import USAGES_MAX
from paddock.metering.ledger import Report
from paddock.model import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from paddock.gateway.control import BoxUsage
    from paddock.runtime.box import Box

log = logging.getLogger(__name__)
_ENDING = ".json"


class Usages:
    """`queue` writes later and in order; `spent` is told once of a box whose budget is used up."""

    def __init__(
        self,
        directory: str,
        queue: Callable[..., None],
        spent: Callable[[Box, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._queue = queue
        self._spent = spent
        self._known: dict[str, Report] = {}
        self._clock = clock
        self._since: dict[str, float] = {}  # of boxes that run: when its time was added up last
        fs.make_private_dir(directory)

    def __repr__(self) -> str:
        return f"<Usages {len(self._known)} boxes>"

    def heard(self, box: Box, usage: BoxUsage) -> None:
        before = self.of(box)
        report = Report(
            box=box.row.id,
            name=box.name,
            budget=box.row.spec.budget,
            lines=usage.lines,
            seconds=max(self._seconds(box), usage.seconds),
            over=usage.over,
            changed=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if box.row.id in self._since:
            self._since[box.row.id] = self._clock()
        self._known[box.row.id] = report
        self._queue(self._write, report)
        if usage.over and not before.over and box.row.spec.budget != Budget():
            self._spent(box, usage.over)

    def spending(self, box: Box) -> Spending:
        """What it may spend, and what it did in all its life."""
        return Spending(budget=box.row.spec.budget, lines=self.of(box).lines, seconds=self._seconds(box))

    def runs(self, box: Box) -> None:
        """Its time goes on from now."""
        self._since.setdefault(box.row.id, self._clock())

    def rests(self, box: Box) -> None:
        """It ended, and its time stands still."""
        if box.row.id not in self._since:
            return
        report = replace(self.of(box), seconds=self._seconds(box))
        del self._since[box.row.id]
        self._known[box.row.id] = report
        self._queue(self._write, report)

    def _seconds(self, box: Box) -> float:
        now = self._clock()
        return self.of(box).seconds + now - self._since.get(box.row.id, now)

    def of(self, box: Box) -> Report:
        known = self._known.get(box.row.id) or self._read(box.row.id)
        if known is None:
            known = Report(box=box.row.id, name=box.name, budget=box.row.spec.budget)
        return self._known.setdefault(box.row.id, known)

    def over(self, box_id: str) -> str:
        """Why its requests are refused, also of a box that is gone."""
        known = self._known.get(box_id) or (self._read(box_id) if box_id.isalnum() else None)
        return known.over if known is not None else ""

    def begins(self, box: Box) -> None:
        """A box starts anew, or with another budget: that it is over it is said again when it is found so."""
        if (known := self.of(box)).over:
            self._known[box.row.id] = replace(known, over="")

    def all(self) -> list[Report]:
        """Of all boxes that spent anything, the last one last."""
        ids = {name.removesuffix(_ENDING) for name in os.listdir(self._directory) if name.endswith(_ENDING)}
        known = (self._known.get(box_id) or self._read(box_id) for box_id in ids | self._known.keys())
        found = filter(None, known)
        return sorted((report for report in found if report.lines or report.over), key=lambda each: each.changed)

    def forget(self, box_id: str) -> None:
        """A box is gone: what it spent is on disk."""
        self._known.pop(box_id, None)
        self._since.pop(box_id, None)

    def prune(self, living: Collection[str]) -> None:
        """Keep the newest of boxes that are gone."""
        for report in [report for report in self.all() if report.box not in living][:-USAGES_MAX]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(report.box))

    def _write(self, report: Report) -> None:
        fs.write_atomic(self._path(report.box), json.dumps(codec.to_wire(report)).encode(), sync=False)

    def _read(self, box_id: str) -> Report | None:
        try:
            with open(self._path(box_id), "rb") as file:
                return codec.from_wire(Report, json.loads(file.read()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, PaddockError) as error:
            log.warning("what %s spent cannot be read: %s", box_id, error)
            return None

    def _path(self, box_id: str) -> str:
        return f"{self._directory}/{box_id}{_ENDING}"
