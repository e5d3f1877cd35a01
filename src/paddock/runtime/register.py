"""Every box there is, in memory, in the store and on disk: nobody else writes what is known of a box.

A row is written before its effect is acknowledged, and by one thread, in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.container.removal import remove_tree
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import BoxId, BoxState, WorkspaceMode
from paddock.runtime import records
from paddock.runtime.box import Box
from paddock.store import new_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model import BoxRequest, BoxSpec, Evidence
    from paddock.paths import Paths
    from paddock.runtime.background import Background
    from paddock.store import CheckpointRow, JobRow, Store

log = logging.getLogger(__name__)


class Register:
    def __init__(self, paths: Paths, store: Store, background: Background) -> None:
        self.boxes: dict[BoxId, Box] = {}
        self.reserved_names: set[str] = set()  # those of boxes whose rows are damaged
        self.reserved_positions: set[int] = set()
        self.reserved_layers: set[str] = set()  # of checkpoints that could not be entered in the store again
        self._paths = paths
        self._store = store
        self._background = background

    def __repr__(self) -> str:
        return f"<Register {len(self.boxes)} boxes>"

    def __contains__(self, box: Box) -> bool:
        return self.boxes.get(box.row.id) is box

    def directory(self, box_id: str) -> str:
        return f"{self._paths.boxes}/{box_id}"

    # -- finding -------------------------------------------------------------------------------------------------------

    def listed(self) -> list[Box]:
        """Those that somebody can still do something with."""
        return [box for box in self.boxes.values() if not box.is_over]

    def find(self, name: str) -> Box:
        """By name, or by an unambiguous beginning of the id."""
        for box in self.listed():
            if name in (box.row.spec.name, box.row.id):
                return box
        near = [box for box in self.listed() if len(name) >= 4 and box.row.id.startswith(name)]
        if len(near) == 1:
            return near[0]
        raise UserError(f"no box named {name[:80]!r}", hint="`paddock ls` lists them", code="no-box")

    def same(self, request: BoxRequest) -> Box | None:
        """Identity is (agent, real path of the workspace), and where they were asked for, name, mode and branch."""
        real = os.path.realpath(request.workspace)
        return next((box for box in self.boxes.values() if _is_same(box.row.spec, request, real)), None)

    def taken(self) -> set[str]:
        """The names that no new box may have."""
        return {box.name for box in self.boxes.values()} | self.reserved_names

    async def freed(self, name: str) -> None:
        """Until a box that is over has let go of its name; any other keeps it."""
        for box in [box for box in self.boxes.values() if box.is_over and box.name == name]:
            await box.ended.wait()

    # -- a box comes and goes ------------------------------------------------------------------------------------------

    async def add(self, spec: BoxSpec, fill: Callable[[str], None] | None = None) -> Box:
        """`fill` puts files into its directory that the box has from the start, its home last (records.has_run)."""
        box_id = BoxId(secrets.token_hex(6))
        directory = self.directory(box_id)
        try:
            os.mkdir(directory, 0o700)
        except OSError as error:
            raise Unavailable(
                f"cannot make {directory}: {error.strerror}", hint="free some disk space", code="disk"
            ) from error
        row = new_row(box_id, spec, {box.row.position for box in self.boxes.values()} | self.reserved_positions)
        try:
            if fill is not None:
                records.write(directory, row)
                await asyncio.to_thread(fill, directory)
            if spec.ephemeral:  # nobody is told that it exists, so nobody waits for the database
                records.write(directory, row)
                self._background.queue(self._store.insert, row)
            else:
                await self._background.write(records.add, self._store, directory, row)
        except BaseException:
            self._background.sweep(remove_tree, fs.discard_tree(directory, self._paths.trash))
            raise
        box = self.boxes[box_id] = Box(row, directory)
        return box

    async def forget(self, box: Box) -> None:
        """Its files leave first, in one step: a row without files is finished off by recovery, and may go when the
        disk is full, because they may be what fills it."""
        moved = fs.discard_tree(box.directory, self._paths.trash)
        try:
            await self._background.write(self._store.remove, box.row.id)
        except Unavailable as error:
            if error.code != "disk":
                raise
            await asyncio.to_thread(remove_tree, moved)
            await self._background.write(self._store.remove, box.row.id)
        del self.boxes[box.row.id]
        self._background.sweep(remove_tree, moved)

    # -- what becomes of it --------------------------------------------------------------------------------------------

    async def change(self, box: Box, spec: BoxSpec) -> None:
        box.row = await self._background.write(records.change, self._store, box.directory, box.row, spec)

    async def note_start(self, box: Box, evidence: Evidence) -> None:
        if box.row.spec.ephemeral:  # nobody is told that it runs, and recovery finds it by its socket
            box.row = replace(box.row, state=BoxState.RUNNING, evidence=evidence)
            self._background.queue(self._store.set_state, box.row, BoxState.RUNNING, "", evidence)
            return
        box.row = await self._background.write(self._store.set_state, box.row, BoxState.RUNNING, "", evidence)

    async def note_end(self, box: Box, state: BoxState, reason: str) -> None:
        """Record how a box ended; without room for it, recovery will find out again."""
        box.row = replace(box.row, state=state, reason=reason, evidence=None)
        try:
            await self._background.write(self._store.set_state, box.row, state, reason)
        except PaddockError as error:
            log.warning("recording that %s is %s: %s", box.name, state.value, error)

    # -- its journalled commands ---------------------------------------------------------------------------------------

    async def jobs(self, box: Box) -> list[JobRow]:
        return await self._background.write(self._store.jobs, box.row.id)

    async def add_job(self, box: Box, job: JobRow) -> None:
        await self._background.write(self._store.add_job, box.row.id, job)

    async def remove_job(self, box: Box, job: str) -> None:
        await self._background.write(self._store.remove_job, box.row.id, job)

    # -- its checkpoints -----------------------------------------------------------------------------------------------

    async def checkpoints(self, box: Box | None = None) -> list[CheckpointRow]:
        """Those that are whole, oldest first; of all boxes, if none is named."""
        found = await self._background.write(self._store.checkpoints)
        return [row for row in found if row.is_whole and (box is None or row.box == box.row.id)]

    def layers(self) -> set[str]:
        """Of all boxes and checkpoints; waits for what is being written, so not in the event loop.

        A box may have no row: that of a run is not waited for, and on a full disk neither it nor what recovery found
        can be written.
        """
        own = {layer for box in [*self.boxes.values()] for layer in (*box.row.spec.layers, *box.row.spec.home_layers)}
        return self._background.ask(self._store.layers) | own | self.reserved_layers

    async def begin_checkpoint(self, row: CheckpointRow) -> None:
        await self._background.write(self._store.add_checkpoint, row)

    async def finish_checkpoint(self, box: Box, row: CheckpointRow) -> None:
        args = self._store, box.directory, box.row, _standing_on(box.row.spec, row), row.id
        box.row = await self._background.write(records.finish_checkpoint, *args)
        await self._note_checkpoints(box)

    async def drop_checkpoint(self, box: Box, checkpoint: str) -> None:
        await self._background.write(self._store.remove_checkpoint, checkpoint)
        await self._note_checkpoints(box)

    async def set_chain(
        self, box: Box, checkpoint: str, part: str, was: tuple[str, ...], chain: tuple[str, ...]
    ) -> None:
        await self._background.write(self._store.set_chain, checkpoint, part, was, chain)
        await self._note_checkpoints(box)

    async def _note_checkpoints(self, box: Box) -> None:
        await self._background.write(records.note_checkpoints, box.directory, await self.checkpoints(box))

    async def begin_restore(self, box: Box, row: CheckpointRow) -> None:
        args = self._store, box.directory, box.row, _standing_on(box.row.spec, row), row.id
        box.row = await self._background.write(records.begin_restore, *args)

    async def restoring(self, box: Box) -> str:
        """The checkpoint that a box is to be as, and is not yet; empty if there is none."""
        return (await self._background.write(self._store.restores)).get(box.row.id, "")

    async def end_restore(self, box: Box) -> None:
        await self._background.write(self._store.end_restore, box.row.id)


def _standing_on(spec: BoxSpec, row: CheckpointRow) -> BoxSpec:
    return replace(spec, layers=row.root or spec.layers, home_layers=row.home)


def _is_same(spec: BoxSpec, request: BoxRequest, workspace: str) -> bool:
    if spec.ephemeral or (spec.agent, spec.workspace) != (request.agent, workspace):
        return False
    if request.name:
        return spec.name == request.name
    return request.mode in {WorkspaceMode.LIVE, spec.mode} and request.branch in {"", spec.branch}
