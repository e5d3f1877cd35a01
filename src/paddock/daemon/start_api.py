"""The daemon's verb that starts an agent by one request; api.py has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer
from paddock.errors import PaddockError
from paddock.runtime import starts
from paddock.runtime.starts import Wanted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


async def start(runtime: Runtime, wanted: Wanted) -> Answer:
    """No result if the caller has to go step by step. An error comes with what is to be said before it."""
    plan = await starts.planned(runtime, wanted)
    if plan is None:
        return Answer()
    try:
        box, job, channel = await starts.begin(runtime, plan, wanted)
    except PaddockError as error:
        return Answer(result={"said": plan.said, "error": error.to_wire()})
    result = {
        "box": codec.to_wire(runtime.brief(box)),
        "job": job,
        "notes": box.told(),
        "said": plan.said,
        "run": not plan.agent.plain,
    }
    return Answer(result=result, fds=(channel.detach(),))


VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {"start": (Wanted, start)}
