"""Keeps one gateway running: takes over the one an earlier daemon left, and starts another when it dies.

Who needs the gateway waits for `ready`. What has to be done with a new one (the host's facts, the boxes that run) is
done before it counts as ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
from typing import TYPE_CHECKING

from paddock._version import VERSION
from paddock.errors import PaddockError, Unavailable
from paddock.gateway import client
from paddock.limits import DAEMON_LOG_BYTES, GATEWAY_REPLY_S, GATEWAY_START_S
from paddock.paths import GATEWAY_SOCKET
from paddock.readiness import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.gateway.client import Gateway
    from paddock.gateway.control import Hello

    OnUp = Callable[[Gateway, Hello], Awaitable[None]]

log = logging.getLogger(__name__)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
_LASTED_S = 10.0  # a gateway that served this long died of something else than its start


class Supervisor:
    def __init__(self, run_directory: str, log_path: str, on_up: OnUp) -> None:
        self._run_directory = run_directory
        self._log_path = log_path
        self._on_up = on_up
        self._gateway: Gateway | None = None
        self._problem = "it is starting"
        self._changed = asyncio.Event()
        self._starting: asyncio.Task[Gateway] | None = None

    def __repr__(self) -> str:
        return f"<Supervisor of {self._gateway or 'no gateway'}>"

    @property
    def gateway(self) -> Gateway | None:
        """The one that serves now."""
        return self._gateway if self._gateway is not None and not self._gateway.ended else None

    @property
    def pid(self) -> int | None:
        return self.gateway.pid if self.gateway else None

    async def ready(self) -> Gateway:
        """The gateway, once it serves; Unavailable when there is none for so long that something is broken."""
        deadline = asyncio.get_running_loop().time() + GATEWAY_START_S
        while (found := self.gateway) is None:
            left_s = deadline - asyncio.get_running_loop().time()
            try:
                await within(self._changed.wait(), max(left_s, 0.001))
            except TimeoutError:
                hint = f"see {self._log_path}; boxes have no network meanwhile"
                raise Unavailable(f"the gateway does not run: {self._problem}", hint=hint, code="gateway") from None
        return found

    async def run(self) -> None:
        """For ever. Everything that goes wrong is tried again: without a gateway boxes are closed, not open."""
        wait_s = _FIRST_WAIT_S
        while True:
            began = asyncio.get_running_loop().time()
            try:
                gateway = await self._bring_up()
            except (PaddockError, OSError, ValueError) as error:
                self._problem = str(error)
                log.warning("the gateway did not come up: %s", error)
            else:
                await gateway.wait_ended()
                log.warning("the gateway ended")
                self._lose(gateway)
            lasted = asyncio.get_running_loop().time() - began > _LASTED_S
            wait_s = _FIRST_WAIT_S if lasted else min(wait_s * 2, _LONGEST_WAIT_S)
            await asyncio.sleep(0 if lasted else wait_s)

    async def _bring_up(self) -> Gateway:
        gateway = await self._adopt() or await self._start()
        try:
            await self._on_up(gateway, await gateway.hello())
        except BaseException:
            gateway.close()
            raise
        self._gateway = gateway
        self._changed.set()
        log.info("the gateway serves, pid %d", gateway.pid)
        return gateway

    async def _start(self) -> Gateway:
        _turn_log(self._log_path)
        # A daemon that ends while it starts a gateway still has to end that: see `end`.
        start = client.start(self._run_directory, GATEWAY_SOCKET, self._log_path)
        self._starting = asyncio.get_running_loop().create_task(start, name="start gateway")
        return await asyncio.shield(self._starting)

    async def _adopt(self) -> Gateway | None:
        """The one that runs, if it is of this version and answers; any other is ended."""
        try:
            gateway = await client.Gateway.connect(self._run_directory, GATEWAY_SOCKET)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        try:
            hello = await gateway.hello()
        except PaddockError as error:
            log.warning("the gateway that runs does not answer: %s", error)
        else:
            if hello.version == VERSION:
                return gateway
            log.info("the gateway that runs is of version %s; replacing it", hello.version)
            await gateway.end()
        _end(gateway.pid)
        gateway.close()
        return None

    def _lose(self, gateway: Gateway) -> None:
        gateway.close()
        if self._gateway is gateway:
            self._gateway = None
            self._problem = "it ended"
            self._changed.clear()

    async def end(self) -> None:
        """End the gateway, for a daemon that ends and leaves no box behind; `run` has been cancelled.

        It may be one that is only starting, or one that we have let go of in the middle of greeting it.
        """
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        gateway = self.gateway
        try:
            gateway = gateway or await client.Gateway.connect(self._run_directory, GATEWAY_SOCKET)
        except OSError:
            pass  # none runs
        else:
            await gateway.end()
            gateway.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._run_directory}/{GATEWAY_SOCKET}")  # it has no files, not even its own

    def close(self) -> None:
        """Let go of it; it goes on."""
        if self._gateway is not None:
            self._gateway.close()


def _turn_log(path: str) -> None:
    if os.path.exists(path) and os.path.getsize(path) > DAEMON_LOG_BYTES:
        os.replace(path, f"{path}.1")


def _end(pid: int) -> None:
    """The kernel named the process that listens on our private socket: it is ours to end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll(GATEWAY_REPLY_S * 1000)
        finally:
            os.close(pidfd)
