"""How a client's bytes move on an event loop; transport.py is its twin on blocking sockets."""

from __future__ import annotations

import asyncio
import socket

from paddock import frames, fs, paths
from paddock.client import answers, starter
from paddock.client.reply import ATTEMPTS, MAX_FDS, Frame, FrameQueue, Reply, lost, request
from paddock.limits import FRAME_DATA_BYTES
from paddock.readiness import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from paddock.frames import Message

    T = TypeVar("T")


async def in_thread(action: Callable[[], T]) -> T:
    """Wait for something that works with files."""
    return await asyncio.to_thread(action)


class AsyncChannel:
    """A connection to a box's init. What arrives is hostile until decoded."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.socket.setblocking(False)
        self._frames = FrameQueue()
        self._sender: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()  # two at once would mix their bytes

    def __repr__(self) -> str:
        return f"<AsyncChannel {self.socket.fileno()}>"

    async def send(self, kind: int, payload: bytes) -> None:
        await self._send_all(frames.encode(kind, payload))

    async def send_message(self, message: Message) -> None:
        await self._send_all(frames.encode_message(message))

    async def _send_all(self, data: bytes) -> None:
        try:
            async with self._sending:
                await asyncio.get_running_loop().sock_sendall(self.socket, data)
        except ConnectionError as error:
            raise answers.hung_up() from error

    async def receive(self) -> Frame | None:
        """The next frame, or None when the box hung up."""
        while (frame := self._frames.pop()) is None:
            try:
                data = await asyncio.get_running_loop().sock_recv(self.socket, FRAME_DATA_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames.feed(data)
        return frame

    async def receive_message(self) -> Message:
        """The next frame, which must be a message; init's refusals become errors."""
        return answers.message(await self.receive())

    async def queue(self, data: bytes) -> None:
        """Send this while receiving, so that neither side waits for the other."""
        self._sender = asyncio.get_running_loop().create_task(self._send_all(data), name="stdin")
        self._sender.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        self.socket.close()


class AsyncTransport:
    """One connection to the daemon, opened on first use and again after it was lost; one request at a time."""

    def __init__(self, where: paths.Paths) -> None:
        self._where = where
        self._socket: socket.socket | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<AsyncTransport {self._where.state}>"

    async def call(self, verb: str, args: Message) -> tuple[object, list[int]]:
        """Ask, and ask again as long as that cannot do the same thing twice."""
        async with self._lock:
            for _ in range(ATTEMPTS):
                reply = Reply(verb)
                try:
                    return await self._ask(reply, request(verb, args))
                except (OSError, EOFError) as error:
                    await self.close()
                    if not reply.may_ask_again(error):
                        raise lost() from error
                except BaseException:
                    reply.drop()
                    if not reply.whole:
                        await self.close()  # a late answer must not be taken for the next one's
                    raise
            raise lost()

    async def _ask(self, reply: Reply, data: bytes) -> tuple[object, list[int]]:
        if self._socket is None:
            self._socket = await asyncio.to_thread(starter.connect, self._where)
            self._socket.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except ConnectionError:
            reply.unread = True  # it hung up, perhaps after saying why
        while True:
            await readable(self._socket.fileno())
            data, fds = fs.receive_fds(self._socket, FRAME_DATA_BYTES, MAX_FDS)
            if reply.feed(data, fds):
                return reply.result, reply.fds

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
