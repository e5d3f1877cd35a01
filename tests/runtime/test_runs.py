"""A run's record from before it starts until after it ended: in boxes, by a daemon that the test plays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import tools
from paddock.agents import Turn
from paddock.errors import Unavailable, UserError
from paddock.model import ExecSpec, TtySize
from paddock.runtime import commands, execution, runlist, runs, sessions
from tests.support import scripted
from tests.support.serving import request, within

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from paddock.reports import RunInfo
    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

HEADLESS = Turn(prompt="count the beans", headless=True)
PIPES = ExecSpec(argv=("agent",))
EVENTS = """
[output]
format = "jsonl"
[[output.event]]
where = {type = "result"}
final = "text"
session = "id"
[[failure]]
reason = "auth"
match = ["bad key"]
"""


async def made(runtime: Runtime, workspace: Path, script: str, more: str = "") -> Box:
    file = scripted.install(workspace, script, more)
    return await runtime.create(request(workspace, agent="mine", definition=file.read_text()))


async def ran(runtime: Runtime, box: Box, turn: Turn = HEADLESS, spec: ExecSpec = PIPES) -> RunInfo:
    """To its end, as a client that reads nothing."""
    job, channel, _ = await sessions.begin(runtime, box, turn, spec)
    with channel:
        return await ended(runtime, job)


async def ended(runtime: Runtime, run: str) -> RunInfo:
    info = await runlist.awaited(runtime, run)
    assert info.reason != "running"
    return info


def on_disk(runtime: Runtime, run: str) -> dict[str, object]:
    with open(f"{runtime.paths.runs}/{run}.json", encoding="utf-8") as file:
        info = json.load(file)["info"]
    assert isinstance(info, dict)
    return info


@pytest.mark.box
def test_a_record_is_on_disk_before_the_agent_starts_and_tells_its_end(tmp_path: Path, workspace: Path) -> None:
    script = """
    cat > /dev/null < go
    echo x > made.py; mkdir -p .git; echo x > .git/index
    echo '{"type": "result", "text": "five beans", "id": "s-9"}'"""

    async def act(runtime: Runtime) -> None:
        os.mkfifo(workspace / "go")
        box = await made(runtime, workspace, script, EVENTS)
        job, channel, _ = await sessions.begin(runtime, box, HEADLESS, PIPES)
        with channel:
            before = on_disk(runtime, job)
            assert (before["reason"], before["ended"], before["exit_code"]) == ("running", "", None)
            assert [info.id for info in await runlist.listed(runtime, box.name, 0)] == [job]
            assert runtime.brief(box).doing.startswith("mine headless ")
            assert runlist.doing(runtime, box) in {"mine headless 0s", "mine headless 1s"}
            await asyncio.to_thread((workspace / "go").write_text, "")
            info = await ended(runtime, job)
        assert runtime.brief(box).doing == "idle"
        assert (info.reason, info.exit_code, info.why) == ("done", 0, "")
        assert (info.final, info.session) == ("five beans", "s-9")
        assert "made.py" in info.changed.names
        assert ".git/index" not in info.changed.names
        assert (info.box, info.box_id, info.agent, info.mode) == (box.name, box.row.id, "mine", "headless")
        assert on_disk(runtime, job)["reason"] == "done"
        assert await runlist.shown(runtime, job[:6]) == info
        stored = (tmp_path / "state/runs" / f"{job}.json").read_text()
        assert "beans" in stored, "the agent's own words"
        assert "count the beans" not in stored
        rows = await runtime.register.jobs(box)
        assert rows[-1].argv[-1] == "PROMPT", "the list of jobs does not have it either"
        assert len(info.prompt_sha256) == 64
        await runtime.stop(box.name, 0.0)
        assert runtime.brief(box).doing == ""

    within(tmp_path, act)


@pytest.mark.box
@pytest.mark.parametrize(
    ("script", "reason", "code", "why"),
    [
        ("exit 7", "failed", 7, ""),
        ("echo 'Error: BAD KEY'; exit 1", "auth", 1, "its key is not valid"),
        ("kill -9 $$", "killed", 137, "signal 9"),
        ("exit 130", "killed", 130, "signal 2"),
        ("rm mine.sh; exec /none/such", "failed", 127, ""),
    ],
    ids=["failed", "auth", "signal", "interrupted", "no-program"],
)
def test_an_end_is_told_by_what_is_known_of_it(
    tmp_path: Path, workspace: Path, script: str, reason: str, code: int, why: str
) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, script, EVENTS)
        info = await ran(runtime, box)
        assert (info.reason, info.exit_code) == (reason, code)
        assert why in info.why

    within(tmp_path, act)


@pytest.mark.box
def test_the_version_is_told_where_the_program_was_asked_for_it_before(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        text = scripted.install(workspace, "").read_text().replace(f"{workspace}/mine.sh", "/usr/bin/env")
        box = await runtime.create(request(workspace, agent="mine", definition=text))
        first = await ran(runtime, box)
        located = tools.located(box.agent, runtime.paths, "", "")
        assert located is not None
        tools.Probes(runtime.paths.probes).keep(located.identity, tools.Probe(version="9.1"))
        assert (first.version, (await ran(runtime, box)).version) == ("", "9.1")

    within(tmp_path, act)


@pytest.mark.box
def test_a_program_that_is_not_there_fails_with_inits_words(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        (workspace / "mine.sh").unlink()
        info = await ran(runtime, box)
        assert (info.reason, info.exit_code) == ("failed", 127)
        assert "command not found" in info.why

    within(tmp_path, act)


@pytest.mark.box
def test_time_that_is_over_is_a_timeout_and_a_stopped_box_kills(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exec sleep 1000")
        info = await ran(runtime, box, spec=ExecSpec(argv=("agent",), timeout_s=0.1))
        assert (info.reason, info.exit_code) == ("timeout", 124)
        for grace_s in (0.0, 5.0):
            job, channel, _ = await sessions.begin(runtime, box, HEADLESS, PIPES)
            with channel:
                await started(channel)
                await runtime.stop(box.name, grace_s)
                info = await ended(runtime, job)
            assert (info.reason, info.why) == ("killed", "the box was stopped")
            assert info.exit_code in {137, 143}

    within(tmp_path, act)


@pytest.mark.box
def test_the_end_is_known_whatever_becomes_of_the_client(tmp_path: Path, workspace: Path) -> None:
    """A client that is killed closes its channel, and does nothing more."""

    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exec sleep 1000")
        job, channel, _ = await sessions.begin(runtime, box, HEADLESS, PIPES)
        await started(channel)
        channel.close()
        info = await ended(runtime, job)
        assert (info.reason, info.why) == ("killed", "signal 1")
        tty = ExecSpec(argv=("agent",), tty=TtySize(rows=24, cols=80), keep=True, stdin=True)
        job, channel, _ = await sessions.begin(runtime, box, Turn(), tty)
        await started(channel)
        channel.close()
        again, second, _ = await sessions.begin(runtime, box, Turn(), tty)
        with second:
            assert again == job, "a session that waits is the same run"
        assert [info.id for info in await runlist.listed(runtime, "", 0) if info.reason == "running"] == [job]
        assert runtime.brief(box).doing.startswith("mine ")
        assert "headless" not in runtime.brief(box).doing
        await execution.signal(runtime, box.name, job, signal.SIGKILL)
        info = await ended(runtime, job)
        assert (info.mode, info.reason, info.prompt_sha256, info.final) == ("interactive", "killed", "", "")

    within(tmp_path, act)


@pytest.mark.box
def test_a_killed_box_ends_its_runs(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exec sleep 1000")
        job, channel, _ = await sessions.begin(runtime, box, HEADLESS, PIPES)
        with channel:
            await started(channel)
            assert box.handle is not None
            os.kill(box.handle.evidence.pid, signal.SIGKILL)
            info = await ended(runtime, job)
        assert (info.reason, info.exit_code) == ("killed", 137)
        assert "its first process ended unexpectedly" in info.why

    within(tmp_path, act)


def test_what_an_earlier_daemon_left_running_is_ended_if_its_box_is(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        stopped = await runs.begin(runtime, box, box.agent, HEADLESS)
        gone = await runs.begin(runtime, box, box.agent, HEADLESS)
        path = tmp_path / "state/runs" / f"{gone}.json"
        path.write_text(path.read_text().replace(box.row.id, "no-such-box"))
        runtime.runs.active.clear()
        await runs.recover(runtime)
        lost, ended_box = await runlist.shown(runtime, gone), await ended(runtime, stopped)
        assert (lost.reason, lost.why, lost.exit_code) == ("killed", "its box is gone", None)
        assert (ended_box.reason, ended_box.exit_code) == ("killed", 137)
        assert runtime.runs.active == {}

    within(tmp_path, act)


@pytest.mark.box
def test_a_run_whose_command_cannot_be_sent_leaves_no_record(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        with pytest.raises(UserError, match="no user"):
            await sessions.begin(runtime, box, HEADLESS, ExecSpec(argv=("agent",), user="root"))
        await runtime.lifetimes.start(box)
        os.rmdir(f"{box.directory}/journal")  # where its output would go
        with pytest.raises(FileNotFoundError):
            await sessions.begin(runtime, box, HEADLESS, PIPES)
        assert (await runlist.listed(runtime, "", 0), os.listdir(runtime.paths.runs)) == ([], [])
        assert runtime.runs.active == {}

    within(tmp_path, act)


@pytest.mark.box
def test_no_run_begins_that_cannot_be_written_down(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        os.rmdir(runtime.paths.runs)
        with pytest.raises(Unavailable, match="cannot write"):
            await sessions.begin(runtime, box, HEADLESS, PIPES)
        assert (await runtime.register.jobs(box), runtime.runs.active) == ([], {})

    within(tmp_path, act)


def test_records_are_bounded_and_those_of_one_box_can_be_asked_for(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.limits.RUNS_MAX", 3)
    monkeypatch.setattr("paddock.runtime.runs._PRUNE_EVERY", 2)

    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        for _ in range(9):
            run = await runs.begin(runtime, box, box.agent, HEADLESS)
            del runtime.runs.active[run]
        assert len(os.listdir(runtime.paths.runs)) == 3
        assert len(await runlist.listed(runtime, box.row.id, 0)) == 3
        assert len(await runlist.listed(runtime, box.name, 2)) == 2
        assert await runlist.listed(runtime, "other", 0) == []
        (tmp_path / "state/runs/00000000.json").write_text("{")
        assert await runlist.damaged(runtime) == ("00000000.json",)

    within(tmp_path, act)


# -- the scenes --------------------------------------------------------------------------------------------------------


async def started(channel: socket.socket) -> None:
    commands.expect(await commands.ask_first(channel), "started")
