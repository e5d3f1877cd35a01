"""What a new daemon does before it serves: find the boxes an earlier one left, and clear away what nobody owns.

What is true is found out first, from the rows, the disk and /proc; what changed is then written down in one go. When
there is no room to write it down it is true all the same, and the next daemon finds it again.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs, proc
from paddock.engines.container.removal import remove_tree
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, BoxState
from paddock.runtime import bases, commands, departures, homecoming, journals, records, runs, settling, tooling
from paddock.runtime.box import Box
from paddock.runtime.rebuild import set_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from paddock.engines.base import Handle
    from paddock.runtime.core import Runtime
    from paddock.store import BoxRow, Store

log = logging.getLogger(__name__)


async def recover(runtime: Runtime, store: Store) -> None:
    await _Recovery(runtime, store).run()


class _Recovery:
    def __init__(self, runtime: Runtime, store: Store) -> None:
        self._runtime = runtime
        self._store = store
        self._changes: list[Callable[[], object]] = []
        self._dropped: set[str] = set()

    async def run(self) -> None:
        rows, damaged = self._store.load()
        for damage in damaged:
            self._runtime.register.reserved_names.add(damage.name)
            self._runtime.register.reserved_positions.add(damage.position)
            self._say(
                f"box {damage.name}: its record is damaged ({damage.problem}) and left as it is; "
                "`paddock doctor --rebuild` restores it"
            )
        kept = {damage.id for damage in damaged}
        for row in [*rows, *self._forgotten(rows, kept)]:
            box = Box(row, self._runtime.register.directory(row.id))
            self._runtime.boxes[row.id] = box
            if self._has_files(box):
                self._revive(box)
        self._write_down()
        await settling.settle(self._runtime, self._store)
        self._clear_journals()
        await asyncio.to_thread(self._runtime.kept.settle)
        self._clear_strays({*self._runtime.boxes, *kept})
        await self._sweep()
        self._runtime.runs.recovered.clear()
        self._runtime.background.later(runs.recover(self._runtime), "look at runs")

    def _say(self, line: str) -> None:
        self._runtime.repairs.append(line)

    # -- what there is -------------------------------------------------------------------------------------------------

    def _forgotten(self, rows: list[BoxRow], kept: Collection[str]) -> list[BoxRow]:
        """Boxes with files and without a row: a damaged database lost them, or a run's had no time to be written."""
        found: list[BoxRow] = []
        names = {row.spec.name for row in rows} | self._runtime.register.reserved_names
        positions = {row.position for row in rows} | self._runtime.register.reserved_positions
        for name in sorted(set(os.listdir(self._runtime.paths.boxes)) - {row.id for row in rows} - set(kept)):
            directory = self._runtime.register.directory(name)
            if not records.has_run(directory):
                continue  # nobody was told of it
            try:
                row = records.read(self._runtime.paths.boxes, BoxId(name), names, positions)
            except (OSError, ValueError, RecursionError, PaddockError) as error:
                aside = set_aside(self._runtime.paths, name)
                self._say(f"box {name}: has no record ({error}); its files are now in {aside}")
                continue
            names.add(row.spec.name)
            positions.add(row.position)
            found.append(row)
            self._changes.append(functools.partial(records.restore, self._store, directory, row))
            if not row.spec.ephemeral:
                self._say(f"box {row.spec.name}: the database had lost it; restored from its own record")
        return found

    def _has_files(self, box: Box) -> bool:
        """Files leave before the row does: a row without them is a removal that was not finished."""
        if not fs.is_missing(box.directory):
            return True
        if box.row.state is BoxState.CREATED and not box.row.spec.ephemeral:
            self._changes.append(lambda: records.remake(box.directory, box.row))  # it had nothing but its record
            return True
        self._drop(box, "its files are gone")
        return False

    def _revive(self, box: Box) -> None:
        was_running = box.row.state is BoxState.RUNNING
        handle = self._runtime.engine(box).adopt(box.placement, box.row.evidence)
        if handle is not None:
            if box.row.evidence != handle.evidence and not box.row.spec.ephemeral:
                self._say(f"box {box.name}: was running without a record; taken over")
            self._set_state(box, BoxState.RUNNING, "", handle)
            box.tools = tooling.kept(box)
            lives = self._runtime.lifetimes
            lives.hold(box, handle)
            lives.watch.set_active(box.row.id, active=True)  # what an earlier daemon started may still run
            if box.row.spec.ephemeral:
                self._runtime.background.later(_end_if_abandoned(self._runtime, box), f"look at {box.name}")
            else:
                self._runtime.background.later(departures.note_jobs(self._runtime, box), f"wait for jobs of {box.name}")
        elif box.row.spec.ephemeral and _has_commits(box):
            self._say(f"box {box.name}: its run is over; its commits come home")
            self._runtime.background.later(_remove(self._runtime, box), f"remove {box.name}")
        elif box.row.spec.ephemeral:
            self._drop(box, "its run is over" if was_running else "its run never began")
        elif was_running:
            boot = box.row.evidence.boot_id if box.row.evidence else ""
            why = "it ended while no daemon ran" if boot == proc.boot_id() else "the machine was restarted"
            self._say(f"box {box.name}: {why}; marked stopped")
            self._set_state(box, BoxState.STOPPED, why)

    # -- what to do about it -------------------------------------------------------------------------------------------

    def _set_state(self, box: Box, state: BoxState, reason: str, handle: Handle | None = None) -> None:
        evidence = handle.evidence if handle else None
        if (box.row.state, box.row.reason, box.row.evidence) == (state, reason, evidence):
            return
        box.row = replace(box.row, state=state, reason=reason, evidence=evidence)
        self._changes.append(lambda: self._store.set_state(box.row, state, reason, evidence))

    def _drop(self, box: Box, why: str) -> None:
        self._dropped.add(box.row.id)
        self._changes.append(lambda: self._store.remove(box.row.id))
        del self._runtime.boxes[box.row.id]
        self._say(f"box {box.name}: {why}; removed")

    def _write_down(self) -> None:
        if not self._changes:
            return
        try:
            with self._store.batch():
                for change in self._changes:
                    change()
        except (OSError, Unavailable) as error:
            log.warning("recovery: %s", error)
            self._say(f"what was found could not be written down: {error}")
            for box in self._runtime.boxes.values():  # in the store they may have no row, and would be pruned
                self._runtime.register.reserved_layers |= records.kept_layers(box.directory)

    def _clear_journals(self) -> None:
        """Empty journals without a job: a daemon died before it had recorded the command."""
        jobs = self._store.job_ids()
        for box in self._runtime.boxes.values():
            for job in journals.unused(box.directory):
                if (box.row.id, job) not in jobs:
                    journals.remove(box.directory, job)

    def _clear_strays(self, known: Collection[str]) -> None:
        """Directories of boxes whose making, or whose removal, nobody was told of. Files of any other box stay."""
        runtime = self._runtime
        for name in os.listdir(runtime.paths.boxes):
            if name in self._dropped or (name not in known and not records.has_run(runtime.register.directory(name))):
                bases.release(runtime.register.directory(name))
                fs.discard_tree(runtime.register.directory(name), runtime.paths.trash)
        runtime.background.sweep(_empty, runtime.paths.trash)

    async def _sweep(self) -> None:
        alive = {box_id for box_id, box in self._runtime.boxes.items() if box.handle is not None}
        for engine in self._runtime.engines.values():
            self._runtime.repairs += await asyncio.to_thread(engine.sweep, alive)


