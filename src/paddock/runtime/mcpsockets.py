"""The MCP servers of a box, as sockets of ours in it: each connection starts its server's command in a box of its own.

Theory. A server and an agent share nothing but the bytes they say to each other. Those are moved here and not looked
into: from the agent's socket to the frames of the server's standard input, from the frames of its output to the socket.
Descriptors cannot pass, since no message of a socket reaches the other. A server's box lives as long as its connection:
it ends when the agent's side or the daemon goes.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import os
from typing import TYPE_CHECKING, Final

from paddock import frames, fs
from paddock.engines.process.connector import PLACE
from paddock.errors import PaddockError
from paddock.limits import MCP_BURST_S, MCP_CONNECTIONS_MAX
from paddock.model import Mount
from paddock.text import neutralise

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine

    from paddock.model import BoxSpec, McpServer
    from paddock.runtime.box import Box

    Later = Callable[[Coroutine[None, None, None], str], None]
    Start = Callable[[Box, McpServer], Awaitable[socket.socket]]

log = logging.getLogger(__name__)
_DIRECTORY: Final = "mcp"
_FOR_ALL: Final = 0o666  # the box's user is another one; on the host the directory above is ours alone
_READ_BYTES: Final = 64 * 1024
_SAID_BYTES: Final = 256  # of what a server wrote to its standard error last
_GOOD: Final = "exit code 0"
_NOTES_MAX: Final = 16
_NOTE_CHARS: Final = 400
_REST_S: Final = 0.1  # after a connection too many
_LAST_ANSWER_S: Final = 60.0  # for a server to end, once its standard input has


def commands(spec: BoxSpec) -> tuple[McpServer, ...]:
    return tuple(server for server in spec.mcp if server.command)


def prepare(spec: BoxSpec, directory: str) -> tuple[Mount, ...]:
    """Where a box finds its sockets."""
    if not commands(spec):
        return ()
    place = f"{directory}/{_DIRECTORY}"
    os.makedirs(place, mode=0o755, exist_ok=True)
    return (Mount(source=place, target=PLACE, read_only=True),)


class Sockets:
    def __init__(self, later: Later, start: Start) -> None:
        self._later = later
        self._start = start
        self._listeners: dict[str, list[socket.socket]] = {}
        self._serving: dict[str, set[asyncio.Task[None]]] = {}
        self._paces: dict[str, _Pace] = {}

    def __repr__(self) -> str:
        return f"<Sockets {len(self._listeners)} boxes, {sum(map(len, self._serving.values()))} connections>"

    def open(self, box: Box) -> None:
        """Listen for a box that has servers, if nobody does yet."""
        servers = commands(box.row.spec)
        if not servers or box.row.id in self._listeners:
            return
        listeners = self._listeners[box.row.id] = []
        place = f"{box.directory}/{_DIRECTORY}"
        for server in servers:
            try:
                listener = fs.bind_unix(place, server.name)
                os.chmod(f"{place}/{server.name}", _FOR_ALL)
            except (OSError, PaddockError) as error:
                log.warning("%s has no MCP server %s: %s", box.name, server.name, error)
                continue
            listener.setblocking(False)
            listener.listen()
            listeners.append(listener)
            asyncio.get_running_loop().add_reader(listener, self._accept, box, server, listener)

    def close(self, box_id: str) -> None:
        for listener in self._listeners.pop(box_id, []):
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        for task in self._serving.pop(box_id, set()):
            task.cancel()
        self._paces.pop(box_id, None)

    def let_go(self) -> None:
        for box_id in list(self._listeners):
            self.close(box_id)

    def _accept(self, box: Box, server: McpServer, listener: socket.socket) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        peer.setblocking(False)
        if len(self._serving.get(box.row.id, ())) >= MCP_CONNECTIONS_MAX:
            log.info("%s has %d connections to MCP servers: refused one more", box.name, MCP_CONNECTIONS_MAX)
            peer.close()
            self._rest(box, server, listener)
            return
        self._later(self._serve(box, server, peer), f"MCP server {server.name} of {box.name}")

    def _rest(self, box: Box, server: McpServer, listener: socket.socket) -> None:
        """Who is refused and connects again at once, in a loop, waits in the kernel, and not at our cost."""
        loop = asyncio.get_running_loop()

        def again() -> None:
            if listener in self._listeners.get(box.row.id, ()):
                loop.add_reader(listener, self._accept, box, server, listener)

        loop.remove_reader(listener)
        loop.call_later(_REST_S, again)

    async def _serve(self, box: Box, server: McpServer, peer: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving = self._serving.setdefault(box.row.id, set())
        serving.add(task)
        try:
            await self._paces.setdefault(box.row.id, _Pace()).turn()
            with peer, await self._start(box, server) as channel:
                failure = await _splice(peer, channel)
            if failure:
                _tell(box, server, failure)
        except (OSError, PaddockError) as error:
            _tell(box, server, str(error))
        finally:
            peer.close()
            serving.discard(task)


class _Pace:
    """The starts of one box: one waits for the other, and many at once for some time to pass."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._starts: collections.deque[float] = collections.deque(maxlen=MCP_CONNECTIONS_MAX)

    async def turn(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._lock:
            if len(self._starts) == self._starts.maxlen:
                await asyncio.sleep(max(0.0, self._starts[0] + MCP_BURST_S - loop.time()))
            self._starts.append(loop.time())


def _tell(box: Box, server: McpServer, why: str) -> None:
    """An agent sees that its server hung up; its user is told why, as the server says it."""
    note = f"the MCP server {server.name} failed: {neutralise(why, _NOTE_CHARS)}"
    log.warning("%s: %s", box.name, note)
    if note not in box.notes and len(box.notes) < _NOTES_MAX:
        box.notes.append(note)


async def _splice(peer: socket.socket, channel: socket.socket) -> str:
    """To the end of the server; how it failed, if it did."""
    channel.setblocking(False)
    up = asyncio.ensure_future(_up(peer, channel))
    down = asyncio.ensure_future(_down(peer, channel))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        if not down.done():
            await asyncio.wait((down,), timeout=0 if up.result() else _LAST_ANSWER_S)
        return down.result() if down.done() else ""
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _up(peer: socket.socket, channel: socket.socket) -> bool:
    """What the agent says. Whether it is gone, and not only done with speaking."""
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(peer, _READ_BYTES):
            await loop.sock_sendall(channel, frames.encode(frames.STDIN, data))
        await loop.sock_sendall(channel, frames.encode(frames.STDIN, b""))
    except OSError:
        return True
    return False


async def _down(peer: socket.socket, channel: socket.socket) -> str:
    """What the server says, to the agent.

    # TRUST: bytes of a box; the frames around them are ours to check, and what is in them goes to another box alone.
    """
    loop = asyncio.get_running_loop()
    decoder = frames.Decoder()
    said = b""
    while data := await loop.sock_recv(channel, _READ_BYTES):
        for kind, payload in decoder.feed(data):
            if kind == frames.STDOUT:
                await loop.sock_sendall(peer, payload)
            elif kind == frames.STDERR:
                said = (said + payload)[-_SAID_BYTES:]
            elif kind == frames.MESSAGE and (end := _end(frames.decode_message(payload))):
                return "" if end == _GOOD else f"{end} {said.decode('utf-8', 'replace')}"
        await asyncio.sleep(0)  # a flood must not keep the daemon from everything else
    return f"its box ended {said.decode('utf-8', 'replace')}"


def _end(message: frames.Message) -> str:
    match message.get("event"):
        case "started":
            return ""
        case "exit":
            return f"exit code {message.get('code')}"
        case _:
            return str(message.get("message"))
