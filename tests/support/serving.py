"""A real server, runtime and store in this process, with boxes that are made but never started."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from paddock import frames, fs, paths
from paddock._version import VERSION
from paddock.daemon.server import Server
from paddock.engines.process import cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.model import BoxRequest, EngineName
from paddock.runtime import Runtime
from paddock.store import Store
from paddock.watch import HostSample, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path
    from typing import Self


@contextlib.asynccontextmanager
async def running(home: Path) -> AsyncIterator[Runtime]:
    """A runtime as the daemon makes it; its launcher starts when a box does."""
    where = paths.Paths({"PADDOCK_HOME": os.fspath(home)})
    for directory in (where.state, where.run, where.boxes, where.trash):
        fs.make_private_dir(directory)
    launcher = Launcher(where.daemon_log)
    engine = ProcessEngine(where.state, launcher, Bounds(cgroups.Cgroups(tag="test")))
    runtime = Runtime(
        where,
        Store(where.database),
        {EngineName.PROCESS: engine},
        "/nonexistent",
        lambda on_verdict: Watch((), _plenty, on_verdict),
    )
    try:
        yield runtime
        await runtime.reset()
    finally:
        await runtime.close()
        await launcher.close()


def within(home: Path, act: Callable[[Runtime], Awaitable[None]]) -> None:
    """Do something with a runtime, in an event loop of its own."""

    async def run() -> None:
        async with running(home) as runtime:
            await act(runtime)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def serving(home: Path) -> AsyncIterator[Runtime]:
    async with running(home) as runtime:
        listener = fs.bind_unix(runtime.paths.run, paths.SOCKET)
        listener.listen()
        server = Server(runtime, listener)
        task = asyncio.create_task(server.run())
        try:
            yield runtime
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await server.close()


class Peer:
    """A client of that server which may say anything."""

    def __init__(self, runtime: Runtime) -> None:
        self._socket = fs.connect_unix(runtime.paths.run, paths.SOCKET)
        self._socket.setblocking(False)
        self._decoder = frames.Decoder()
        self._messages: list[frames.Message] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # what it said last is still to be read
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive(self) -> frames.Message | None:
        """The next message, or None when the server hung up."""
        while not self._messages:
            try:
                receiving = asyncio.get_running_loop().sock_recv(self._socket, 65536)
                data = await asyncio.wait_for(receiving, 20)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._messages += [frames.decode_message(payload) for _, payload in self._decoder.feed(data)]
        return self._messages.pop(0)

    async def ask(self, verb: object, args: object = None, version: object = VERSION) -> frames.Message:
        message = {"version": version, "verb": verb, "args": {} if args is None else args}
        await self.send(frames.encode_message(message))
        answer = await self.receive()
        assert answer is not None, "the server hung up"
        return answer


def error(answer: frames.Message) -> tuple[object, object]:
    """The kind and the code of a refusal."""
    assert answer["ok"] is False, answer
    found = answer["error"]
    assert isinstance(found, dict)
    return found["kind"], found["code"]


def request(workspace: Path, **rest: object) -> BoxRequest:
    return BoxRequest(workspace=os.fspath(workspace), **rest)  # type: ignore[arg-type]


def _plenty() -> HostSample:
    return HostSample(mem_available=1 << 40, disk_free=1 << 40)
