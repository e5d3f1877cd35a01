"""Who is there to be asked: terminals that hear of connections that wait, and for whose sake they wait at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from paddock import codec, frames
from paddock.errors import PaddockError
from paddock.readiness import within

if TYPE_CHECKING:
    import socket

    from paddock.gateway.control import PendingAsk
    from paddock.runtime.box import Box
    from paddock.runtime.supervisor import Supervisor

_POLL_S = 0.1
_ARRIVAL_S = 5.0


class Attendance:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._counts: Counter[str] = Counter()  # terminals, per box

    def __repr__(self) -> str:
        return f"<Attendance at {len(self._counts)} boxes>"

    def someone(self, box_id: str) -> bool:
        return self._counts[box_id] > 0

    def arriving(self, box: Box) -> None:
        """A command with a terminal begins: whoever sits there comes to be asked in a moment."""
        self._counts[box.row.id] += 1

    async def await_arrival(self, box: Box) -> None:
        """What `arriving` began ends by itself: who came is counted by then, and who did not come is not awaited."""
        await self._tell_attended(box)
        await asyncio.sleep(_ARRIVAL_S)
        await self._leave(box)

    async def _leave(self, box: Box) -> None:
        self._counts[box.row.id] -= 1
        if self._counts[box.row.id] <= 0:
            del self._counts[box.row.id]
            await self._tell_attended(box)

    async def attend(self, box: Box, terminal: socket.socket) -> None:
        """Tell a terminal what waits for an answer, until it is closed; while it is open connections are held."""
        terminal.setblocking(False)
        self._counts[box.row.id] += 1
        try:
            with terminal:
                await self._tell_attended(box)
                await self._tell(box, terminal)
        except OSError:
            pass  # the terminal is gone
        finally:
            await self._leave(box)

    async def _tell_attended(self, box: Box) -> None:
        gateway = self._supervisor.gateway
        if gateway is None or box.handle is None:
            return
        with contextlib.suppress(PaddockError):
            await gateway.set_attended(box.row.id, attended=self.someone(box.row.id))

    async def _tell(self, box: Box, terminal: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        told: set[str] = set()
        closed = asyncio.Event()
        loop.add_reader(terminal.fileno(), closed.set)  # it never says anything: readable means gone
        try:
            while not closed.is_set():
                asks = await self._asks(box)
                for ask in asks:
                    if ask.ask not in told and ask.held:
                        await loop.sock_sendall(terminal, frames.encode_message({"ask": codec.to_wire(ask)}))
                gone = told - {ask.ask for ask in asks if ask.held}
                for name in gone:
                    await loop.sock_sendall(terminal, frames.encode_message({"settled": name}))
                told = {ask.ask for ask in asks if ask.held}
                with contextlib.suppress(TimeoutError):
                    await within(closed.wait(), _POLL_S)
        finally:
            loop.remove_reader(terminal.fileno())

    async def _asks(self, box: Box) -> list[PendingAsk]:
        gateway = self._supervisor.gateway
        try:
            return [ask for ask in await gateway.pending() if ask.box == box.row.id] if gateway else []
        except PaddockError:
            return []
