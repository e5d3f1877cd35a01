"""Watches the host's names that are covered in running boxes, and has them covered again when one is replaced.

An event only makes us look, and so does every command before it starts: what the names mean now is compared with what
they meant when the box was last known to be covered. A box in which a name cannot be covered is ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from paddock import limits
from paddock.engines.base import LINK
from paddock.errors import PaddockError, Unavailable
from paddock.fs.arrivals import Arrivals
from paddock.fs.births import born
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from paddock.engines.base import Engine
    from paddock.model import BoxId
    from paddock.runtime.box import Box

    Born = tuple[int, ...]
    Condemn = Callable[[BoxId, str], None]
    Later = Callable[[Coroutine[None, None, None], str], None]

log = logging.getLogger(__name__)
_ATTEMPTS = 4
_RETRY_S = 0.05


class _Watched:
    """A running box with covered names, and which file each name meant when all were last covered."""

    def __init__(self, box: Box, seen: dict[str, Born]) -> None:
        self.box = box
        self.seen = seen
        self.is_due = False  # something happened since we last looked
        self.is_heard = True  # all its directories are watched
        self.is_tended = False
        self.settled = asyncio.Event()
        self.settled.set()
        self.last_s = -limits.COVER_SPACING_S
        self.problem = ""

    def now(self) -> dict[str, Born]:
        return {path: born(path) for path in self.seen}

    def changed(self) -> bool:
        return self.now() != self.seen


class Covers:
    def __init__(self, engine: Callable[[Box], Engine], condemn: Condemn, later: Later) -> None:
        self._engine = engine
        self._condemn = condemn
        self._later = later
        self._watched: dict[BoxId, _Watched] = {}
        self._names: dict[str, dict[str, set[BoxId]]] = {}  # by directory
        self._arrivals: Arrivals | None = None
        self._slots = asyncio.Semaphore(limits.COVERS_AT_ONCE_MAX)
        self._polls = False

    def __repr__(self) -> str:
        return f"<Covers in {len(self._watched)} boxes>"

    def add(self, box: Box) -> None:
        """A box runs, since now or since before us."""
        seen = self._engine(box).covered(box.placement)
        if not seen:
            return
        watched = self._watched[box.row.id] = _Watched(box, seen)
        for path in seen:
            directory, _, name = path.rpartition("/")
            self._names.setdefault(directory, {}).setdefault(name, set()).add(box.row.id)
        self._attend(watched)
        if watched.changed():
            self._look(watched)

    def remove(self, box: Box) -> None:
        watched = self._watched.pop(box.row.id, None)
        for path in watched.seen if watched else ():
            directory, _, name = path.rpartition("/")
            names = self._names[directory]
            names[name].discard(box.row.id)
            if not names[name]:
                del names[name]
            if not names:
                del self._names[directory]
                self._listener().forget(directory)
        if not self._names:
            self.close()  # a user has 128 such listeners, and their editors want some

    async def check(self, box: Box) -> None:
        """Before a command starts: return when every name is covered; Unavailable if one cannot be."""
        watched = self._watched.get(box.row.id)
        if watched is None:
            return
        self._hear()  # what the kernel has told already counts, though nobody has read it yet
        if not watched.is_due and await asyncio.to_thread(watched.changed):
            self._look(watched)
        await watched.settled.wait()
        if watched.problem:
            raise Unavailable(watched.problem, hint="start the box again", code="cover")

    def close(self) -> None:
        if self._arrivals is not None:
            asyncio.get_running_loop().remove_reader(self._arrivals.fileno())
            self._arrivals.close()
            self._arrivals = None

    # -- hearing -------------------------------------------------------------------------------------------------------

    def _listener(self) -> Arrivals:
        if self._arrivals is None:
            self._arrivals = Arrivals(limits.COVERED_DIRECTORIES_MAX)
            if self._arrivals.fileno() >= 0:
                asyncio.get_running_loop().add_reader(self._arrivals.fileno(), self._hear)
        return self._arrivals

    def _attend(self, watched: _Watched) -> None:
        """Directories may have been replaced too. Before we look: what happens afterwards is heard."""
        directories = {path.rpartition("/")[0] for path in watched.seen}
        heard = [self._listener().attend(place, set(self._names[place])) for place in directories]
        watched.is_heard = all(heard)
        if not watched.is_heard and not self._polls:
            self._polls = True
            self._later(self._poll(), "look at covered names")

    def _hear(self) -> None:
        paths = self._listener().read()
        if paths is None:
            log.info("events were lost: looking at all covered names")
            due: Iterable[BoxId] = list(self._watched)
        else:
            due = {box_id for path in paths for box_id in self._boxes(path)}
        for box_id in due:
            self._look(self._watched[box_id])

    def _boxes(self, path: str) -> set[BoxId]:
        directory, _, name = path.rpartition("/")
        return self._names.get(directory, {}).get(name, set())

    async def _poll(self) -> None:
        """Where not everything can be watched, or a directory is missing."""
        while deaf := [watched for watched in self._watched.values() if not watched.is_heard]:
            for watched in deaf:
                if await asyncio.to_thread(watched.changed):
                    self._look(watched)
            await asyncio.sleep(limits.COVER_POLL_S)
        self._polls = False

    # -- covering ------------------------------------------------------------------------------------------------------

    def _look(self, watched: _Watched) -> None:
        watched.is_due = True
        watched.settled.clear()
        if not watched.is_tended:
            watched.is_tended = True
            self._later(self._tend(watched), f"cover names in {watched.box.name}")

    async def _tend(self, watched: _Watched) -> None:
        try:
            while watched.is_due and self._runs(watched):
                wait_s = watched.last_s + limits.COVER_SPACING_S - asyncio.get_running_loop().time()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                watched.is_due = False
                await self._cover(watched)
                watched.last_s = asyncio.get_running_loop().time()
        finally:
            watched.is_tended = False
            watched.settled.set()

    async def _cover(self, watched: _Watched) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            handle = watched.box.handle
            if handle is None or not self._runs(watched):
                return
            self._attend(watched)
            now = watched.now()
            try:
                async with self._slots:
                    again = await self._engine(watched.box).cover(watched.box.placement, handle)
            except (PaddockError, OSError) as error:
                log.warning("covering names in %s: %s", watched.box.name, error)
                if (attempt == _ATTEMPTS or _is_final(error)) and self._runs(watched):
                    watched.problem = str(error)
                    self._condemn(watched.box.row.id, watched.problem)
                await asyncio.sleep(_RETRY_S)
                continue
            watched.seen = now
            self._tell(watched.box, again)
            return

    def _runs(self, watched: _Watched) -> bool:
        return self._watched.get(watched.box.row.id) is watched and not watched.problem

    def _tell(self, box: Box, again: tuple[str, ...]) -> None:
        if again:
            log.debug("covered again in %s: %s", box.name, ", ".join(map(ascii, again)))
        for target in again:
            note = f"{neutralise(target)} was replaced while the box ran: look at it before you use git there"
            if os.path.basename(target) == ".git" and note not in box.notes:
                box.notes.append(note)


def _is_final(error: Exception) -> bool:
    """A link where host git looks for a repository: nothing can be mounted there, now or later."""
    return isinstance(error, PaddockError) and error.code == LINK
