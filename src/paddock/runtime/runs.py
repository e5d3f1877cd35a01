"""Runs of agents: each has a record from before its command starts until after it ended, whoever waits for it or not.

The daemon waits for the end itself, at init. A client that is killed leaves the run as its command leaves it; a box
that is killed ends it; and a daemon that is killed leaves a record that says `running`, which the next one waits for
again, or ends. A run's id is the id of its job, so that neither has to be written down before the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.errors import PaddockError
from paddock.model import BoxId
from paddock.reports import RunInfo
from paddock.runs.store import Began, Kept, Store
from paddock.runtime import channels, commands, execution, journals, runends, runwatch, tooling
from paddock.runtime.runwatch import Log
from paddock.store import now

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from paddock.agents import Agent, Turn
    from paddock.engines.base import Handle
    from paddock.model import ExecSpec
    from paddock.runs.reason import Cut
    from paddock.runtime.box import Box, Ending
    from paddock.runtime.core import Runtime
    from paddock.runtime.journals import JournalState

log = logging.getLogger(__name__)
_REALTIME_COARSE = 5  # of linux/time.h: the clock that stamps inodes, which lags behind the usual one
_PRUNE_EVERY = 16
_ASK_S, _ASKS = 0.05, 100  # a command whose start is under way is not known to init yet
_AGAIN_S = 1.0
_GONE = "its box is gone"


class Active:
    """A run that is on, as this daemon has it."""

    def __init__(self, kept: Kept, box: Box, agent: Agent | None) -> None:
        self.kept = kept
        self.box = box
        self.agent = agent
        self.handle: Handle | None = None  # of the box when the command was started in it
        self.log: Log | None = None
        self.cut: Cut | None = None
        self.noticed = False  # that its command ended
        self.over = asyncio.Event()  # its record is complete, and on disk

    def __repr__(self) -> str:
        return f"<Active {self.id} in {self.box.name}>"

    @property
    def id(self) -> str:
        return self.kept.info.id

    def box_end(self) -> Ending | None:
        """How its box ended or is being ended; None while it runs on."""
        return self.box.verdict if self.box.handle is self.handle else self.box.ending


class Runs:
    """Those that are on, and the records of all."""

    def __init__(self, directory: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = Store(directory)
        self.active: dict[str, Active] = {}
        self.clock = clock
        self.look_s = limits.RUN_LOOK_S
        self.recovered = asyncio.Event()  # what an earlier daemon left is known
        self.recovered.set()
        self._begun = 0

    def __repr__(self) -> str:
        return f"<Runs {len(self.active)} on>"

    def of(self, box: Box) -> list[Active]:
        return [active for active in self.active.values() if active.box is box]

    def fresh_id(self) -> str:
        while (run := commands.new_job_id()) in self.active or self.store.is_taken(run):
            continue
        return run

    def write(self, kept: Kept) -> None:
        """On disk when this returns; for the thread that writes."""
        self.store.write(kept)
        self._begun += 1
        if self._begun % _PRUNE_EVERY == 1:
            self.prune()

    def prune(self) -> None:
        self.store.prune(set(self.active), limits.RUNS_MAX)


# -- the beginning -----------------------------------------------------------------------------------------------------


async def begin(runtime: Runtime, box: Box, agent: Agent, turn: Turn, version: str = "") -> str:
    """The record of a run that is about to start; its id."""
    since_ns, lines = time.clock_gettime_ns(_REALTIME_COARSE), runtime.usages.of(box).lines
    prompt = turn.prompt.encode("utf-8", "surrogateescape")
    info = RunInfo(
        id=runtime.runs.fresh_id(),
        box=box.name,
        box_id=box.row.id,
        agent=agent.name,
        version=text.neutralise(version, 64),
        mode="headless" if turn.headless else "interactive",
        prompt_sha256=hashlib.sha256(prompt).hexdigest() if prompt else "",
        started=now(),
    )
    after_s = agent.stuck_after_s if turn.stuck_after_s is None else turn.stuck_after_s
    kept = Kept(info=info, began=Began(since_ns=since_ns, lines=lines, stuck_after_s=after_s))
    active = runtime.runs.active[info.id] = Active(kept, box, agent)
    try:
        active.log = Log(runtime, active, fresh=True)
        await runtime.background.write(runtime.runs.write, kept)
    except BaseException:
        del runtime.runs.active[info.id]
        raise
    return info.id


async def launch(runtime: Runtime, box: Box, spec: ExecSpec, turn: Turn) -> tuple[str, socket.socket]:
    """Start an agent's command with a record of its run; nothing of it stays if the command cannot be sent."""
    commands.check_user(spec.user, box.row.spec.engine)
    await asyncio.to_thread(tooling.refuse_planted, box, box.agent, runtime.paths, tuple(runtime.boxes.values()))
    await runtime.lifetimes.start(box)  # what that writes, as the files of a clone, is none of the agent's doing
    agent = box.agent
    run = await begin(runtime, box, agent, turn, await asyncio.to_thread(_version, runtime, box, agent))
    active = runtime.runs.active[run]
    shown = tuple(word.replace(turn.prompt, "PROMPT") if turn.prompt else word for word in spec.argv)
    try:
        job, channel = await execution.start(runtime, box, replace(spec, journal=True), run, shown)
    except BaseException:
        del runtime.runs.active[run]
        await runtime.background.write(runtime.runs.store.remove, run)
        raise
    attend(runtime, active)
    return job, channel


