"""Paddock: coding agents run free on your own machine, inside a fence."""

from paddock._version import VERSION as __version__

__all__ = ["AsyncPaddock", "Paddock", "__version__"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.client import AsyncPaddock, Paddock


def __getattr__(name: str) -> object:
    # The SDK is loaded on first use: the launcher and the CLI import this package and must stay light.
    if name in {"AsyncPaddock", "Paddock"}:
        from paddock import client

        return getattr(client, name)
    msg = f"module 'paddock' has no attribute {name!r}"
    raise AttributeError(msg)
