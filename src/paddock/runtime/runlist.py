"""Runs of agents as people ask for them: one, all, or what a box's agent does now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock import limits, text
from paddock.errors import UserError
from paddock.metering.budget import dollars
from paddock.readiness import within
from paddock.runtime import runends

if TYPE_CHECKING:
    from paddock.reports import RunInfo
    from paddock.runs.store import Kept
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime


async def listed(runtime: Runtime, box: str, limit: int) -> list[RunInfo]:
    """The newest first, of all boxes or of one by its name or id; it may be gone."""
    await runtime.runs.recovered.wait()
    found = (await asyncio.to_thread(runtime.runs.store.all)).kept
    wanted = [kept for kept in found if not box or box in (kept.info.box, kept.info.box_id)]
    return [await _now(runtime, kept) for kept in (wanted[:limit] if limit else wanted)]


async def damaged(runtime: Runtime) -> tuple[str, ...]:
    return (await asyncio.to_thread(runtime.runs.store.all)).damaged


async def shown(runtime: Runtime, word: str) -> RunInfo:
    await runtime.runs.recovered.wait()
    return await _now(runtime, await asyncio.to_thread(runtime.runs.store.find, word))


async def awaited(runtime: Runtime, word: str) -> RunInfo:
    """The record once it is complete, or as it is when that takes too long."""
    info = await shown(runtime, word)
    active = runtime.runs.active.get(info.id)
    if active is None:
        return info
    try:
        await within(active.over.wait(), limits.RUN_END_WAIT_S)
    except TimeoutError:
        return runends.with_usage(runtime, active)
    return active.kept.info


async def _now(runtime: Runtime, kept: Kept) -> RunInfo:
    """With what it has used so far, if it is on; or its end, which may have been written since it was read."""
    if kept.info.reason != "running":
        return kept.info
    if active := runtime.runs.active.get(kept.info.id):
        return runends.with_usage(runtime, active)
    try:
        return (await asyncio.to_thread(runtime.runs.store.find, kept.info.id)).info
    except UserError:  # it made room for newer ones
        return kept.info


def doing(runtime: Runtime, box: Box) -> str:
    """What a box's agent does now, in a few words."""
    if box.handle is None:
        return ""
    active = [runends.with_usage(runtime, one) for one in runtime.runs.of(box)]
    if not active:
        return "idle"
    first = min(active, key=lambda info: info.started)
    age_s = (datetime.now(UTC) - datetime.fromisoformat(first.started)).total_seconds()
    age = text.duration(age_s // 60 * 60 if age_s >= 60 else age_s // 1)
    words = f"{first.agent} headless {age}" if first.mode == "headless" else f"{first.agent} {age}"
    cost = f", {dollars(first.cost_picodollars)}" if first.cost_picodollars else ""
    more = f", and {len(active) - 1} more" if active[1:] else ""
    return words + cost + more
