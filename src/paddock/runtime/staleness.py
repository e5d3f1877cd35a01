"""Whether a review box still sees its workspace as it is, and letting it look again before its next command.

Theory. The kernel lets a box look again in a moment, so that is always done. What costs is to know whether anything
changed, which has to be told (who works on what another has just replaced wants to know) and which decides what is a
conflict: a file that the box changes after it was told started from what the host had then. Applies of ours come with
their paths. For everything else the directories of the workspace are watched, once for all boxes in it, from a moment
after the start of the first; what changed before is found by its change time. A box in which nothing runs begins a new
epoch (workspace/state.py) with what it was told. If something runs, which may have read what was there before, the
epoch waits until nothing does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from paddock.fs.tree import Altered, Tree, watches_max
from paddock.limits import REVIEW_WATCHES_MAX
from paddock.model import WorkspaceMode
from paddock.readiness import within
from paddock.runtime.sight import Sight
from paddock.workspace import foreign, review, state

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from paddock.engines.base import Handle
    from paddock.fs.tree import Look
    from paddock.model import BoxId, BoxSpec
    from paddock.runtime.box import Box
    from paddock.workspace.state import Epoch

log = logging.getLogger(__name__)
_SETTLED_S = 0.3  # a box that has just started has better things to do than to wait for our walk
_PATIENCE_S = 0.5  # for which a command waits for that walk: some 100,000 files
_NOT_ENTERED = frozenset({".git"})  # the box has its own


class Staleness:
    def __init__(self, boxes: Mapping[BoxId, Box]) -> None:
        self._boxes = boxes
        self._trees: dict[str, Tree] = {}

    def __repr__(self) -> str:
        return f"<Staleness {len(self._trees)} workspaces watched>"

    async def entered(self, box: Box) -> None:
        """A box is about to see its workspace for the first time."""
        _forget(box)
        if _is_review(box):
            await self._ask(box.row.spec.workspace)
            _forget(box)  # what there was until now is what it starts from
            box.sight.is_watched = self._is_whole(box.row.spec.workspace)
            box.sight.stamp = await asyncio.to_thread(_stamp, box.row.spec)

    async def attend(self, box: Box) -> None:
        """Some time after its start: begin to notice what the host does."""
        await asyncio.sleep(_SETTLED_S)
        if box.handle is not None:
            await self._look(box)

    async def left(self, box: Box) -> None:
        """A box has ended; the last one takes the watch with it."""
        _forget(box)
        workspace = box.row.spec.workspace
        if workspace in self._trees and not self._others(box):
            await asyncio.to_thread(self._trees.pop(workspace).close)

    def close(self) -> None:
        for box in self._boxes.values():
            _forget(box)
        while self._trees:
            self._trees.popitem()[1].close()

    def touched(self, box: Box, why: str, places: Collection[str], *, more: bool) -> None:
        """An apply of ours changed these places of a box's workspace, and `more`; without any, its own layer alone."""
        for other in self._boxes.values():
            if other is not box and other.handle is not None and _is_review(other):
                theirs = _theirs(box.row.spec.workspace, other.row.spec.workspace, places)
                if theirs or (more and _overlap(box.row.spec.workspace, other.row.spec.workspace)):
                    other.sight.touched(why, theirs, more=more)
        if box.handle is not None:
            box.handle.refresh()  # at once: what a command that runs now writes must not go where it was
            if why:
                box.sight.touched(why, places, more=more)

    async def look_again(self, box: Box, handle: Handle) -> bool:
        """Before a command of a box that runs; who asked is told what changed. False if it must be started anew."""
        if not _is_review(box):
            return True
        await self._notice(box)
        why = box.sight.take()
        box.sight.is_due = box.sight.is_due or bool(why)
        moment = await asyncio.to_thread(_moment, box) if box.sight.is_due else None
        if not handle.refresh() or (why and handle.keeps_names):
            if await asyncio.to_thread(handle.is_idle):
                return False
            box.notes.append(f"commands run in the box, which sees its workspace as it was: `paddock stop {box.name}`")
            return True
        if moment is not None and await asyncio.to_thread(handle.is_idle):
            await asyncio.to_thread(_begin, box, moment)
            box.sight.is_due = False
        if why:
            box.notes.append(f"{why}: the box sees the workspace as it is now")
        return True

    # -- noticing ------------------------------------------------------------------------------------------------------

    async def _notice(self, box: Box) -> None:
        if box.sight.is_watched and self._is_whole(box.row.spec.workspace):
            await self._ask(box.row.spec.workspace)
            return
        if box.sight.looking is None or not box.sight.looking.done():
            with contextlib.suppress(TimeoutError):
                await within(self._look(box), _PATIENCE_S)
        elif box.row.spec.workspace in self._trees:
            await self._ask(box.row.spec.workspace)  # not all of it is watched, but some
        if not box.sight.is_watched:
            stamp = await asyncio.to_thread(_stamp, box.row.spec)
            if box.sight.stamp and stamp != box.sight.stamp:
                box.sight.notice(Altered(more=True))
            box.sight.stamp = stamp

    async def _ask(self, workspace: str) -> None:
        """What is new goes to all boxes in the workspace, whoever asks."""
        if workspace in self._trees:
            found = await asyncio.to_thread(self._trees[workspace].changed)
            for other in self._boxes.values():
                if found and other.row.spec.workspace == workspace and _is_review(other):
                    other.sight.notice(found)

    async def _look(self, box: Box) -> None:
        """One walk for each box; whoever comes while it lasts waits for the same."""
        if box.sight.looking is None:
            box.sight.looking = asyncio.get_running_loop().create_task(self._walk(box), name=f"look at {box.name}")
        await asyncio.shield(box.sight.looking)

    async def _walk(self, box: Box) -> None:
        workspace, sight = box.row.spec.workspace, box.sight
        if workspace not in self._trees:
            left = watches_max(REVIEW_WATCHES_MAX) // (len(self._trees) + 1)
            try:
                self._trees[workspace] = Tree(workspace, watches_max=left, skipped=_NOT_ENTERED)
            except OSError as error:
                log.warning("watching %s: %s", workspace, error)
                return
        found = await asyncio.to_thread(_looked, self._trees[workspace], box)
        sight.notice(found.altered)
        sight.is_watched = self._is_whole(workspace)
        if found.foreign and not sight.has_told_foreign:
            box.notes.append(foreign.words(found.foreign))
            sight.has_told_foreign = True

    def _is_whole(self, workspace: str) -> bool:
        return workspace in self._trees and self._trees[workspace].is_whole

    def _others(self, box: Box) -> list[Box]:
        workspace = box.row.spec.workspace
        return [
            other
            for other in self._boxes.values()
            if other is not box and other.in_place and other.row.spec.workspace == workspace and _is_review(other)
        ]


