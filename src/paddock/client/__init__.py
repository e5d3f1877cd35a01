"""The SDK: `Paddock` on blocking calls, `AsyncPaddock` on an event loop, from one source."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.client._async.box import AsyncBox
    from paddock.client._async.command import AsyncCommand
    from paddock.client._async.core import AsyncPaddock
    from paddock.client._sync.box import Box
    from paddock.client._sync.command import Command
    from paddock.client._sync.core import Paddock
    from paddock.client.answers import Change, Entry
    from paddock.reports import RunInfo

__all__ = ["AsyncBox", "AsyncCommand", "AsyncPaddock", "Box", "Change", "Command", "Entry", "Paddock", "RunInfo"]


def __getattr__(name: str) -> object:
    # Each part is loaded by those who use it: asyncio costs 50 ms, and the typed SDK 20 that `paddock exec` saves.
    if name in {"Box", "Command", "Paddock"}:
        from paddock.client._sync import core as blocking

        return getattr(blocking, name)
    if name in {"AsyncBox", "AsyncCommand", "AsyncPaddock"}:
        from paddock.client._async import core as awaiting

        return getattr(awaiting, name)
    if name in {"Change", "Entry"}:
        from paddock.client import answers

        return getattr(answers, name)
    if name == "RunInfo":
        from paddock.reports import RunInfo

        return RunInfo
    msg = f"module 'paddock.client' has no attribute {name!r}"
    raise AttributeError(msg)
