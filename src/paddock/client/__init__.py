"""The SDK: `Paddock` on blocking calls, `AsyncPaddock` on an event loop, from one source."""

from paddock.client._sync.core import Box, Command, Paddock
from paddock.client.answers import Change, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.client._async.core import AsyncBox, AsyncCommand, AsyncPaddock

__all__ = ["AsyncBox", "AsyncCommand", "AsyncPaddock", "Box", "Change", "Command", "Entry", "Paddock"]


def __getattr__(name: str) -> object:
    if name in {"AsyncBox", "AsyncCommand", "AsyncPaddock"}:  # asyncio is not loaded for those who do not use it
        from paddock.client._async import core

        return getattr(core, name)
    msg = f"module 'paddock.client' has no attribute {name!r}"
    raise AttributeError(msg)
