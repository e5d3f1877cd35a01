"""A container engine of the test's own, and a place for its box."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from paddock import frames
from paddock.engines.base import Placement
from paddock.engines.container.engine import ContainerEngine
from paddock.engines.process import cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.warm import Launcher
from paddock.model import BoxId, BoxSpec, EngineName
from tests.support.installation import children, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Act = Callable[[ContainerEngine], Awaitable[None]]


def placed(host: Path, root: Path, **rest: Any) -> Placement:
    for name in ("work", "boxes/one", "state"):
        os.makedirs(f"{host}/{name}", exist_ok=True)
    spec = BoxSpec(
        name="one",
        agent="shell",
        engine=EngineName.CONTAINER,
        workspace=f"{host}/work",
        layers=(str(root),),
        caller_home="/nonexistent",
        **rest,
    )
    return Placement(id=BoxId("one"), spec=spec, directory=f"{host}/boxes/one", index=7)


def within(host: Path, act: Act) -> None:
    """With an engine; afterwards its launcher and its boxes must be gone."""

    async def run() -> None:
        launcher = Launcher(f"{host}/log")
        engine = ContainerEngine(f"{host}/state", launcher, Bounds(cgroups.Cgroups(tag="test")))
        try:
            await act(engine)
            until(lambda: not (launcher.pid and children(launcher.pid)), "no box is left")
        finally:
            await launcher.close()

    asyncio.run(run())


def run(engine: ContainerEngine, placement: Placement, *argv: str, user: str | None = None) -> tuple[int, str]:
    """A command's exit code and what it printed; or -1 and what init said against it."""
    request: dict[str, object] = {
        "op": "start",
        "id": os.urandom(4).hex(),
        "argv": list(argv),
        "env": engine.environment(placement),
        "cwd": placement.spec.workspace,
        "user": placement.spec.image.user if user is None else user,
        "login": user is not None,
    }
    out = b""
    with engine.connect(placement) as channel:
        channel.settimeout(20)
        channel.sendall(frames.encode_message(request))
        decoder = frames.Decoder()
        while data := channel.recv(65536):
            for kind, payload in decoder.feed(data):
                if kind != frames.MESSAGE:
                    out += payload
                    continue
                said = frames.decode_message(payload)
                if said.get("event") == "exit":
                    return int(str(said["code"])), out.decode()
                if said.get("event") == "error":
                    assert user is not None, said
                    return -1, str(said["message"])
    raise AssertionError(out)
