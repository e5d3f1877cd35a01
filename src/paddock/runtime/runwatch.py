"""A look at each run every few seconds: what its network did, and of a headless one whether it still gets anywhere.

Nobody sits before a headless run: one that is silent for too long, or whose key every answer refuses, is ended, and its
record says why. A look costs two stats; the log is read when it has grown, /proc now and then.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from paddock import text
from paddock.errors import PaddockError
from paddock.gateway.records import Reader
from paddock.runs.reason import STUCK, Cut
from paddock.runs.silence import Silence
from paddock.runs.traffic import Traffic
from paddock.runtime import channels, commands

if TYPE_CHECKING:
    from paddock.runtime.core import Runtime
    from paddock.runtime.runs import Active

log = logging.getLogger(__name__)
_FAILED = 1  # as the agent itself would have ended


class Log:
    """What the gateway's log says of one run; of a fresh one that is what is written from now on."""

    def __init__(self, runtime: Runtime, active: Active, *, fresh: bool = False) -> None:
        self._started = active.kept.info.started
        self._paths: tuple[str, ...] = runtime.network.logs.paths(active.box.row.id) if runtime.network else ()
        self._reader = Reader(self._paths)
        self._mark: object = None
        self.traffic = Traffic(active.agent, _key_hosts(runtime, active))
        if fresh:
            self._reader.skip()

    def __repr__(self) -> str:
        return f"<Log {self.traffic!r}>"

    def mark(self) -> object:
        return marks(self._paths)

    def read(self, now_s: float) -> None:
        """What is new since the last time. Waits for the disk."""
        mark = self.mark()
        if mark == self._mark:
            return
        self._mark = mark
        before = self._reader.segment
        records = self._reader.poll()
        if before >= 0 and self._reader.segment > before + 1:
            self.traffic.missed()
        self.traffic.add((record for record in records if record.time >= self._started), now_s)


def _key_hosts(runtime: Runtime, active: Active) -> tuple[str, ...]:
    """Where the agent's own keys go, of those that its box has."""
    if active.agent is None or active.box not in runtime.register:
        return ()
    held = [one for one in runtime.credentials.held(active.box) if one.name in active.agent.keys.any]
    return tuple(host for one in held for host in one.binding.hosts)


def marks(paths: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """What is not the same after something was written to one of the files."""
    found = []
    for path in paths:
        try:
            status = os.stat(path, follow_symlinks=False)
        except OSError:
            continue
        found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


async def look_on(runtime: Runtime, active: Active) -> None:
    """Until the run's end was noticed, or it has ended it."""
    runs = runtime.runs
    watch = _Watch(runtime, active)
    while active.cut is None and not active.noticed:
        await asyncio.sleep(runs.look_s)
        try:
            await watch.look(runs.clock())
        except (OSError, PaddockError) as error:
            log.warning("looking at run %s: %s", active.id, error)
        except Exception:  # a fault of ours here must not keep the run's end from being noticed
            log.exception("looking at run %s", active.id)


class _Watch:
    def __init__(self, runtime: Runtime, active: Active) -> None:
        self._runtime = runtime
        self._active = active
        self._log = active.log = active.log or Log(runtime, active)
        self._journal = commands.journal_paths(active.box.directory, active.id)
        self._after_s = active.kept.began.stuck_after_s
        self._silence = Silence(self._after_s, runtime.runs.clock())

    def __repr__(self) -> str:
        return f"<Watch of {self._active.id}>"

    async def look(self, now_s: float) -> None:
        await asyncio.to_thread(self._log.read, now_s)
        if self._active.kept.info.mode != "headless":
            return
        await self._listen(now_s)
        if self._log.traffic.is_shut_out(now_s):
            await self._cut(_shut_out(self._log.traffic), _FAILED)
        elif self._silence.is_too_long(now_s):
            why = f"no output, no request and no work for {text.duration(self._after_s)}"
            await self._cut(Cut(reason="stuck", why=why), STUCK)

    async def _listen(self, now_s: float) -> None:
        self._silence.marks(now_s, (marks(self._journal), self._log.mark()))
        handle = self._active.handle
        if handle is not None and self._silence.wants_processor(now_s):
            engine = self._runtime.engine(self._active.box)
            self._silence.processor(now_s, await asyncio.to_thread(engine.processor_s, handle.evidence))

    async def _cut(self, cut: Cut, code: int) -> None:
        """End it. Known before it is done: the end may be noticed at once."""
        active = self._active
        log.info("ending run %s in %s: %s", active.id, active.box.name, cut.why)
        active.cut = cut
        try:
            with channels.connect(self._runtime.engine(active.box), active.box) as channel:
                request = {"op": "end", "id": active.id, "code": code}
                commands.expect(await commands.ask(channel, request), "done")
        except (OSError, PaddockError):
            active.cut = None
            raise


def _shut_out(traffic: Traffic) -> Cut:
    why = f"{traffic.key_refused} refused its key: {traffic.answers} times, and no other answer came"
    return Cut(reason="auth", why=why)
