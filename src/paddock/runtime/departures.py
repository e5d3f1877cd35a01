"""The end of a run: what a box left in a live workspace that the host trusts, and its commits, which come home.

A bundle is made in the box, by its own git: nobody else opens its gitdir as a repository. A box that is gone after one
command is started once more for it, alone, when its branches have something new.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import PaddockError, Unavailable
from paddock.model import BoxId, ExecSpec, WorkspaceMode
from paddock.readiness import readable
from paddock.reports import ArrivalInfo, FetchInfo, LeaveReport, TrustedInfo
from paddock.runtime import commands, execution, workspaces
from paddock.workspace import guarded, home, nested, refs, repository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from paddock.engines.base import Handle
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.workspace.gitdir import Unit
    from paddock.workspace.home import Commit

log = logging.getLogger(__name__)
_NOTHING_CODE = 128
_KEPT = 1024
_KILL_S = 10.0


async def left(runtime: Runtime, box_id: str) -> LeaveReport:
    """After a command of a box: what is new since the last time this was asked."""
    known = runtime.boxes.get(BoxId(box_id))
    if known is None or known.row.spec.ephemeral:
        if known:
            await known.looked.wait()
        return runtime.departed.get(box_id, LeaveReport())
    box = known
    async with box.leaving:
        return await _report(runtime, box)


async def look(runtime: Runtime, box: Box) -> None:
    """The processes of an ephemeral box are gone: what it left is known before all else is cleared away."""
    try:
        report, has_news = await asyncio.to_thread(lambda: (_look(runtime, box), _has_news(box)))
    except (PaddockError, OSError, RuntimeError) as error:
        log.warning("what %s left: %s", box.name, error)
        report, has_news = LeaveReport(problems=(f"what the box left could not be looked at: {error}",)), False
    _keep(runtime, box, report)
    if not has_news:
        box.looked.set()


async def last(runtime: Runtime, box: Box) -> None:
    """The commits of an ephemeral box come home before its files go."""
    try:
        if not box.looked.is_set():
            report = await _with_commits(runtime, box, runtime.departed.get(box.row.id, LeaveReport()))
            _keep(runtime, box, report)
    except (OSError, RuntimeError) as error:
        log.warning("the commits of %s: %s", box.name, error)
    finally:
        box.looked.set()


def _keep(runtime: Runtime, box: Box, report: LeaveReport) -> None:
    if report != LeaveReport():
        runtime.departed[box.row.id] = report
        while len(runtime.departed) > _KEPT:
            del runtime.departed[next(iter(runtime.departed))]


async def fetch(runtime: Runtime, name: str) -> FetchInfo:
    """Bring a box's commits home; a box that is stopped is started for it, and stopped again."""
    box = runtime.find(name)
    async with box.leaving:
        was_running = box.handle is not None
        try:
            return await _fetch(runtime, box)
        finally:
            if not was_running:
                await runtime.stop(box.name, 0.0)


async def commits(runtime: Runtime, name: str) -> tuple[Commit, ...]:
    """What came home from a box."""
    box = runtime.find(name)

    def read() -> tuple[Commit, ...]:
        return tuple(
            commit for unit in workspaces.units(box.row.spec, box.directory) for commit in home.log(unit, box.name)
        )

    return await asyncio.to_thread(read)


# -- what is new -------------------------------------------------------------------------------------------------------


async def _report(runtime: Runtime, box: Box) -> LeaveReport:
    report = await asyncio.to_thread(_look, runtime, box)
    return await _with_commits(runtime, box, report)


async def _with_commits(runtime: Runtime, box: Box, report: LeaveReport) -> LeaveReport:
    try:
        if not await asyncio.to_thread(_has_news, box):
            return report
        found = await _fetch(runtime, box)
    except PaddockError as error:
        problem = f"commits of the box did not come home: {error.message}"
        return replace(report, problems=(*report.problems, problem))
    problems = tuple(f"{item.path} did not come home: {item.why}" for item in found.skipped)
    return replace(report, arrived=found.arrived, problems=(*report.problems, *problems))