def _version(runtime: Runtime, box: Box, agent: Agent) -> str:
    try:
        return tooling.version_of(box, agent, runtime.paths)
    except (OSError, PaddockError) as error:  # no reason not to run what is there
        log.info("the version of %s: %s", agent.name, error)
        return ""


def attend(runtime: Runtime, active: Active) -> None:
    """From here on its end is noticed."""
    active.handle = active.box.handle
    runtime.background.later(_attend(runtime, active), f"run {active.id} in {active.box.name}")


# -- the end -----------------------------------------------------------------------------------------------------------


async def _attend(runtime: Runtime, active: Active) -> None:
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(runwatch.look_on(runtime, active), name=f"look at {active.id}")
        end, box_end = await _end(runtime, active)
        active.noticed = True  # a wait that fails in the moment it is cancelled forgets that it was
        looking.cancel()
    await _settle(runtime, active, end, box_end)


async def _settle(runtime: Runtime, active: Active, end: JournalState | None, box_end: Ending | None) -> None:
    """Its record is made whole and written; without room for it until there is."""
    try:
        info = await runends.info(runtime, active, end, box_end)
    except Exception:  # whatever it was, a run that is over does not stay `running`
        log.exception("the end of run %s", active.id)
        info = runends.unknown(active, end)
    active.kept = replace(active.kept, info=info)
    while True:
        try:
            await runtime.background.write(runtime.runs.write, active.kept)
            break
        except PaddockError as error:
            log.warning("the record of run %s is not written yet: %s", active.id, error)
            await asyncio.sleep(_AGAIN_S)
    del runtime.runs.active[active.id]
    active.over.set()


async def _end(runtime: Runtime, active: Active) -> tuple[JournalState | None, Ending | None]:
    """How its command ended, None if nobody can know, and how its box did if it ended with it."""
    unknown = 0
    while active.box.handle is active.handle and active.handle is not None and unknown < _ASKS:
        answer = await _asked(runtime, active)
        if answer is not None and answer.exit_code is not None:
            return answer, active.box_end()
        unknown += answer is not None
        await asyncio.sleep(_AGAIN_S if answer is None else _ASK_S)
        state = await asyncio.to_thread(journals.state, active.box.directory, active.id)
        if not state.running:
            return state, active.box_end()
    if active.box.handle is None or active.box.handle is active.handle:
        await active.box.ended.wait()
    state = await asyncio.to_thread(journals.state, active.box.directory, active.id)
    return (None if state.running else state), active.box_end()


async def _asked(runtime: Runtime, active: Active) -> JournalState | None:
    """init's word for its end; one without an exit code if it does not know it, None if it does not answer."""
    assert active.handle is not None
    try:
        with runtime.engine(active.box).connect(active.box.placement) as channel:
            await commands.send(channel, {"op": "wait", "id": active.id}, [])
            message = await commands.await_message(channel)
    except (OSError, PaddockError) as error:
        log.info("waiting for run %s in %s: %s", active.id, active.box.name, error)
        if active.handle.ended():
            await active.box.ended.wait()
        return None
    if message.get("event") == "exit" and (end := journals.ended(message)):
        return end
    return journals.JournalState(running=True, exit_code=None)


# -- an earlier daemon's -----------------------------------------------------------------------------------------------


async def recover(runtime: Runtime) -> None:
    """Go on with the runs that an earlier daemon left, or end their records."""
    try:
        found = await asyncio.to_thread(runtime.runs.store.all)
        for kept in found.kept:
            if kept.info.reason == "running" and kept.info.id not in runtime.runs.active:
                await _recover(runtime, kept)
        await runtime.background.write(runtime.runs.prune)
    finally:
        runtime.runs.recovered.set()


async def _recover(runtime: Runtime, kept: Kept) -> None:
    info = kept.info
    box = runtime.boxes.get(BoxId(info.box_id))
    if box is None:
        lost = replace(info, reason="killed", why=_GONE, ended=now())
        await runtime.background.write(runtime.runs.write, replace(kept, info=lost))
        return
    active = runtime.runs.active[info.id] = Active(kept, box, _agent(box))
    if box.handle is not None and info.id in await channels.running_ids(runtime.engine(box), box):
        attend(runtime, active)
        return
    state = await asyncio.to_thread(journals.state, box.directory, info.id)
    runtime.background.later(
        _settle(runtime, active, None if state.running else state, None), f"end of run {info.id} in {box.name}"
    )


def _agent(box: Box) -> Agent | None:
    try:
        return box.agent
    except PaddockError:
        return None  # this version has it no more
