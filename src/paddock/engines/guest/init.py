"""init: the first process of every box. It starts commands, moves bytes, reaps children and serves files.

It runs *inside* the confinement, with nothing its children do not have, and the host never trusts what it says. It
trusts the host: requests come from a socket no process of the box can reach.

Theory. One thread, one epoll. A connection carries frames (docs/frames.md) and does one thing at a time: it is attached
to a command, or streams one file operation. Back-pressure is the socket's own: when a client does not read, its buffer
here fills, the command's pipe is no longer read, and the command blocks. A command that outlives its client (`keep`)
writes on into its journal, two files handed over by the host that take turns, so that a journal is bounded and always
holds the newest output.
"""

from __future__ import annotations

import os
import signal
import socket
import time

from paddock.engines.guest import accounts, files, spawn
from paddock.engines.guest.command import Command
from paddock.engines.guest.door import Door
from paddock.engines.guest.journal import Journal
from paddock.engines.guest.wire import READABLE, Connection, Loop, Refused, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paddock.engines.guest.door import Seal
    from paddock.engines.guest.wire import Request

    Verb = Callable[["Init", Connection, Request, list[int]], None]


CONNECTIONS_MAX = 512
FINISHED_KEPT = 64
SHUTDOWN_S_MAX = 3600.0
LIST_CHARS = 100_000  # of all commands' words in a list: even at six bytes each they fit a message