def _look(runtime: Runtime, box: Box) -> LeaveReport:
    spec, before = box.row.spec, box.before
    if spec.mode is not WorkspaceMode.LIVE or not box.has_run:
        return LeaveReport()
    after = runtime.workspaces.survey(spec.workspace)
    box.before = after
    if before is None:  # an earlier daemon started it: what is new since it was made is the box's, or may be
        since_ns = int(datetime.fromisoformat(box.row.created_at).timestamp()) * 1_000_000_000
        trusted = guarded.created(None, after.survey, since_ns, spec.writable)
        fresh = nested.new(nested.Found(nested=(), complete=False), after.found, since_ns)
    else:
        trusted = guarded.created(before.survey, after.survey, before.since_ns, spec.writable)
        fresh = nested.new(before.found, after.found, before.since_ns)
    return LeaveReport(
        trusted=tuple(TrustedInfo(path=item.path, why=item.why) for item in trusted),
        nested=tuple(item.path for item in fresh),
        complete=after.found.complete,
        problems=tuple(box.told()),
    )


# -- commits -----------------------------------------------------------------------------------------------------------


def _has_news(box: Box) -> bool:
    """Whether a branch of the box is at a commit that the host has no reference to; its references are only read."""
    return any(map(_is_ahead, workspaces.units(box.row.spec, box.directory)))


def _is_ahead(unit: Unit) -> bool:
    known = {*unit.base, *repository.read_refs(unit.repository).ids.values()}
    with repository.opened(unit.place) as fd:
        found = refs.read(fd, fd)
    tips = {oid for name, oid in found.ids.items() if name.startswith("refs/heads/")}
    return not {*tips, found.resolve(found.head)} - {""} <= known


async def _fetch(runtime: Runtime, box: Box) -> FetchInfo:
    units = await asyncio.to_thread(workspaces.units, box.row.spec, box.directory)
    if not units:
        return FetchInfo()
    if box.row.spec.ephemeral:
        async with _once_more(runtime, box) as run:
            made = [unit for unit in units if await _bundle(run, unit)]
    else:
        run = _Runner(runtime, box)
        made = [unit for unit in units if await _bundle(run, unit)]
    arrived: list[ArrivalInfo] = []
    skipped: list[TrustedInfo] = []
    for unit in made:
        found = await asyncio.to_thread(home.fetch, unit, _label(box), f"{box.directory}/home")
        await asyncio.to_thread(home.forget_bundle, unit)
        arrived += [ArrivalInfo(ref=one.ref, branch=one.branch, oid=one.oid, old=one.old) for one in found.arrived]
        skipped += [TrustedInfo(path=name, why=why) for name, why in found.skipped]
    return FetchInfo(arrived=tuple(arrived), skipped=tuple(skipped))


def _label(box: Box) -> str:
    """The name of a box of one command is soon another's, whose commits must not take its place."""
    return f"{box.name}-{box.row.id[:6]}" if box.row.spec.ephemeral else box.name


class _Runner:
    """Runs a command in a box to its end; `start` makes a channel on which it begins."""

    def __init__(self, runtime: Runtime, box: Box, *, held: bool = True) -> None:
        self._runtime = runtime
        self._box = box
        self._held = held

    async def run(self, argv: list[str]) -> tuple[int, bytes]:
        spec = ExecSpec(argv=tuple(argv), timeout_s=limits.GIT_TIMEOUT_S)
        if self._held:
            _, channel = await execution.start(self._runtime, self._box, spec)
        else:
            channel = self._runtime.engine(self._box).connect(self._box.placement)
            env = self._runtime.environment(self._box)
            message = commands.start_message(spec, commands.new_job_id(), env, self._box.row.spec.workdir)
            await commands.send(channel, message, [])
        with channel:
            return await commands.finish(channel, limits.GIT_TIMEOUT_S + _KILL_S)


async def _bundle(run: _Runner, unit: Unit) -> bool:
    await asyncio.to_thread(home.forget_bundle, unit)
    code, said = await run.run(home.bundle_argv(unit))
    if code == 0:
        return True
    text = said.decode("utf-8", "replace")
    if code == _NOTHING_CODE and home.NOTHING in text:
        return False
    last_line = (text.strip().splitlines() or ["git failed"])[-1]
    raise Unavailable(f"git in the box: {last_line[:200]}", hint="look at it with `git fsck` in the box", code="bundle")


@contextlib.asynccontextmanager
async def _once_more(runtime: Runtime, box: Box) -> AsyncIterator[_Runner]:
    """An ephemeral box that has ended, started for us alone."""
    handle = await runtime.lifetimes.make(box)
    try:
        yield _Runner(runtime, box, held=False)
    finally:
        handle.kill()
        await _gone(handle)
        await runtime.lifetimes.clean(box)
        if runtime.network is not None:
            await runtime.network.left(box)
        handle.close()


async def _gone(handle: Handle) -> None:
    try:
        await asyncio.wait_for(readable(handle.pidfd), _KILL_S)
    except TimeoutError:
        log.warning("%r does not end", handle)
