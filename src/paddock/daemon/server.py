"""Serves the control socket: checks who is there, decodes requests, sends answers and descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import struct
from typing import TYPE_CHECKING

from paddock import frames, limits
from paddock._version import VERSION
from paddock.daemon import api
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.readiness import readable, within

if TYPE_CHECKING:
    from paddock.daemon.answer import Answer
    from paddock.frames import Message
    from paddock.runtime import Runtime

log = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 30.0
_ITEMS_PER_MESSAGE = 200
_ITEMS_BYTES = limits.FRAME_MESSAGE_BYTES - 1024
_RETRY_S = 0.1


class Server:
    def __init__(self, runtime: Runtime, listener: socket.socket) -> None:
        self._runtime = runtime
        self._listener = listener
        self._clients: set[asyncio.Task[None]] = set()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def __repr__(self) -> str:
        return f"<Server {len(self._clients)} clients>"

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            # Not sock_accept: without descriptors accept fails even if nobody waits.
            await readable(self._listener.fileno())
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                await self._turn_away(error)
                continue
            sock.setblocking(False)
            if len(self._clients) >= limits.CONNECTIONS_MAX or not _is_same_user(sock):
                sock.close()
                continue
            task = loop.create_task(self._client(sock), name="client")
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _turn_away(self, error: OSError) -> None:
        """No descriptor is left for a client: the spare one serves to tell it so."""
        log.warning("cannot take a client: %s", error)
        self._let_go()
        try:
            sock, _ = self._listener.accept()
            with sock:
                sock.setblocking(False)
                await _send(sock, {"ok": False, "error": broken(error).to_wire()}, ())
        except OSError:
            pass  # the client waits in the queue
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            await asyncio.sleep(_RETRY_S)

    def _let_go(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    async def close(self) -> None:
        self._listener.close()
        self._let_go()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _client(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):  # a client may leave at any moment
            try:
                await self._answer_all(sock)
            except PaddockError as error:  # bytes that are no frames: say so once, then hang up
                await _refuse(sock, error)

    async def _answer_all(self, sock: socket.socket) -> None:
        decoder = frames.Decoder()
        while data := await asyncio.get_running_loop().sock_recv(sock, limits.FRAME_DATA_BYTES):
            for kind, payload in decoder.feed(data):
                if kind != frames.MESSAGE:
                    return
                await self._answer(sock, payload)

    async def _answer(self, sock: socket.socket, payload: bytes) -> None:
        try:
            answer = await self._attended(sock, frames.decode_message(payload))
        except PaddockError as error:
            await _refuse(sock, error)
        except OSError as error:
            log.exception("request failed")
            await _refuse(sock, broken(error))
        except Exception as error:
            log.exception("request failed")
            bug = Unavailable(
                f"the daemon failed: {type(error).__name__}: {error}",
                hint=f"please report it; {self._runtime.paths.daemon_log} has the details",
                code="bug",
            )
            await _refuse(sock, bug)
        else:
            try:
                await self._reply(sock, answer)
            except PaddockError as error:  # an answer that fits no message
                await _refuse(sock, error)
            finally:
                for fd in answer.fds:
                    os.close(fd)

    async def _attended(self, sock: socket.socket, message: Message) -> Answer:
        """A client that leaves takes with it what only it wanted, and what may take an hour."""
        if str(message.get("verb")) not in api.LONG:
            return await self._call(message)
        loop = asyncio.get_running_loop()
        call = loop.create_task(self._call(message), name=f"call {message.get('verb')}")
        gone = loop.create_task(_gone(sock), name="who called")
        try:
            await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not call.done():
                call.cancel()
            await asyncio.wait({call, gone})
        if call.cancelled():
            raise Unavailable("nobody waits for it any more", code="interrupted")
        return call.result()

    async def _call(self, message: Message) -> Answer:
        if message.get("version") != VERSION:
            raise UserError(
                f"this is paddock {message.get('version')!s:.20}, the daemon is {VERSION}",
                hint="`paddock daemon stop` ends the old one; boxes keep running",
                code="version",
            )
        return await api.call(self._runtime, str(message.get("verb")), message.get("args", {}))

    async def _reply(self, sock: socket.socket, answer: Answer) -> None:
        if answer.items is None:
            await _send(sock, {"ok": True, "result": answer.result}, answer.fds)
            return
        *firsts, last = _parts(answer.items)
        for part in firsts:
            await _send(sock, {"ok": True, "more": True, "result": part}, ())
        await _send(sock, {"ok": True, "result": last}, answer.fds)


async def _gone(sock: socket.socket) -> None:
    """Returns when the client has hung up; what else it may say meanwhile is read when it is answered."""
    while True:
        await readable(sock.fileno())
        try:
            if not sock.recv(1, socket.MSG_PEEK):
                return
        except BlockingIOError:
            continue
        except OSError:
            return
        await asyncio.get_running_loop().create_future()


def _parts(items: tuple[object, ...]) -> list[list[object]]:
    """Lists that each fit a message, at least one."""
    parts: list[list[object]] = [[]]
    room = _ITEMS_BYTES
    for item in items:
        size = len(frames.encode_message({"item": item}))
        if parts[-1] and (size > room or len(parts[-1]) == _ITEMS_PER_MESSAGE):
            parts.append([])
            room = _ITEMS_BYTES
        parts[-1].append(item)
        room -= size
    return parts


async def _refuse(sock: socket.socket, error: PaddockError) -> None:
    await _send(sock, {"ok": False, "error": error.to_wire()}, ())


async def _send(sock: socket.socket, message: Message, fds: tuple[int, ...]) -> None:
    data = frames.encode_message(message)
    sent = 0
    if fds:
        sent = socket.send_fds(sock, [data], list(fds))
    if sent < len(data):
        await within(asyncio.get_running_loop().sock_sendall(sock, data[sent:]), _SEND_TIMEOUT_S)


def broken(error: OSError) -> Unavailable:
    """What the kernel refused the daemon, as the error a caller gets."""
    hints = {
        errno.ENOSPC: "free some disk space; nothing acknowledged was lost",
        errno.EDQUOT: "free some of your disk quota; nothing acknowledged was lost",
        errno.EROFS: "make the state directory writable",
        errno.EMFILE: "stop some boxes, or raise the limit of open files (`ulimit -Hn`)",
        errno.ENFILE: "the machine has too many open files",
        errno.EAGAIN: "stop some boxes: your account or the machine has no room for another process (`ulimit -u`)",
        errno.ENOMEM: "free some memory",
    }
    place = f" ({error.filename})" if error.filename else ""
    hint = hints.get(error.errno or 0, "run `paddock doctor`")
    return Unavailable(f"the daemon failed: {error.strerror or error}{place}", hint=hint, code="os")


def _is_same_user(sock: socket.socket) -> bool:
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    pid, uid, _ = struct.unpack("iII", credentials)
    return bool(uid == os.getuid()) and _is_outside(pid)


def _is_outside(pid: int) -> bool:
    """A box has its caller's uid but a user namespace of its own: should it ever reach our socket, it gets nothing."""
    try:
        return os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user")
    except OSError:
        return False
