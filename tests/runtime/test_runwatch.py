"""Looks at runs that are on, with a clock that the test winds."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from paddock.agents import Turn, parse
from paddock.gateway.records import Decision, Event, Record, write_header
from paddock.model import ExecSpec
from paddock.reports import HostCount
from paddock.runtime import commands, runlist, runs, runwatch, sessions
from paddock.runtime.netlogs import NetLogs
from paddock.runtime.runwatch import Log
from tests.support import scripted
from tests.support.serving import request, within

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paddock.reports import RunInfo
    from paddock.runtime import Runtime
    from paddock.runtime.box import Box
    from paddock.runtime.runs import Active

HEADLESS = Turn(prompt="p", headless=True, stuck_after_s=600.0)
PIPES = ExecSpec(argv=("agent",))


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def begun(runtime: Runtime, workspace: Path, script: str, turn: Turn = HEADLESS) -> tuple[Box, Active, Clock]:
    """A run that nobody reads, of a runtime that looks all the time and whose clock stands still."""
    clock = runtime.runs.clock = Clock()
    runtime.runs.look_s = 0.01
    file = scripted.install(workspace, script)
    box = await runtime.create(request(workspace, agent="mine", definition=file.read_text()))
    detached = ExecSpec(argv=("agent",), detach=True)
    job, channel, _ = await sessions.begin(runtime, box, turn, detached)
    with channel:
        commands.expect(await commands.ask_first(channel), "started")
    return box, runtime.runs.active[job], clock


async def looked(active: Active, seen: Callable[[], bool] = lambda: False) -> None:
    """Enough looks for anything to be noticed; what must happen is waited for elsewhere."""
    for _ in range(20):
        if active.over.is_set() or seen():
            return
        await asyncio.sleep(0.01)


async def over(runtime: Runtime, active: Active) -> RunInfo:
    await asyncio.wait_for(active.over.wait(), 30)
    return await runlist.shown(runtime, active.id)


@pytest.mark.box
def test_a_run_that_is_silent_for_its_time_is_ended_as_stuck_with_all_below_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        _, active, clock = await begun(runtime, workspace, "sleep 1000 & echo $! > child; wait")
        await looked(active)
        clock.now_s += 599.0
        await looked(active)
        assert not active.over.is_set()
        clock.now_s += 2.0
        info = await over(runtime, active)
        assert (info.reason, info.exit_code) == ("stuck", 79)
        assert info.why == "no output, no request and no work for 10m"
        with runtime.engine(active.box).connect(active.box.placement) as channel:
            pong = await commands.ask(channel, {"op": "ping"})
        assert pong["processes"] == 0
        assert active.box.handle is not None
        assert active.box.handle.is_idle(), "its child too"

    within(tmp_path, act)


@pytest.mark.box
def test_output_and_work_keep_a_run_on_and_never_is_never(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        os.mkfifo(workspace / "go")
        turn = Turn(prompt="p", headless=True, stuck_after_s=60.0)
        script = "cat go; while test -e go; do :; done; exec sleep 1000"
        _, active, clock = await begun(runtime, workspace, script, turn)
        clock.now_s += 50.0
        await asyncio.to_thread((workspace / "go").write_text, "word\n")
        journal = commands.journal_paths(active.box.directory, active.id)
        before = runwatch.marks(journal)
        await looked(active, lambda: runwatch.marks(journal) != before)
        await looked(active)
        clock.now_s += 50.0
        await looked(active)
        assert not active.over.is_set(), "it said something half-way"
        for _ in range(8):
            await busy(runtime, active, 0.1)
            clock.now_s += 10.0
            await looked(active)
        assert not active.over.is_set(), "it works"
        (workspace / "go").unlink()
        await looked(active)
        clock.now_s += 61.0
        await looked(active)
        clock.now_s += 61.0
        assert (await over(runtime, active)).reason == "stuck"
        never = Turn(prompt="p", headless=True, stuck_after_s=0.0)
        (workspace / "mine.sh").write_text("#!/bin/sh\nexec sleep 1000\n")
        job, channel, _ = await sessions.begin(runtime, active.box, never, ExecSpec(argv=("agent",), detach=True))
        channel.close()
        clock.now_s += 1e9
        await looked(runtime.runs.active[job])
        assert job in runtime.runs.active

    within(tmp_path, act)


async def busy(runtime: Runtime, active: Active, seconds: float) -> None:
    """Until the box has used so much of a processor more."""
    assert active.handle is not None
    engine, evidence = runtime.engine(active.box), active.handle.evidence
    goal = engine.processor_s(evidence) + seconds
    while engine.processor_s(evidence) < goal:
        assert not active.over.is_set()
        await asyncio.sleep(0.01)


@pytest.mark.box
def test_nobody_ends_an_interactive_run(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        turn = Turn(prompt="p", stuck_after_s=1.0)
        _, active, clock = await begun(runtime, workspace, "exec sleep 1000", turn)
        clock.now_s += 1e6
        await looked(active)
        assert not active.over.is_set()

    within(tmp_path, act)


def test_nobody_looks_at_a_run_whose_end_was_noticed(tmp_path: Path, workspace: Path) -> None:
    """Also if what was waited for failed just when it was cancelled."""

    async def act(runtime: Runtime) -> None:
        runtime.runs.look_s = 0.01
        box = await runtime.create(request(workspace, name="mine"))
        active = runtime.runs.active[await runs.begin(runtime, box, AGENT, HEADLESS)]
        looking = asyncio.create_task(runwatch.look_on(runtime, active))
        await looked(active)
        assert not looking.done()
        active.noticed = True
        await asyncio.wait_for(looking, 10)

    within(tmp_path, act)


# -- the log of its network --------------------------------------------------------------------------------------------


AGENT = parse('name = "mine"\ntitle = "m"\nprogram = "m"\n[keys]\nany = ["k"]\n')


def record(host: str, time: str = "2999") -> bytes:
    return Record(time=time, event=Event.DECISION, box="b", host=host, port=443, decision=Decision.DENY).to_line()


def test_a_fresh_log_begins_now_and_one_of_a_recovered_run_at_its_start(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        run = await runs.begin(runtime, box, AGENT, HEADLESS)
        active = runtime.runs.active[run]
        logs = NetLogs(os.fspath(tmp_path))
        first, second = logs.paths(box.row.id)
        with open(first, "wb") as file:
            file.write(write_header(0) + record("before.test") + record("long.ago", "1999"))
        runtime.network = _Logging(logs)  # type: ignore[assignment]
        fresh, again = Log(runtime, active, fresh=True), Log(runtime, active)
        with open(first, "ab") as file:
            file.write(record("after.test"))
        for log in (fresh, again):
            log.read(0.0)
        assert fresh.traffic.info().refused == (HostCount(host="after.test", count=1),)
        assert {one.host for one in again.traffic.info().refused} == {"before.test", "after.test"}
        again.read(0.0)
        assert sum(one.count for one in again.traffic.info().refused) == 2, "nothing is counted twice"
        with open(second, "wb") as file:
            file.write(write_header(3) + record("later.test"))
        os.unlink(first)
        fresh.read(0.0)
        assert not fresh.traffic.info().complete, "two halves went by unread"
        runtime.network = None

    within(tmp_path, act)


class _Logging:
    def __init__(self, logs: NetLogs) -> None:
        self.logs = logs


def test_a_file_that_is_not_there_has_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert runwatch.marks((os.fspath(path),)) == ()
    path.write_text(json.dumps({}))
    assert len(runwatch.marks((os.fspath(path),))) == 1
