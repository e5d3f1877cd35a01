"""The end of a run as its record tells it: gathered from the box's journal, its log, its ledger and its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.errors import PaddockError
from paddock.model import WorkspaceMode
from paddock.readiness import within
from paddock.reports import ChangedInfo, ModelUse, TrafficInfo
from paddock.runs import changed, output, reason
from paddock.runs.output import Said
from paddock.runs.reason import BUDGET, End, Evidence
from paddock.runs.traffic import Traffic
from paddock.runtime import journals, threads
from paddock.runtime.bases import GIT
from paddock.runtime.runwatch import Log
from paddock.store import now

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.metering.ledger import Line
    from paddock.reports import RunInfo
    from paddock.runtime.box import Box, Ending
    from paddock.runtime.core import Runtime
    from paddock.runtime.journals import JournalState
    from paddock.runtime.runs import Active

log = logging.getLogger(__name__)
_COUNT_S = 2.0  # for the gateway to say what was spent
_COUNTED = ("requests", "input", "output", "cache_read", "cache_write", "picodollars")
_KILLED = 137


async def info(runtime: Runtime, active: Active, state: JournalState | None, box_end: Ending | None) -> RunInfo:
    """The record of a run that has ended; what cannot be found out is left out, and no part keeps another from it."""
    ended = now()
    end = _end(state)
    said = await _said(active, end)  # first: the box may be on its way out, and its journal with it
    network = await _network(runtime, active)
    files = await _changed(active)
    traffic = active.log.traffic if active.log else Traffic(active.agent)
    known = Evidence(
        cut=active.cut,
        box_code=box_end.exit_code if box_end else None,
        box_why=(box_end.reason if box_end else "") or _killed(runtime, active, end),
        over=runtime.usages.over(active.box.row.id),
        needed=traffic.needed(),
        key_refused=traffic.key_refused,
        words=said.words,
    )
    word, why = reason.of(end, known)
    code = BUDGET if word == "budget" else end.exit_code
    return replace(
        with_usage(runtime, active),
        ended=ended,
        exit_code=(box_end.exit_code if box_end else _KILLED) if code is None else code,
        reason=word,
        why=why,
        session=said.session,
        final=said.final if active.kept.info.mode == "headless" else "",
        changed=files,
        network=network,
    )


def unknown(active: Active, state: JournalState | None) -> RunInfo:
    """The record of a run of which nothing more can be found out."""
    code = state.exit_code if state else None
    return replace(active.kept.info, ended=now(), exit_code=code, reason="failed", why="see the daemon's log")


def _end(state: JournalState | None) -> End:
    if state is None:
        return End()
    return End(exit_code=state.exit_code, signal=state.signal, timed_out=state.timed_out, refused=state.refused)


def _killed(runtime: Runtime, active: Active, end: End) -> str:
    """What the kernel killed in a box that runs on."""
    if end.signal is None or active.box.handle is None:
        return ""
    return runtime.engine(active.box).killed(active.box.placement)


async def _said(active: Active, end: End) -> Said:
    """Of a terminal's session only what its end says of a failure is of use, and there may be much of it."""
    if active.kept.info.mode == "interactive" and end.exit_code in {0, None}:
        return Said()
    try:
        fds = journals.open_files(active.box.directory, active.id)
    except PaddockError:
        return Said()
    try:
        return await threads.aside(output.read, fds, active.agent)
    finally:
        for fd in fds:
            os.close(fd)


async def _network(runtime: Runtime, active: Active) -> TrafficInfo:
    """After the gateway said what was spent: what it logs about the last request is on disk by then."""
    if runtime.network is not None:
        with contextlib.suppress(PaddockError, TimeoutError):
            await within(runtime.network.count(active.box), _COUNT_S)
    try:
        seen = active.log = active.log or Log(runtime, active)
        await asyncio.to_thread(seen.read, runtime.runs.clock())
    except (OSError, PaddockError) as error:
        log.warning("the network log of run %s: %s", active.id, error)
        return TrafficInfo(complete=False)
    return seen.traffic.info()


async def _changed(active: Active) -> ChangedInfo:
    spec, since_ns = active.box.row.spec, active.kept.began.since_ns
    try:
        if spec.mode is WorkspaceMode.REVIEW:
            upper = f"{active.box.directory}/review/upper"
            return await threads.aside(lambda: changed.files(upper, since_ns, spec.masks, layer=True))
        root = _clone(active.box) if spec.mode is WorkspaceMode.CLONE else spec.workspace
        return await threads.aside(lambda: changed.files(root, since_ns, spec.masks))
    except (OSError, PaddockError) as error:
        log.warning("what run %s changed: %s", active.id, error)
        return ChangedInfo(complete=False)


def _clone(box: Box) -> str:
    return f"{box.directory}/{GIT}/tree"


def with_usage(runtime: Runtime, active: Active) -> RunInfo:
    """With what the box used since the run began."""
    lines = runtime.usages.of(active.box).lines
    used = tuple(difference(active.kept.began.lines, lines))
    return replace(
        active.kept.info,
        metered=runtime.credentials.concern(active.box),
        usage=used,
        cost_picodollars=sum(each.picodollars for each in used),
    )


def difference(before: Iterable[Line], after: Iterable[Line]) -> Iterable[ModelUse]:
    """What was used between two reports, by model."""
    known = {(line.provider, line.model): line for line in before}
    for line in after:
        old = known.get((line.provider, line.model))
        counts = {name: max(0, getattr(line, name) - (getattr(old, name) if old else 0)) for name in _COUNTED}
        if any(counts.values()):
            yield ModelUse(provider=line.provider, model=line.model, **counts)
