"""Whom servers of inspected connections are verified by: the host's own roots, told to the gateway as they are now."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Protocol

from paddock.errors import PaddockError
from paddock.gateway import trust

log = logging.getLogger(__name__)


class Gateway(Protocol):
    async def set_roots(self, pem: bytes) -> None: ...


class Roots:
    """A gateway without them reaches no inspected server; one that nobody asks to inspect gets none."""

    def __init__(self) -> None:
        self._told: Gateway | None = None
        self._digest = b""  # of what it was told
        self._telling = asyncio.Lock()  # no older ones come after newer

    def __repr__(self) -> str:
        return f"<Roots {self._digest.hex()[:8] if self._told else 'untold'}>"

    async def tell(self, gateway: Gateway) -> None:
        """For a gateway that is to inspect; once for each."""
        async with self._telling:
            if self._told is not gateway:
                await self._tell(gateway)

    async def tell_again(self, gateway: Gateway) -> None:
        """Something may have changed. What cannot be read leaves it with those before."""
        async with self._telling:
            if gateway is not self._told:
                return
            try:
                await self._tell(gateway)
            except (OSError, PaddockError) as error:
                log.warning("the gateway was not told of the host's roots: %s", error)

    async def _tell(self, gateway: Gateway) -> None:
        path = trust.host_bundle_path()
        if path is None:
            return
        pem = await asyncio.to_thread(_content, path)
        digest = hashlib.sha256(pem).digest()
        if gateway is not self._told or digest != self._digest:
            await gateway.set_roots(pem)
            self._told, self._digest = gateway, digest


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
