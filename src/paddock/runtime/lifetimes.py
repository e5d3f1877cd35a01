"""The lives of boxes: how each starts, is held while it runs, and is put away when its first process is gone.

A box changes state only under its own lock; the truth about a running box is its pidfd, never our memory of it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from paddock import fs, limits
from paddock.errors import PaddockError, UserError
from paddock.model import BoxId, BoxState, WorkspaceMode
from paddock.readiness import within
from paddock.runtime import bases, boxparts, channels, commands
from paddock.runtime.box import Ending
from paddock.runtime.covers import Covers
from paddock.runtime.endings import KILLED, OVERSPENT, TIMED_OUT, Endings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from paddock.engines.base import Engine, Handle
    from paddock.runtime.background import Background
    from paddock.runtime.box import Box
    from paddock.runtime.network import Networks
    from paddock.runtime.register import Register
    from paddock.runtime.workspaces import Workspaces
    from paddock.watch import Watch

    MakeWatch = Callable[[Callable[[BoxId, str], None]], Watch]
    Visit = Callable[[Box], Coroutine[None, None, None]]

log = logging.getLogger(__name__)
_RETRY_S = 5.0
_LAST_WORDS_S = 1.0  # of a box that has spent its budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """Who is told that a box comes, or goes."""

    furnish: Visit  # before each start
    look: Visit  # of one command, before its run is cleared away
    last: Visit  # of one command, afterwards
    unasked: Visit  # of any other, that it ended and nobody wanted that


class Door(Protocol):
    """Sockets of ours that lead from boxes to something else of their user's."""

    def open(self, box: Box) -> None:
        """For a box that starts or runs; once is enough."""

    def close(self, box_id: str) -> None:
        """For one that has ended."""

    def let_go(self) -> None:
        """Of all: the boxes run on."""


