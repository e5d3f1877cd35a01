"""The daemon's side of the launcher: keeps one warm and asks it for boxes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Literal

from paddock import fs, proc
from paddock.errors import Unavailable
from paddock.readiness import readable, within

if TYPE_CHECKING:
    from collections.abc import Sequence

READY_TIMEOUT_S = 10.0
REPLY_TIMEOUT_S = 10.0
_MESSAGE_BYTES = 64 * 1024
_CONTROL_FD = 3
DIED = "launcher-died"  # the code of the error when it ended before it answered: asking again starts another


class Launcher:
    """Started on first need and again whenever it died; one request at a time."""

    def __init__(self, log_path: str) -> None:
        self._log_path = log_path
        self._socket: socket.socket | None = None
        self._child: proc.Child | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Launcher {'warm' if self._socket else 'cold'}>"

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def warm_up(self) -> None:
        async with self._lock:
            await self._ensure()

    async def clone(self, uid_map: str, gid_map: str, plan: int, *listeners: int) -> int:
        """Returns the pid of a new process that waits for its plan on `plan`; one with two listeners is a keeper."""
        request = {"op": "box", "uid_map": uid_map, "gid_map": gid_map}
        reply, _ = await self._ask(request, [plan, *listeners])
        pid = reply.get("pid")
        if not isinstance(pid, int):
            raise _broken("it sent no pid")
        return pid

    async def id_map(self, uid_map: str, gid_map: str) -> int:
        """Returns a user namespace descriptor that carries these maps."""
        _, fds = await self._ask({"op": "idmap", "uid_map": uid_map, "gid_map": gid_map}, [])
        if len(fds) != 1:
            raise _broken("it sent no namespace")
        return fds[0]

    async def help(self, op: Literal["cover", "trees"], channel: int) -> None:
        """Start a process that reads on `channel` what it is to do for a box that runs; see covering.py."""
        await self._ask({"op": op}, [channel])

    async def close(self) -> None:
        async with self._lock:
            self._drop()

    async def _ask(self, request: dict[str, str], fds: Sequence[int]) -> tuple[dict[str, object], list[int]]:
        async with self._lock:
            sock = await self._ensure()
            try:
                socket.send_fds(sock, [json.dumps(request).encode()], list(fds))
                reply, passed = await within(_receive(sock), REPLY_TIMEOUT_S)
            except (OSError, TimeoutError, ValueError) as error:
                self._drop()
                code = DIED if isinstance(error, ConnectionError) else "launcher"
                raise _broken(str(error) or "no answer", code) from error
            except BaseException:
                self._drop()  # a late answer must not be taken for the next one's
                raise
        if "error" in reply:
            raise _refused(str(reply["error"]), reply.get("errno"))
        return reply, passed

    async def _ensure(self) -> socket.socket:
        if self._child is not None and self._child.poll() is not None:
            self._drop()  # somebody killed it
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, open(self._log_path, "ab") as log:  # noqa: ASYNC230
                self._child = proc.spawn_child(
                    [sys.executable, "-I", "-S", "-c", _BOOT, package_root(), str(_CONTROL_FD)],
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                    pass_fds={_CONTROL_FD: theirs.fileno(), 1: log.fileno(), 2: log.fileno()},
                )
            ours.setblocking(False)
            await within(_receive(ours), READY_TIMEOUT_S)
        except BaseException as error:
            ours.close()
            self._drop()
            if isinstance(error, (OSError, TimeoutError, ValueError)):
                raise _broken(f"it did not start ({str(error) or 'no answer'}); {self._log_path} has more") from error
            raise
        self._socket = ours
        return ours

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()  # it ends when its socket does
            self._socket = None
        if self._child is not None:
            self._child.close()
            self._child = None


_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from paddock.engines.process.launcher import main; main()"


def package_root() -> str:
    """The directory that holds the `paddock` package, for interpreters we start with -I."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


async def _receive(sock: socket.socket) -> tuple[dict[str, object], list[int]]:
    await readable(sock.fileno())
    data, fds = fs.receive_fds(sock, _MESSAGE_BYTES, 4)
    if not data:
        msg = "it ended"
        raise ConnectionResetError(msg)
    return json.loads(data), fds


def _broken(detail: str, code: str = "launcher") -> Unavailable:
    return Unavailable(f"the launcher failed: {detail}", hint="run `paddock doctor`", code=code)


def _refused(detail: str, number: object) -> Unavailable:
    hint = "run `paddock doctor`: it says whether this machine allows user namespaces and how to enable them"
    if number in {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}:
        hint = "stop some boxes: your account or the machine has no room for another process (`ulimit -u`)"
    elif number in {errno.ENOSPC, errno.EUSERS}:
        hint = "stop some boxes, or raise the limits in /proc/sys/user/max_*_namespaces"
    return Unavailable(f"the kernel refused a new box: {detail}", hint=hint, code=f"clone-{number}")
