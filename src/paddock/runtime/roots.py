"""Whom servers of inspected connections are verified by: the host's own roots, told to the gateway as they are now."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Protocol

from paddock.errors import PaddockError
from paddock.fs import notify
from paddock.gateway import trust
from paddock.runtime.policies import happened

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
_LOOK_EVERY_S = 5.0  # a file may be another one's mount, of which inotify does not speak


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

    async def watch(self, serving: Callable[[], Gateway | None]) -> None:
        """Tell the gateway that serves of every change; for ever. What cannot be read leaves it with those before."""
        watched = notify.Files(trust.HOST_BUNDLES)
        while True:
            await happened(watched, _LOOK_EVERY_S)
            watched.changed()
            async with self._telling:
                gateway = serving()
                if gateway is None or gateway is not self._told:
                    continue
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