def _has_commits(box: Box) -> bool:
    try:
        return homecoming.has_news(box)
    except (OSError, PaddockError) as error:
        log.warning("the commits of %s: %s", box.name, error)
        return False


async def _remove(runtime: Runtime, box: Box) -> None:
    """A box around one command that ended while no daemon ran."""
    try:
        info = await runtime.remove(box.row.id, force=True)
        departures.keep(runtime, box, info.left)
        runtime.repairs += [f"box {box.name}: lost {what}" for what in info.lost]
    finally:
        box.looked.set()  # its caller may have found us, and waits for it


async def _end_if_abandoned(runtime: Runtime, box: Box) -> None:
    """A box around one command whose daemon died before the command began waits for nobody; nor does one of a build,
    which goes on from its last step when somebody asks."""
    handle = box.handle
    if handle is None:
        return
    if box.row.spec.bare:
        runtime.repairs.append(f"box {box.name}: its build is over; ended")
        handle.kill()
        return
    try:
        with runtime.engine(box).connect(box.placement) as channel:
            pong = await commands.ask(channel, {"op": "ping"})
    except (OSError, PaddockError) as error:
        log.warning("asking %s what it does: %s", box.name, error)
        return
    if (pong.get("processes"), pong.get("connections")) == (0, 1) and box.handle is handle:
        runtime.repairs.append(f"box {box.name}: nobody waits for it; ended")
        handle.kill()


def _empty(trash: str) -> None:
    for name in os.listdir(trash):
        remove_tree(f"{trash}/{name}")
