"""The ssh-agents of boxes: sockets of our own, of which each leads to chosen keys of the user's agent.

A box sees a directory with the socket in it, so that the next daemon can put another in its place. The user's own
socket is never shown to a box; it is connected to by us, once for each connection of the box.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from typing import TYPE_CHECKING, Final, Self

from paddock import fs
from paddock.errors import PaddockError
from paddock.limits import AGENT_ANSWER_S, AGENT_CONNECTIONS_MAX, AGENT_MESSAGE_BYTES, KNOWN_HOSTS_BYTES
from paddock.model import Mount
from paddock.sshagent import knownhosts, wire
from paddock.sshagent.session import Passed, Session

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from paddock.model import BoxSpec, SshUse
    from paddock.runtime.box import Box

    Later = Callable[[Coroutine[None, None, None], str], None]

log = logging.getLogger(__name__)
PLACE: Final = "/run/ssh"  # in a box; its ssh looks for known hosts there
_DIRECTORY, _SOCKET, _KNOWN = "ssh", "agent", "known_hosts"
_FILES: Final = (".ssh/known_hosts", ".ssh/known_hosts2")
_FOR_ALL: Final = 0o666  # the box's user is another one; on the host the directory above is ours alone
_SYSTEM: Final = "/etc/ssh/ssh_known_hosts"


def environment(spec: BoxSpec) -> dict[str, str]:
    return {"SSH_AUTH_SOCK": f"{PLACE}/{_SOCKET}"} if spec.ssh_keys else {}


def prepare(spec: BoxSpec, directory: str) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
    """What a box is shown of this, and what its user should know. Reads and writes files."""
    if not spec.ssh_keys:
        return (), ()
    place = f"{directory}/{_DIRECTORY}"
    os.makedirs(place, mode=0o755, exist_ok=True)
    texts, lines, notes = _texts(_paths(spec)), [], []
    for host, port in dict.fromkeys((use.host, use.port) for use in spec.ssh_keys):
        found = knownhosts.keys_of(texts, host, port)
        lines.append(knownhosts.written(host, port, found))
        if not found:
            name = knownhosts.name_of(host, port)
            notes.append(
                f"your known_hosts has no key of {name}: the box cannot log in there; `ssh {host}` once yourself"
            )
    fs.write_atomic(f"{place}/{_KNOWN}", "".join(lines).encode(), sync=False)
    os.chmod(f"{place}/{_KNOWN}", 0o644)
    return (Mount(source=place, target=PLACE, read_only=True),), tuple(notes)


def _texts(paths: tuple[str, ...]) -> list[str]:
    """# TRUST: files of the user and of the system; their lines are read as keys, or not at all."""
    texts = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                texts.append(file.read(KNOWN_HOSTS_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue
    return texts


def _paths(spec: BoxSpec) -> tuple[str, ...]:
    return (*(f"{spec.caller_home}/{name}" for name in _FILES), _SYSTEM)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def host_keys(spec: BoxSpec) -> dict[str, frozenset[bytes]]:
    """Of each chosen key, by its fingerprint, the keys of the hosts it may be used for; as known_hosts has them now.

    Files that did not change are not read again: a box connects as often as it likes.
    """
    paths = _paths(spec)
    return _host_keys(spec.ssh_keys, paths, tuple(map(_stamp, paths)))


@functools.lru_cache(maxsize=64)
def _host_keys(
    uses: tuple[SshUse, ...], paths: tuple[str, ...], stamps: tuple[tuple[int, ...], ...]
) -> dict[str, frozenset[bytes]]:
    del stamps  # they tell a change
    texts = _texts(paths)
    found: dict[str, frozenset[bytes]] = {}
    for use in uses:
        found[use.key] = found.get(use.key, frozenset()) | knownhosts.keys_of(texts, use.host, use.port)
    return found


class Agents:
    def __init__(self, later: Later) -> None:
        self._later = later
        self._listeners: dict[str, socket.socket] = {}
        self._connections: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Agents {len(self._listeners)} boxes, {sum(self._connections.values())} connections>"

    def open(self, box: Box) -> None:
        """Listen for a box that was given keys, if nobody does yet."""
        if not box.row.spec.ssh_keys or box.row.id in self._listeners:
            return
        place = f"{box.directory}/{_DIRECTORY}"
        try:
            listener = fs.bind_unix(place, _SOCKET)
            os.chmod(f"{place}/{_SOCKET}", _FOR_ALL)
        except (OSError, PaddockError) as error:
            log.warning("%s has no ssh-agent: %s", box.name, error)
            return
        listener.setblocking(False)
        listener.listen()
        self._listeners[box.row.id] = listener
        asyncio.get_running_loop().add_reader(listener, self._accept, box, listener)

    def close(self, box_id: str) -> None:
        listener = self._listeners.pop(box_id, None)
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()

    def let_go(self) -> None:
        for box_id in list(self._listeners):
            self.close(box_id)

    def _accept(self, box: Box, listener: socket.socket) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        if self._connections.get(box.row.id, 0) >= AGENT_CONNECTIONS_MAX:
            peer.close()
            return
        self._later(self._serve(box, peer), f"ssh-agent of {box.name}")

    async def _serve(self, box: Box, peer: socket.socket) -> None:
        key = box.row.id
        self._connections[key] = self._connections.get(key, 0) + 1
        try:
            table = await asyncio.to_thread(host_keys, box.row.spec)
            async with _Stream(peer) as stream:
                await _converse(box, stream, table)
        except (OSError, EOFError, PaddockError) as error:
            log.info("the ssh-agent of %s hung up: %s", box.name, error)
        finally:
            peer.close()
            self._connections[key] -= 1
            if not self._connections[key]:
                del self._connections[key]


async def _converse(box: Box, stream: _Stream, table: dict[str, frozenset[bytes]]) -> None:
    session = Session(lambda key: table.get(key, frozenset()))
    known = frozenset().union(*table.values())
    async with _Upstream(box.row.spec.ssh_socket) as upstream:
        while payload := await stream.message():
            asked = session.request(payload, known.__contains__)
            if isinstance(asked, Passed):
                asked = await _passed(session, asked, upstream)
            if session.refusal:
                log.info("the ssh-agent of %s refused %s", box.name, session.refusal)
            await stream.send(asked)


async def _passed(session: Session, asked: Passed, upstream: _Upstream) -> bytes:
    try:
        async with asyncio.timeout(AGENT_ANSWER_S):
            return session.answer(asked.payload, await upstream.ask(asked.payload))
    except (OSError, EOFError, TimeoutError, PaddockError) as error:
        log.info("the user's ssh-agent does not answer: %s", error)
        return asked.fallback


class _Stream:
    """Whole messages, of a length that is bounded."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._sock)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def message(self) -> bytes:
        """Empty when the other end is done."""
        head = await self._reader.read(1)
        if not head:
            return b""
        size = int.from_bytes(head + await self._reader.readexactly(3), "big")
        if not 0 < size <= AGENT_MESSAGE_BYTES:
            raise wire.Malformed
        return await self._reader.readexactly(size)

    async def send(self, payload: bytes) -> None:
        self._writer.write(wire.framed(payload))
        await self._writer.drain()


class _Upstream:
    """The user's agent, connected to when there is something to ask."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: _Stream | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.__aexit__()

    async def ask(self, payload: bytes) -> bytes:
        try:
            return await self._answer(payload)
        except BaseException:
            await self.__aexit__()  # its answer may still come, and is not the answer to the next question
            raise

    async def _answer(self, payload: bytes) -> bytes:
        if self._stream is None:
            place, name = os.path.split(self._path)
            sock = await asyncio.to_thread(fs.connect_unix, place, name)
            self._stream = await _Stream(sock).__aenter__()
        await self._stream.send(payload)
        answer = await self._stream.message()
        if not answer:
            raise EOFError("it hung up")
        return answer