class Lifetimes:
    def __init__(
        self,
        register: Register,
        background: Background,
        engine_of: Callable[[Box], Engine],
        workspaces: Workspaces,
        network: Networks | None,
        make_watch: MakeWatch,
        visits: Visits,
        doors: Iterable[Door],
    ) -> None:
        self.watch = make_watch(self.condemn)
        self.endings = Endings(register.boxes, engine_of)
        # Making a box works in the event loop for some milliseconds: a hundred at once would delay every answer.
        self.admission = asyncio.Semaphore(limits.STARTS_MAX)
        self.starting = 0  # boxes that are being started or wait for their turn
        self._register = register
        self._background = background
        self._engine_of = engine_of
        self._workspaces = workspaces
        self._network = network
        self._visits = visits
        self._doors = tuple(doors)
        self._covers = Covers(engine_of, self.condemn, background.later)

    def __repr__(self) -> str:
        return f"<Lifetimes {sum(box.handle is not None for box in self._register.boxes.values())} run>"

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self, box: Box) -> None:
        if self._network is not None:
            await self._network.taking.settled(box)
        async with box.lock:
            if box.handle is None or box.handle.ended():
                await box.ended.wait()  # its last run is still being put away
            if box not in self._register:
                raise UserError(f"the box {box.name!r} was removed", code="no-box")
            if box.handle is None:
                await self.begin(box)
            else:
                await self._covers.check(box)
                await self._look_again(box)

    async def _look_again(self, box: Box) -> None:
        """A review box sees its workspace as it is now; who asked is told when that is not as it was."""
        assert box.handle is not None
        if not await self._workspaces.staleness.look_again(box, box.handle):
            await self.end(box, grace_s=0.0)
            await self.begin(box)
            box.notes.append("the box was started anew, to see the workspace as it is now")

    async def begin(self, box: Box, listening: Callable[[], None] | None = None) -> None:
        """Start a box that does not run, whose lock the caller holds."""
        self.starting += 1
        try:
            async with self.admission:
                await self._begin(box, listening)
        finally:
            self.starting -= 1

    async def _begin(self, box: Box, listening: Callable[[], None] | None) -> None:
        try:
            handle = await self.make(box, listening)
        except PaddockError as error:
            self._shut_doors(box)
            await self._note_end(box, BoxState.FAILED, error.message)
            raise
        except OSError as error:
            self._shut_doors(box)
            await self._note_end(box, BoxState.FAILED, error.strerror or str(error))
            raise
        self.hold(box, handle)
        try:
            await self._register.note_start(box, handle.evidence)
        except BaseException as error:
            box.verdict = Ending(reason=f"its start could not be recorded: {error}", exit_code=KILLED)
            handle.kill()
            await box.ended.wait()
            raise
        if box.row.spec.mode is WorkspaceMode.REVIEW and not box.row.spec.ephemeral:
            attending = self._workspaces.staleness.attend(box)
            self._background.later(attending, f"attend to the workspace of {box.name}")

    async def make(self, box: Box, listening: Callable[[], None] | None = None) -> Handle:
        boxparts.require_settled(box)
        if not box.row.spec.bare:
            await self._workspaces.enter(box)
        await self._visits.furnish(box)
        self._open_doors(box)
        if self._network is None:
            return await self._engine_of(box).start(box.placement, listening=listening)
        spec = box.row.spec
        network = spec.network
        if not spec.bare:
            network = self._network.policies.take_project(network, spec.workspace)
        if network != spec.network:  # only between two runs: a running box never reads its project again
            await self._register.change(box, replace(spec, network=network))
        return await self._network.start(box, listening)

    def hold(self, box: Box, handle: Handle) -> None:
        """From here on the box's end is noticed."""
        box.handle = handle
        box.in_place, box.looked_last = True, False
        box.verdict, box.ending = None, None
        box.ended.clear()
        asyncio.get_running_loop().add_reader(handle.pidfd, self._on_exit, box)
        self.watch.add(self._engine_of(box).watched(box.placement, handle.evidence))
        self._covers.add(box)
        self._open_doors(box)  # of a box that an earlier daemon started
        if self._network is not None and not self._network.held(box):
            self._background.later(self._network.seal_again(box), f"seal {box.name} again")

    def _open_doors(self, box: Box) -> None:
        for door in self._doors:
            door.open(box)

    def _shut_doors(self, box: Box) -> None:
        for door in self._doors:
            door.close(box.row.id)

    def let_go(self) -> None:
        """The boxes run on, and nobody here notices their end."""
        for door in self._doors:
            door.let_go()
        self._covers.close()
        for box in self._register.boxes.values():
            if box.handle is not None:
                asyncio.get_running_loop().remove_reader(box.handle.pidfd)
                box.handle.close()

    # -- end -----------------------------------------------------------------------------------------------------------

    def _on_exit(self, box: Box) -> None:
        assert box.handle is not None
        asyncio.get_running_loop().remove_reader(box.handle.pidfd)
        self.watch.remove(box.row.id)
        self._covers.remove(box)
        self._shut_doors(box)
        self._background.later(self._settle(box), f"settle {box.name}")

    async def _settle(self, box: Box) -> None:
        """A box's first process is gone: say why, let go, and remove what was only for this run."""
        assert box.handle is not None
        try:
            if box.row.spec.ephemeral:
                await self._visits.look(box)
            reason = await self.clean(box)
            if self._network is not None:
                await self._network.left(box)
            ending = box.verdict or Ending(reason=reason or _unasked(box), exit_code=KILLED)
            box.handle.close()
            box.handle, box.ending = None, ending
            if box.row.spec.ephemeral:
                await self._visits.last(box)
            await _inherit(box)
            self.endings.keep(box, ending)
            if box in self._register:
                await self._put_away(box, ending)
        finally:
            box.looked.set()
            box.ended.set()

    async def clean(self, box: Box) -> str:
        """Each part does what it can, whatever became of the other; why the kernel ended the box, if it did."""
        try:
            await self._workspaces.left(box)
        except (OSError, RuntimeError, PaddockError) as error:  # RuntimeError: no thread is to be had
            log.warning("leaving the workspace of %s: %s", box.name, error)
        try:
            return await asyncio.to_thread(self._engine_of(box).clean, box.placement)
        except (OSError, RuntimeError) as error:
            log.warning("cleaning after %s: %s", box.name, error)
            return ""

    async def _put_away(self, box: Box, ending: Ending) -> None:
        if not box.row.spec.ephemeral:
            await self._note_end(box, BoxState.FAILED if ending.reason else BoxState.STOPPED, ending.reason)
            if ending.reason:
                self._background.later(self._visits.unasked(box), f"look at what {box.name} left")
            return
        box.row = replace(box.row, state=BoxState.STOPPED, evidence=None)
        try:
            await self.forget(box)
        except PaddockError as error:
            log.warning("removing %s: %s", box.name, error)
            self._background.later(self._forget_later(box), f"forget {box.name}")

    async def _note_end(self, box: Box, state: BoxState, reason: str) -> None:
        box.in_place = False
        await self._register.note_end(box, state, reason)

    async def end(self, box: Box, *, grace_s: float) -> None:
        """End a box, whose lock the caller holds; it has ended when this returns."""
        if box.handle is None:
            await box.ended.wait()
            return
        box.verdict = box.verdict or Ending(reason="", exit_code=KILLED)
        if grace_s > 0 and await self._asked_to_end(box, grace_s):
            return
        if box.handle is not None:
            box.handle.kill()
        await box.ended.wait()

    async def _asked_to_end(self, box: Box, grace_s: float) -> bool:
        try:
            with channels.connect(self._engine_of(box), box) as channel:
                await commands.send(channel, {"op": "shutdown", "grace_s": grace_s}, [])
            await within(box.ended.wait(), grace_s + 1.0)
        except (OSError, TimeoutError, PaddockError):
            return False
        return True

    def condemn(self, box_id: BoxId, reason: str) -> None:
        """A limit was crossed: end the box, and let everyone who asks know why."""
        box = self._register.boxes.get(box_id)
        if box and box.handle is not None:
            log.warning("ending %s: %s", box.name, reason)
            box.verdict = Ending(reason=reason, exit_code=TIMED_OUT if reason.startswith("wall") else KILLED)
            box.handle.kill()

    async def overspent(self, box: Box, reason: str) -> None:
        """Its requests are refused; what runs in it may read why, and then it ends."""
        handle, budget = box.handle, box.row.spec.budget
        await asyncio.sleep(_LAST_WORDS_S)
        is_same = box.handle is handle and box.row.spec.budget == budget  # somebody may have given it more
        if handle is not None and is_same and box.verdict is None:
            log.warning("ending %s: %s", box.name, reason)
            box.verdict = Ending(reason=reason, exit_code=OVERSPENT)
            handle.kill()

    async def end_homeless(self) -> None:
        """Our state was deleted: end the boxes whose files went with it, since nobody can find them again."""
        homeless = [box for box in self._register.boxes.values() if box.handle and fs.is_missing(box.directory)]
        for box in homeless:
            self.condemn(box.row.id, "its files are gone")
        await asyncio.gather(*(box.ended.wait() for box in homeless))

    # -- removal -------------------------------------------------------------------------------------------------------

    async def undo(self, box: Box) -> None:
        """Remove a box whose making failed, and in which nobody has worked."""
        async with box.lock:
            await self.end(box, grace_s=0.0)
            await self.forget(box)

    async def forget(self, box: Box) -> None:
        """Nothing is left of a box that has ended and whose lock the caller holds; removal.py says when it may go."""
        if box not in self._register:
            return
        await self._workspaces.released(box)
        await asyncio.to_thread(bases.release, box.directory)
        await self._register.forget(box)
        if self._network is not None:
            self._network.forget(box.row.id)

    async def _forget_later(self, box: Box) -> None:
        while box in self._register:
            await asyncio.sleep(_RETRY_S)
            try:
                await self.forget(box)
            except PaddockError as error:
                log.warning("the record of %s cannot be removed yet: %s", box.name, error)


async def _inherit(box: Box) -> None:
    if box.heir is None:
        return
    try:
        await box.heir(box)
    except (OSError, RuntimeError, PaddockError) as error:  # who waits for it finds nothing
        log.warning("what %s was to leave: %s", box.name, error)


def _unasked(box: Box) -> str:
    """A box around one command ends with it; any other ends when we say so."""
    return "" if box.row.spec.ephemeral else "its first process ended unexpectedly"
