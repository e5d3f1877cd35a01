"""Before a box is removed: its commits come home, and what cannot is refused, or said to be lost.

Changes of a review are read by the process that asks (client/reviewing.py), never here: see decision 0013. So the word
that there are none, or that they may go, comes with the request; without it a review that holds anything stays.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import PaddockError, UserError
from paddock.model import WorkspaceMode
from paddock.reports import RemovalInfo
from paddock.runtime import belongings, departures, homecoming
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.reports import LeaveReport
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime

_AT_ONCE = 32  # boxes ended side by side: most of it is waiting for the kernel
_NAMED = 5  # branches in a message
_RUNNING = "running"


async def remove_all(
    runtime: Runtime, boxes: list[Box], *, force: bool, reviewed: Collection[str] = ()
) -> list[RemovalInfo]:
    """What became of each; an error comes after everything that could go has gone."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(box: Box) -> RemovalInfo | None:
        async with limit:
            try:
                return await remove(runtime, box, force=force, reviewed=box.row.id in reviewed)
            except UserError as error:
                return None if error.code == _RUNNING else RemovalInfo(box=box.name, kept=error.message)

    done = await asyncio.gather(*map(one, boxes), return_exceptions=True)
    for error in done:
        if isinstance(error, BaseException):
            raise error
    return [info for info in done if isinstance(info, RemovalInfo)]


async def remove(
    runtime: Runtime, box: Box, *, force: bool, reviewed: bool = False, keep_state: bool = False
) -> RemovalInfo:
    """`keep_state`: what its agent knows stays for the next box of that agent and directory."""
    if keep_state:
        belongings.check_state(box)
    async with box.lock:
        await _end(runtime, box, force=force)  # first: who brings its commits home now need not be waited for
    async with box.leaving, box.lock:
        await _end(runtime, box, force=force)  # it may have been started since
        info = await _settle(runtime, box, force=force, reviewed=reviewed)
        if keep_state:
            info = replace(info, state="kept" if await belongings.keep_state(runtime, box) else "none")
        await runtime.lifetimes.forget(box)
    return info


async def _end(runtime: Runtime, box: Box, *, force: bool) -> None:
    if box.handle is not None and not force:
        raise UserError(
            f"the box {box.name!r} is running", hint=f"stop it first, or `paddock rm -f {box.name}`", code=_RUNNING
        )
    await runtime.lifetimes.end(box, grace_s=0.0)


async def _settle(runtime: Runtime, box: Box, *, force: bool, reviewed: bool) -> RemovalInfo:
    """What is to be said of a box that goes now; UserError if it must not."""
    if not force and not reviewed and await asyncio.to_thread(_has_layer, box):
        raise UserError(
            f"the box {box.name!r} may hold changes that are not applied",
            hint=f"`paddock diff {box.name}` shows them; `paddock rm -f {box.name}` drops them",
            code="unapplied",
        )
    if not force and (kept := await runtime.register.checkpoints(box)):
        raise UserError(
            f"the box {box.name!r} has {len(kept)} checkpoint{'s' if kept[1:] else ''}, which would go with it",
            hint=f"`paddock checkpoint ls {box.name}` lists them; `paddock rm -f {box.name}` removes all",
            code="checkpoints",
        )
    report = await departures.found(runtime, box)
    report, lost = await _bring_all(runtime, box, report, force=force)
    return RemovalInfo(box=box.name, left=report, lost=lost)


async def _bring_all(
    runtime: Runtime, box: Box, report: LeaveReport, *, force: bool
) -> tuple[LeaveReport, tuple[str, ...]]:
    try:
        if not await asyncio.to_thread(homecoming.has_news, box):
            return report, ()
        timeout_s = limits.FAREWELL_S if force else limits.GIT_TIMEOUT_S
        fetched = await homecoming.bring(runtime, box, locked=True, timeout_s=timeout_s)
        report = replace(report, arrived=(*report.arrived, *fetched.arrived))
        branches = tuple(item.path for item in fetched.skipped)
        why = fetched.skipped[0].why if branches else ""
    except (PaddockError, OSError) as error:
        branches = await _ahead(box)
        why = error.message if isinstance(error, PaddockError) else error.strerror or str(error)
    if not branches:
        return report, ()
    named = ", ".join(neutralise(name, 80) for name in branches[:_NAMED]) + (", ..." if branches[_NAMED:] else "")
    what = f"commits of {named} that did not come home: {why}"
    if force:
        return report, (what,)
    await asyncio.to_thread(box.untold.add, report)
    raise UserError(
        f"the box {box.name!r} has {what}",
        hint=f"`paddock exec {box.name} git log` shows them; `paddock rm -f {box.name}` drops them",
        code="commits",
    )


async def _ahead(box: Box) -> tuple[str, ...]:
    try:
        return await asyncio.to_thread(homecoming.ahead, box)
    except (PaddockError, OSError):
        return ("branches that cannot be read",)


def _has_layer(box: Box) -> bool:
    """Whether the layer of a review has an entry; directories of ours alone are none."""
    if box.row.spec.mode is not WorkspaceMode.REVIEW:
        return False
    try:
        with os.scandir(f"{box.directory}/review/upper") as entries:
            return any(entries)
    except FileNotFoundError:
        return False
