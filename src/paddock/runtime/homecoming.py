"""The commits of a box come home: by a bundle that the box's own git makes, fetched by home.py.

Nobody else opens the gitdir of a box as a repository. A box that does not run is started once more for it, alone, when
its branches have something new, and is gone again before anyone else can use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.errors import PaddockError, Unavailable
from paddock.model import ExecSpec
from paddock.readiness import readable, within
from paddock.reports import ArrivalInfo, FetchInfo, TrustedInfo
from paddock.runtime import bases, commands, execution, workspaces
from paddock.workspace import home, hostrefs, refs, repository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from paddock.engines.base import Handle
    from paddock.runtime.box import Box
    from paddock.runtime.core import Runtime
    from paddock.workspace.commits import Commit
    from paddock.workspace.gitdir import Unit

log = logging.getLogger(__name__)
_NOTHING_CODE = 128
_KILL_S = 10.0
_LABEL = "git/label"  # below a box's directory, as
_SCRATCH = "arriving"


async def fetch(runtime: Runtime, name: str) -> FetchInfo:
    """Bring a box's commits home, whether it runs or not."""
    box = runtime.find(name)
    async with box.leaving:
        return await bring(runtime, box)


async def commits(runtime: Runtime, name: str) -> tuple[Commit, ...]:
    """What came home from a box."""
    box = runtime.find(name)

    def read() -> tuple[Commit, ...]:
        label = _known_label(box)
        found = workspaces.units(box.row.spec, box.directory) if label else ()
        return tuple(commit for unit in found for commit in home.log(unit, label))

    return await asyncio.to_thread(read)


def has_news(box: Box) -> bool:
    """Whether a branch of the box is at a commit that the host has no reference to; its references are only read."""
    return bool(ahead(box))


def ahead(box: Box) -> tuple[str, ...]:
    """The branches of which that is so, named as the box names them. Waits for the disk."""
    return tuple(name for unit in bases.units(box.directory) for name in _ahead(unit))


def _ahead(unit: Unit) -> list[str]:
    known = {*unit.base}
    try:
        known |= {*repository.read_refs(unit.repository).ids.values()}
    except PaddockError as error:  # the repository is gone: nothing of the box is anywhere else
        log.info("the references of %s: %s", unit.repository.common_dir, error)
    with repository.opened(unit.place) as fd:
        found = refs.read(fd, fd)
    tips = {name: oid for name, oid in found.ids.items() if name.startswith("refs/heads/")}
    if (head := found.resolve(found.head)) not in tips.values():
        tips["HEAD"] = head
    return [name.removeprefix("refs/heads/") for name, oid in tips.items() if oid and oid not in known]


async def bring(
    runtime: Runtime, box: Box, *, locked: bool = False, timeout_s: float = limits.GIT_TIMEOUT_S
) -> FetchInfo:
    """Bundle in the box, fetch on the host; the caller holds box.leaving, and with `locked` also box.lock."""
    units = await asyncio.to_thread(workspaces.units, box.row.spec, box.directory)
    if not units:
        return FetchInfo()
    async with _runner(runtime, box, timeout_s, locked=locked) as run:
        made = [unit for unit in units if await _bundle(run, unit)]
    return await asyncio.to_thread(_take, box, made)


def _take(box: Box, made: list[Unit]) -> FetchInfo:
    arrived: list[ArrivalInfo] = []
    skipped: list[TrustedInfo] = []
    for unit in made:
        found = home.fetch(unit, _label(box, made), f"{box.directory}/{_SCRATCH}")
        home.forget_bundle(unit)
        arrived += [ArrivalInfo(ref=one.ref, branch=one.branch, oid=one.oid, old=one.old) for one in found.arrived]
        skipped += [TrustedInfo(path=name, why=why) for name, why in found.skipped]
    return FetchInfo(arrived=tuple(arrived), skipped=tuple(skipped))


# -- whose they are ----------------------------------------------------------------------------------------------------


def _label(box: Box, units: list[Unit]) -> str:
    """What a box's references are called: by its name, unless those of an earlier box of that name are there.

    They are somebody's work, and no later box may take their place. The name of a box of one command is soon another's.
    """
    label = _known_label(box)
    if label:
        return label
    prefix = f"{hostrefs.ROOT}/{box.name}/"
    ids = [name for unit in units for name in repository.read_refs(unit.repository).ids]
    taken = box.row.spec.ephemeral or any(name.startswith(prefix) for name in ids)
    label = f"{box.name}-{box.row.id[:6]}" if taken else box.name
    fs.write_atomic(f"{box.directory}/{_LABEL}", label.encode())
    return label


def _known_label(box: Box) -> str:
    try:
        with open(f"{box.directory}/{_LABEL}", "rb") as file:
            return os.fsdecode(file.read())
    except FileNotFoundError:
        return ""


# -- in the box --------------------------------------------------------------------------------------------------------


class _Runner:
    """Runs a command in a box to its end; the box is held by the runtime, or was made for us alone."""

    def __init__(self, runtime: Runtime, box: Box, timeout_s: float, *, held: bool) -> None:
        self._runtime = runtime
        self._box = box
        self._timeout_s = timeout_s
        self._held = held

    async def run(self, argv: list[str]) -> tuple[int, bytes]:
        spec = ExecSpec(argv=tuple(argv), timeout_s=self._timeout_s)
        if self._held:
            _, channel = await execution.start(self._runtime, self._box, spec)
        else:
            channel = self._runtime.engine(self._box).connect(self._box.placement)
            env = self._runtime.environment(self._box)
            message = commands.start_message(spec, commands.new_job_id(), env, self._box.row.spec.workdir)
            await commands.send(channel, message, [])
        with channel:
            return await commands.finish(channel, self._timeout_s + _KILL_S)


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
async def _runner(runtime: Runtime, box: Box, timeout_s: float, *, locked: bool) -> AsyncIterator[_Runner]:
    while box.handle is None or locked:
        async with contextlib.AsyncExitStack() as stack:
            if not locked and not box.row.spec.ephemeral:
                await stack.enter_async_context(box.lock)  # nobody starts it meanwhile
                await box.ended.wait()
                if box.handle is not None:
                    continue
            await stack.enter_async_context(_once_more(runtime, box))
            yield _Runner(runtime, box, timeout_s, held=False)
            return
    yield _Runner(runtime, box, timeout_s, held=True)


@contextlib.asynccontextmanager
async def _once_more(runtime: Runtime, box: Box) -> AsyncIterator[None]:
    """A box that has ended, started for us alone."""
    handle = await runtime.lifetimes.make(box)
    try:
        yield
    finally:
        handle.kill()
        await _gone(handle)
        await runtime.lifetimes.clean(box)
        if runtime.network is not None:
            await runtime.network.left(box)
        handle.close()


async def _gone(handle: Handle) -> None:
    try:
        await within(readable(handle.pidfd), _KILL_S)
    except TimeoutError:
        log.warning("%r does not end", handle)
