"""The door: the gateway's way to sockets of this box's network, which nobody outside the box can make.

Theory. The box's network has three kinds of sockets that are the gateway's: one where all TCP that leaves the loopback
ends, one where all questions for names end, and a listener for every `localhost:PORT` that means the host's port. They
were made here, and init keeps them as long as the box lives, so that a new gateway gets the same ones by a new door.
A door is a SEQPACKET socket. The first message on it goes out and carries the sockets; then the gateway asks and init
answers, one request at a time and in order, so that what was not taken yet waits in the socket and nowhere else.
"""

from __future__ import annotations

import errno
import json
import select
import socket
import time

from paddock.engines.guest.wire import READABLE, WRITABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.engines.guest.wire import Loop

MESSAGE_BYTES = 4096
PORTS_MAX = 64
BACKLOG = 1024
DIAL_S = 3.0  # a server that takes nobody holds up only what the gateway asks of the same box
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_PLACES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Seal:
    """The gateway's sockets in this box."""

    __slots__ = ("door", "listeners", "tcp", "udp")

    def __init__(self, tcp: socket.socket, udp: socket.socket, door: socket.socket) -> None:
        self.tcp, self.udp, self.door = tcp, udp, door
        self.listeners: dict[int, list[socket.socket]] = {}

    def sockets(self) -> list[socket.socket]:
        return [self.tcp, self.udp, *(listener for pair in self.listeners.values() for listener in pair)]

    def descriptors(self) -> set[int]:
        return {self.door.fileno(), *(sock.fileno() for sock in self.sockets())}

    def listen(self, port: int) -> list[socket.socket]:
        """Listeners on both loopback addresses, or on the one there is."""
        if port in self.listeners:
            return self.listeners[port]
        if len(self.listeners) >= PORTS_MAX:
            raise OSError(errno.ENOSPC, "too many ports")
        made: list[socket.socket] = []
        try:
            for family, address in _PLACES:
                try:
                    made.append(_listener(family, address, port))
                except OSError as error:
                    if family == socket.AF_INET or error.errno not in _NO_IPV6:
                        raise
        except OSError:
            for sock in made:
                sock.close()
            raise
        self.listeners[port] = made
        return made

    def unlisten(self, port: int) -> None:
        for sock in self.listeners.pop(port, []):
            sock.close()

    def announce(self, door: socket.socket) -> None:
        socket.send_fds(door, [b'{"sealed":true}'], [sock.fileno() for sock in self.sockets()])


def _listener(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after unlisten, at once; nobody joins a listener
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


class Door:
    """One door, served. Its end, or a gateway that breaks the rules, shuts it; the sockets stay."""

    def __init__(self, loop: Loop, seal: Seal, sock: socket.socket) -> None:
        self._loop = loop
        self._seal = seal
        self._sock = sock
        self._unsent: tuple[dict[str, Any], list[socket.socket]] | None = None
        self._dial: tuple[socket.socket, int] | None = None
        self._deadline = 0.0
        self._timer = False
        sock.setblocking(False)
        loop.want(sock.fileno(), READABLE, self._ready)

    def close(self) -> None:
        if self._sock.fileno() < 0:
            return
        self._end_dial()
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    # -- the gateway's side --------------------------------------------------------------------------------------------

    def _ready(self, events: int) -> None:
        if events & (select.EPOLLHUP | select.EPOLLERR):
            self.close()
        elif self._unsent:
            self._reply(*self._unsent)
        elif self._dial is None:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(MESSAGE_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            self._answer(data)
        except OSError as error:
            self._reply({"error": _name(error.errno)})

    def _answer(self, data: bytes) -> None:
        op, port = _parse(data)
        if op == "dial":
            self._connect(port, 0)
        elif op == "listen":
            self._reply({"ok": True}, self._seal.listen(port))
        else:
            self._seal.unlisten(port)
            self._reply({"ok": True})

    def _reply(self, value: dict[str, Any], sockets: list[socket.socket] | None = None) -> None:
        """Send, now or when the gateway reads again; until then it is asked for nothing more."""
        self._unsent = None
        fds = [sock.fileno() for sock in sockets or []]
        mask = READABLE
        try:
            socket.send_fds(self._sock, [json.dumps(value).encode()], fds)
        except BlockingIOError:
            self._unsent = (value, sockets or [])
            mask = WRITABLE
        except OSError as error:
            if not fds or error.errno in {errno.EPIPE, errno.ECONNRESET}:
                self.close()
                return
            self._end_dial()
            self._reply({"error": _name(error.errno)})  # as when too many descriptors are under way
            return
        if not self._unsent:
            self._end_dial()
        self._loop.want(self._sock.fileno(), mask, self._ready)

    # -- dialling ------------------------------------------------------------------------------------------------------

    def _connect(self, port: int, place: int) -> None:
        """To IPv4's loopback, and where nobody listens to IPv6's: some servers know only that."""
        family, address = _PLACES[place]
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._dial = (sock, port)
        code = sock.connect_ex((address, port))
        if code == errno.EINPROGRESS and _writable(sock):  # on a loopback it is done, or refused, by now
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == errno.EINPROGRESS:
            self._wait(sock)
        else:
            self._dialled(code)

    def _dialled(self, code: int) -> None:
        assert self._dial is not None
        sock, port = self._dial
        if not code:
            self._reply({"ok": True}, [sock])
            return
        second = sock.family == socket.AF_INET6
        self._end_dial()
        try:
            if code == errno.ECONNREFUSED and not second:
                self._connect(port, 1)
                return
        except OSError as error:
            code = error.errno or errno.EIO
        self._reply({"error": _name(errno.ECONNREFUSED if code in _NO_IPV6 else code)})

    def _wait(self, sock: socket.socket) -> None:
        self._deadline = time.monotonic() + DIAL_S
        self._loop.want(sock.fileno(), WRITABLE, self._waited)
        self._loop.want(self._sock.fileno(), 0, self._ready)  # its end is told in any case
        if not self._timer:
            self._timer = True
            self._loop.at(self._deadline, self._tick)

    def _waited(self, _events: int) -> None:
        assert self._dial is not None
        sock = self._dial[0]
        self._loop.forget(sock.fileno())
        self._dialled(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _tick(self) -> None:
        """The one timer of a door: for the dial that waits now, whichever it was set for."""
        self._timer = False
        if self._dial is None or self._unsent:
            return
        if time.monotonic() < self._deadline:
            self._timer = True
            self._loop.at(self._deadline, self._tick)
            return
        self._end_dial()
        self._reply({"error": _name(errno.ETIMEDOUT)})

    def _end_dial(self) -> None:
        if self._dial is not None:
            sock, self._dial = self._dial[0], None
            self._loop.forget(sock.fileno())
            sock.close()


def _parse(data: bytes) -> tuple[str, int]:
    """What is asked for, or EINVAL: the gateway parses what boxes send it, and may be theirs one day."""
    try:
        request = json.loads(data) if len(data) <= MESSAGE_BYTES else None
    except (ValueError, RecursionError):
        request = None
    if isinstance(request, dict):
        op, port = request.get("op"), request.get("port")
        if op in ("dial", "listen", "unlisten") and type(port) is int and 0 < port < 65536:
            return op, port
    raise OSError(errno.EINVAL, "no request of a gateway's")


def _writable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(0))


def _name(number: int | None) -> str:
    return errno.errorcode.get(number or 0, str(number))
