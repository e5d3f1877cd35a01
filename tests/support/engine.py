"""A process engine of the test's own, without a daemon, and a place for its box."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from paddock.engines.base import Placement
from paddock.engines.process import cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.model import BoxId, BoxSpec
from tests.support.installation import children, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from paddock.model import Mount

    Act = Callable[[ProcessEngine, Launcher], Awaitable[None]]


def placed(host: Path, *mounts: Mount, **rest: Any) -> Placement:
    spec = BoxSpec(name="one", agent="shell", workspace=f"{host}/work", mounts=mounts, **rest)
    return Placement(id=BoxId("one"), spec=spec, directory=f"{host}/boxes/one", index=7)


def made(host: Path) -> tuple[ProcessEngine, Launcher]:
    launcher = Launcher(f"{host}/log")
    return ProcessEngine(f"{host}/state", launcher, Bounds(cgroups.Cgroups(tag="test"))), launcher


def within(host: Path, act: Act) -> None:
    """With an engine; afterwards its launcher and its boxes must be gone."""

    async def run() -> None:
        one, launcher = made(host)
        try:
            await act(one, launcher)
            until(lambda: not (launcher.pid and children(launcher.pid)), "no box is left")
        finally:
            await launcher.close()

    asyncio.run(run())
