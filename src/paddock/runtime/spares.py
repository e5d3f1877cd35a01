"""What a box's network needs on disk, made before it is needed: an authority, the files that trust it, empty logs.

Making it takes some 2 ms, most of it the file system's; moving it to where a box wants it takes a tenth of one. An
authority is never given to two boxes, nor to two starts of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import Unavailable
from paddock.gateway import audit

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)
DENIALS, AUTHORITY = "denials.jsonl", "authority.pem"
_KEPT = 4
_LATER_S = 0.05  # not while a box is being started
_NET, _LOGS = "net", ("log.0", "log.1")


class Spares:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._ready: list[str] = []
        self._filling: asyncio.Task[None] | None = None
        fs.remove_tree(directory)  # those of an earlier daemon: whose they became is not known
        fs.make_private_dir(directory)

    def __repr__(self) -> str:
        return f"<Spares {len(self._ready)} ready>"

    def take(self, net: str, logs: Sequence[str]) -> None:
        """Put a fresh one in place: `net` is the directory, and each of `logs` exists and keeps the lines it had."""
        spare = self._ready.pop() if self._ready else self._make()
        self._fill_later()
        if os.path.lexists(net):
            fs.remove_tree(net)
        os.rename(f"{spare}/{_NET}", net)
        for made, wanted in zip(_LOGS, logs, strict=True):
            if os.path.lexists(wanted):
                os.unlink(f"{spare}/{made}")
            else:
                os.rename(f"{spare}/{made}", wanted)
        os.rmdir(spare)

    async def fill(self) -> None:
        with contextlib.suppress(OSError, Unavailable):  # no room, say: whoever needs one then hears what is wrong
            while len(self._ready) < _KEPT:
                self._ready.append(await asyncio.to_thread(self._make))

    def _fill_later(self) -> None:
        if self._filling is None or self._filling.done():
            self._filling = asyncio.get_running_loop().create_task(self._fill_soon(), name="spares")

    async def _fill_soon(self) -> None:
        await asyncio.sleep(_LATER_S)
        await self.fill()

    async def close(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)

    def _make(self) -> str:
        name = secrets.token_hex(6)
        spare = f"{self._directory}/{name}"
        net = f"{spare}/{_NET}"
        for directory in (spare, net):
            os.mkdir(directory, 0o700)
        for path in _LOGS:
            os.close(audit.open_log(f"{spare}/{path}"))
        os.close(audit.open_log(f"{net}/{DENIALS}", 0o644))
        from paddock.gateway import certificates, trust  # ssl and OpenSSL: not while a daemon starts

        try:
            made = certificates.make_authority(name)
        except Unavailable as error:  # refusals inside TLS become alerts, nothing else changes
            log.warning("no certificates: %s", error)
        else:
            trust.install(net, made, host_bundle=trust.host_bundle_path(), java=os.path.exists(trust.JAVA_STORE))
        return spare
