"""The daemon's verbs about builds: each answers with a channel on which the build is told (docs/frames.md)."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.daemon.answer import Answer
from paddock.model.build import BuildRequest
from paddock.runtime import building

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    request: BuildRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    name: str


async def _build(runtime: Runtime, args: Build) -> Answer:
    return _begun(runtime, args.request)


async def _ready(runtime: Runtime, args: Ready) -> Answer:
    """Whether a template is there as far as we have a part in it; with a channel if it is being built now."""
    order = await building.wanted(runtime, args.name)
    return Answer(result={"ready": True}) if order is None else _begun(runtime, order)


def _begun(runtime: Runtime, request: BuildRequest) -> Answer:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    runtime.background.later(building.serve(runtime, request, ours), f"build {request.name[:80]}")
    return Answer(result={"ready": False}, fds=(theirs.detach(),))


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "template_build": (Build, _build),
    "template_ready": (Ready, _ready),
}
