"""The end of a run: what a box left in a live workspace that the host trusts, and its commits, which come home.

Whoever waits for a command asks at its end (`left`). Where nobody waits, as after a detached job or when a box ends by
itself, we look on our own, and untold.py keeps what was found.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from paddock.errors import PaddockError
from paddock.model import BoxId, WorkspaceMode
from paddock.reports import LeaveReport, TrustedInfo
from paddock.runtime import channels, commands, homecoming, untold
from paddock.workspace import guarded, nested

if TYPE_CHECKING:
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

log = logging.getLogger(__name__)
_KEPT = 1024


async def left(runtime: Runtime, box_id: str, *, look: bool = True) -> LeaveReport:
    """After a command of a box: what is new since this was last asked; without `look` what was found before."""
    box = runtime.boxes.get(BoxId(box_id))
    if box is None or box.row.spec.ephemeral:
        if box:
            await box.looked.wait()
        return runtime.departed.get(box_id, LeaveReport())
    async with box.leaving:
        report = await _report(runtime, box) if look else LeaveReport()
        return untold.merged(await asyncio.to_thread(box.untold.take), report)


async def stopped(runtime: Runtime, box: Box) -> LeaveReport:
    """A box was stopped: all that it left and nobody was told."""
    try:
        return LeaveReport() if box.row.spec.ephemeral else await left(runtime, box.row.id)
    except (PaddockError, OSError) as error:
        return _unknown(error)  # it is stopped all the same


async def note(runtime: Runtime, box: Box, *, commits: bool = True) -> None:
    """Something of a box ended and nobody waited for it. A box that was ended has its commits still, for later."""
    async with box.leaving:
        try:
            report = await _report(runtime, box) if commits else await asyncio.to_thread(_look, runtime, box)
        except (PaddockError, OSError) as error:
            report = _unknown(error)
        await asyncio.to_thread(box.untold.add, report)


async def note_job(runtime: Runtime, box: Box, job: str) -> None:
    """Wait for the end of a detached job, and look."""
    try:
        with runtime.engine(box).connect(box.placement) as channel:
            await commands.send(channel, {"op": "wait", "id": job}, [])
            await commands.await_message(channel)
    except (PaddockError, OSError) as error:  # the box ended with it, which is noticed by itself
        log.info("waiting for %s in %s: %s", job, box.name, error)
        return
    await note(runtime, box)


async def note_jobs(runtime: Runtime, box: Box) -> None:
    """The same for those that an earlier daemon started."""
    running = await channels.running_ids(runtime.engine(box), box)
    jobs = [row.id for row in await runtime.register.jobs(box) if row.id in running]
    await asyncio.gather(*(note_job(runtime, box, job) for job in jobs))


async def look(runtime: Runtime, box: Box) -> None:
    """The processes of an ephemeral box are gone: what it left is known before all else is cleared away."""
    try:
        report, has_news = await asyncio.to_thread(lambda: (_look(runtime, box), homecoming.has_news(box)))
    except (PaddockError, OSError, RuntimeError) as error:
        log.warning("what %s left: %s", box.name, error)
        report, has_news = _unknown(error), False
    keep(runtime, box, report)
    if not has_news:
        box.looked.set()


async def last(runtime: Runtime, box: Box) -> None:
    """The commits of an ephemeral box come home before its files go."""
    try:
        if not box.looked.is_set():
            report = await _with_commits(runtime, box, runtime.departed.get(box.row.id, LeaveReport()))
            keep(runtime, box, report)
    except (OSError, RuntimeError) as error:
        log.warning("the commits of %s: %s", box.name, error)
    finally:
        box.looked.set()


def keep(runtime: Runtime, box: Box, report: LeaveReport) -> None:
    """What a box of one command left, for its caller, who asks when it is gone."""
    if report != LeaveReport():
        runtime.departed[box.row.id] = report
        while len(runtime.departed) > _KEPT:
            del runtime.departed[next(iter(runtime.departed))]


# -- what is new -------------------------------------------------------------------------------------------------------


async def found(runtime: Runtime, box: Box) -> LeaveReport:
    """What a box that has ended left and nobody was told, but for its commits. The caller holds box.leaving."""
    try:
        report = await asyncio.to_thread(_look, runtime, box)
    except (PaddockError, OSError) as error:
        report = _unknown(error)
    return untold.merged(box.untold.peek(), report)


async def _report(runtime: Runtime, box: Box) -> LeaveReport:
    report = await asyncio.to_thread(_look, runtime, box)
    return await _with_commits(runtime, box, report)


async def _with_commits(runtime: Runtime, box: Box, report: LeaveReport) -> LeaveReport:
    try:
        if not await asyncio.to_thread(homecoming.has_news, box):
            return report
        fetched = await homecoming.bring(runtime, box)
    except PaddockError as error:
        problem = f"commits of the box did not come home: {error.message}"
        return replace(report, problems=(*report.problems, problem))
    problems = tuple(f"{item.path} did not come home: {item.why}" for item in fetched.skipped)
    return replace(report, arrived=fetched.arrived, problems=(*report.problems, *problems))


def _look(runtime: Runtime, box: Box) -> LeaveReport:
    spec, before = box.row.spec, box.before
    if spec.bare or spec.mode is not WorkspaceMode.LIVE or not box.has_run or box.looked_last:
        return LeaveReport()
    is_over = box.handle is None
    after = runtime.workspaces.survey(spec.workspace)
    box.before = after
    box.looked_last = is_over
    if before is None:  # an earlier daemon started it: what is new since it was made is the box's, or may be
        since_ns = int(datetime.fromisoformat(box.row.created_at).timestamp()) * 1_000_000_000
        trusted = guarded.created(None, after.survey, since_ns, spec.writable)
        fresh = nested.new(nested.Found(nested=(), complete=False), after.found, since_ns)
    else:
        trusted = guarded.created(before.survey, after.survey, before.since_ns, spec.writable)
        fresh = nested.new(before.found, after.found, before.since_ns)
    report = LeaveReport(
        trusted=tuple(TrustedInfo(path=item.path, why=item.why) for item in trusted),
        nested=tuple(item.path for item in fresh),
        complete=after.found.complete,
        problems=tuple(box.told()),
    )
    return untold.merged(LeaveReport(), report)  # within its bounds


def _unknown(error: Exception) -> LeaveReport:
    return LeaveReport(problems=(f"what the box left could not be looked at: {error}",))