def _looked(tree: Tree, box: Box) -> Look:
    history = state.load(f"{box.directory}/review/state")
    since_ns = history.epochs[-1].wall_ns if history.epochs else 0
    return tree.look(since_ns, foreign.ids(box.row.spec.workspace))


def _forget(box: Box) -> None:
    if box.sight.looking is not None:
        box.sight.looking.cancel()
    box.sight = Sight()


def _is_review(box: Box) -> bool:
    return box.row.spec.mode is WorkspaceMode.REVIEW


def _moment(box: Box) -> Epoch:
    with review.at(box.row.spec.workspace, box.directory) as layers:
        return layers.moment()


def _begin(box: Box, moment: Epoch) -> None:
    with review.at(box.row.spec.workspace, box.directory) as layers:
        layers.seen_again(moment)


def _stamp(spec: BoxSpec) -> tuple[int, ...]:
    """When something at the top of a workspace last changed, or a commit or checkout was made."""
    found = []
    for place in ("", "/.git/HEAD", "/.git/index"):
        try:
            found.append(os.lstat(spec.workspace + place).st_ctime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


def _theirs(workspace: str, other: str, places: Collection[str]) -> list[str]:
    """Places of one workspace as another has them that lies in it or around it."""
    if workspace == other:
        return list(places)
    top = f"{other.rstrip('/')}/"
    full = (f"{workspace.rstrip('/')}/{place}" for place in places)
    return [path[len(top) :] for path in full if path.startswith(top)]


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other.rstrip('/')}/") or other.startswith(f"{one.rstrip('/')}/")