class Init:
    """All commands and connections of the box."""

    def __init__(
        self,
        listener: socket.socket,
        seal: Seal | None = None,
        handles: Sequence[int] = (),
        owner: tuple[int, int] | None = None,
    ) -> None:
        """`owner` is whose the files are that we make, where that is not ourselves."""
        self.owner = owner or (os.geteuid(), os.getegid())
        if owner:
            accounts.act_as(*owner)
        self.loop = Loop()
        self.connections: set[Connection] = set()
        self.processes: dict[int, Command] = {}
        self._ended: dict[str, Command] = {}
        self._listener = listener
        listener.setblocking(False)
        self.loop.want(listener.fileno(), READABLE, self._accept)
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._wakeup = read
        self.loop.want(read, READABLE, self._reap)
        self._handles = handles  # they mean something only to the owner of our user namespace, outside
        self._seal = seal
        self._door = Door(self.loop, seal, seal.door) if seal else None

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if len(self.connections) >= CONNECTIONS_MAX:
            sock.close()
            return
        self.connections.add(Connection(self, sock))

    def _reap(self, _events: int) -> None:
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = self.processes.get(pid)
            if process:
                process.reaped(status)

    def finished(self, process: Command) -> None:
        self.processes.pop(process.pid, None)
        self._ended[process.id] = process
        while len(self._ended) > FINISHED_KEPT:
            del self._ended[next(iter(self._ended))]
        self.maybe_exit(process)

    def resized(self, process: Command) -> None:
        """The kernel tells those in front of the terminal."""

    def typed(self, terminal: int) -> None:
        """Keys are about to come to a terminal; the kernel knows what they mean there."""

    def maybe_exit(self, process: Command) -> None:
        if process.main and not any(client.command is process for client in self.connections):
            os._exit(0)

    # -- requests ------------------------------------------------------------------------------------------------------

    def request(self, client: Connection, request: Request, fds: list[int]) -> None:
        if not isinstance(request, dict):
            raise ValueError  # noqa: TRY004
        if client.command:
            client.command.control(request)
            return
        if client.source or client.watch or client.sink is not None:
            raise Refused("busy", "this connection is still serving a request")
        word = str(request["op"])
        if word in self._VERBS:
            self._VERBS[word](self, client, request, fds)
        elif word in files.VERBS:
            files.VERBS[word](client, request)
        else:
            raise Refused("unknown", f"unknown request {word:.40}")

    def _start(self, client: Connection, request: Request, fds: list[int]) -> None:
        if any(process.id == str(request["id"]) for process in self.processes.values()):
            raise Refused("exists", "a command with this id is running")
        journal = None
        if request.get("journal_bytes") and len(fds) == 2:
            journal = Journal(fds[:], int(request["journal_bytes"]) // 2)
            fds.clear()
        try:
            process = Command(self, request, journal)
        except Refused as refused:
            if journal:
                journal.write(message({**refused.reply, "id": request["id"]}))
                journal.close()
            if request.get("main"):  # nothing else will ever run here
                client.send(message(refused.reply))
                os._exit(0)
            raise
        self.processes[process.pid] = process
        if journal:
            journal.write(message({"event": "started", "pid": process.pid, "id": process.id, "tty": bool(process.tty)}))
        if request.get("detached"):
            client.send(message({"event": "started", "pid": process.pid, "id": process.id, "tty": False}))
            process.update()
        else:
            process.attach(client)

    def _connect(self, client: Connection, request: Request, _fds: list[int]) -> None:
        process = self._find(request)
        if process.done:
            client.send(message({"event": "started", "pid": process.pid, "id": process.id, "tty": bool(process.tty)}))
            client.send(message(process.result()))
            return
        process.attach(client, again=True)

    def _find(self, request: Request) -> Command:
        for process in [*self.processes.values(), *self._ended.values()]:
            if process.id == request.get("id") or process.pid == request.get("pid"):
                return process
        raise Refused("no-process", "no such command in this box")

    def _list(self, client: Connection, _request: Request, _fds: list[int]) -> None:
        rows = [
            {
                "id": process.id,
                "pid": process.pid,
                "argv": _shortened(process.argv, LIST_CHARS // len(self.processes)),
                "tty": bool(process.tty),
                "clients": len(process.clients),
                "started_at": process.started_at,
            }
            for process in self.processes.values()
        ]
        client.send(message({"event": "processes", "processes": rows[:2048]}))

    def _wait(self, client: Connection, request: Request, _fds: list[int]) -> None:
        """The end of a command, without its output."""
        process = self._find(request)
        if process.done:
            client.send(message(process.result()))
        else:
            process.awaiting.append(client)

    def _signal(self, client: Connection, request: Request, _fds: list[int]) -> None:
        self._find(request).signal(int(request["signal"]))
        client.send(message({"event": "done"}))

    def _end(self, client: Connection, request: Request, _fds: list[int]) -> None:
        self._find(request).end(int(request["code"]))
        client.send(message({"event": "done"}))

    def _ping(self, client: Connection, _request: Request, _fds: list[int]) -> None:
        counts = {"processes": len(self.processes), "connections": len(self.connections)}
        client.send(message({"event": "pong", **counts}))

    def _shutdown(self, client: Connection, request: Request, _fds: list[int]) -> None:
        deadline = time.monotonic() + min(float(request["grace_s"]), SHUTDOWN_S_MAX)
        client.send(message({"event": "done"}))
        try:
            os.kill(-1, signal.SIGTERM)
            os.kill(-1, signal.SIGCONT)
        except ProcessLookupError:
            os._exit(0)
        while time.monotonic() < deadline:
            self.loop.at(time.monotonic() + 0.02, _idle)
            self.loop.run_once()
            if not spawn.others_alive() and not self.processes and not any(c.pending for c in self.connections):
                break  # nothing runs, and what the last ones said is with their clients
        os._exit(0)

    def _new_door(self, client: Connection, _request: Request, fds: list[int]) -> None:
        """The gateway is another one: it gets the sockets that the old one had."""
        if self._seal is None or self._door is None:
            raise Refused("not-sealed", "this box has no gateway")
        if len(fds) != 1:
            raise Refused("protocol", "a door is one descriptor")
        sock = socket.socket(fileno=fds.pop())
        try:
            sock.setblocking(False)
            self._seal.announce(sock)
        except OSError:
            sock.close()
            raise
        self._door.close()
        self._door = Door(self.loop, self._seal, sock)
        client.send(message({"event": "done"}))

    def _give_handles(self, client: Connection, _request: Request, _fds: list[int]) -> None:
        """To a new daemon: the last one had them from the start."""
        socket.send_fds(client.sock, [message({"event": "done"})], self._handles)

    _VERBS: dict[str, Verb] = {  # noqa: RUF012
        "start": _start,
        "connect": _connect,
        "list": _list,
        "wait": _wait,
        "signal": _signal,
        "end": _end,
        "ping": _ping,
        "seal": _new_door,
        "handles": _give_handles,
        "shutdown": _shutdown,
    }


def serve(
    listener_fd: int, seal: Seal | None = None, handles: Sequence[int] = (), owner: tuple[int, int] | None = None
) -> None:
    """Be init, for ever."""
    os.set_inheritable(listener_fd, False)  # whoever accepts on it is init to the host
    init = Init(socket.socket(fileno=listener_fd), seal, handles, owner)
    while True:
        init.loop.run_once()


def _shortened(argv: list[str], chars: int) -> list[str]:
    shown: list[str] = []
    for word in argv:
        if chars <= 0 or len(shown) == 32:
            break
        shown.append(word[: min(256, chars)])
        chars -= len(shown[-1]) + 1
    return shown


def _nothing(_number: int, _frame: object) -> None:
    """SIGCHLD only has to write to the wake-up descriptor."""


def _idle() -> None:
    """A timer that only ends a poll."""
