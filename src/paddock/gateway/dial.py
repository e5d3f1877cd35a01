"""The one place that opens sockets to the world.

A destination is dialled only as Checked, which only `check` makes: a name was resolved once, each address was judged,
and exactly those that passed are connected to. Nothing here resolves anything. The two other kinds of peer are the
user's own choice and never a box's: the host's nameservers and the user's proxy.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable
from paddock.limits import DIAL_ATTEMPTS_MAX, DIAL_STAGGER_S, DIAL_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from paddock.policy import Evaluator, Host, Verdict

    Address = IPv4Address | IPv6Address

_KEY: Final = object()
_CODES: Final = {
    errno.ECONNREFUSED: "refused",
    errno.ENETUNREACH: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.ETIMEDOUT: "timeout",
}


class Checked:
    """A destination whose addresses were judged one by one."""

    __slots__ = ("addresses", "host", "port")

    def __init__(self, key: object, host: Host, port: int, addresses: tuple[Address, ...]) -> None:
        if key is not _KEY:
            raise TypeError("only check() makes this")
        self.host = host
        self.port = port
        self.addresses = addresses

    def __repr__(self) -> str:
        return f"<Checked {self.host.text}:{self.port} at {', '.join(map(str, self.addresses))}>"


def check(evaluator: Evaluator, host: Host, port: int, addresses: Iterable[Address]) -> Checked | Verdict:
    """The destination with the addresses policy lets it have, or the verdict that refused the first of them."""
    allowed: list[Address] = []
    refusal: Verdict | None = None
    for address in addresses:
        verdict = evaluator.decide_address(host, port, address)
        if verdict.allowed:
            allowed.append(address)
        elif refusal is None:
            refusal = verdict
    if allowed:
        return Checked(_KEY, host, port, tuple(allowed))
    if refusal is None:
        raise Unavailable(f"{host.text} has no address", code="resolve")
    return refusal


def check_name(evaluator: Evaluator, host: Host, port: int) -> Checked | Verdict:
    """A name that only the user's own proxy can resolve: it can be asked for there, and not be dialled."""
    verdict = evaluator.decide(host, port)
    return Checked(_KEY, host, port, ()) if verdict.allowed else verdict


async def dial(checked: Checked, timeout_s: float = DIAL_TIMEOUT_S) -> socket.socket:
    """A connected non-blocking socket; Unavailable code="refused", "unreachable", "timeout" or "dial"."""
    return await _connect(checked.host.text, [(address, checked.port) for address in checked.addresses], timeout_s)


async def dial_proxy(addresses: Sequence[Address], port: int, timeout_s: float = DIAL_TIMEOUT_S) -> socket.socket:
    """As dial, to the proxy the user named in their own environment."""
    return await _connect("the user's proxy", [(address, port) for address in addresses], timeout_s)


async def dial_nameserver(address: Address, port: int, timeout_s: float) -> socket.socket:
    """As dial, for a question that does not fit into a datagram."""
    return await _connect("the nameserver", [(address, port)], timeout_s)


def nameserver_socket(address: Address, port: int) -> socket.socket:
    """A connected datagram socket with a port of its own: the kernel drops what others send to it."""
    sock = socket.socket(_family(address), socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.connect((str(address), port))
    except BaseException:
        sock.close()
        raise
    return sock


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


async def _connect(name: str, targets: list[tuple[Address, int]], timeout_s: float) -> socket.socket:
    race = _Race(targets)
    try:
        async with asyncio.timeout(timeout_s):
            return await race.run()
    except TimeoutError as error:
        raise Unavailable(f"{name} did not answer in {timeout_s:g} seconds", code="timeout") from error
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error)
        code = _CODES.get(error.errno or 0, "dial")
        raise Unavailable(f"cannot connect to {name}: {what}", code=code) from error
    finally:
        race.close()


class _Race:
    """Connects to several addresses, one family after the other, a little apart; the first to answer wins.

    Callbacks instead of tasks: most destinations answer at once, and thousands are dialled in a second.
    """

    def __init__(self, targets: list[tuple[Address, int]]) -> None:
        self._targets = _interleaved(targets)
        self._loop = asyncio.get_running_loop()
        self._running: dict[socket.socket, None] = {}  # the oldest first
        self._done: asyncio.Future[socket.socket] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._handed_out = False
        self._error = OSError(errno.EADDRNOTAVAIL, "no address")

    def __repr__(self) -> str:
        return f"<Race {len(self._running)} running, {len(self._targets)} to come>"

    async def run(self) -> socket.socket:
        self._next()
        sock = await self._done
        self._handed_out = True
        return sock

    def close(self) -> None:
        """Ends every attempt that did not win, and the winner when nobody waits for it any more."""
        if self._timer is not None:
            self._timer.cancel()
        for sock in self._running:
            self._loop.remove_writer(sock.fileno())
            sock.close()
        self._running.clear()
        if not self._done.done():
            self._done.cancel()
        elif not self._handed_out and not self._done.cancelled() and self._done.exception() is None:
            self._done.result().close()

    def _next(self) -> None:
        """Start one more attempt; when one fails at once, the one after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._targets and not self._done.done():
            if len(self._running) >= DIAL_ATTEMPTS_MAX:
                self._give_up(next(iter(self._running)))
            address, port = self._targets.pop(0)
            if self._start(address, port):
                if self._targets and not self._done.done():
                    self._timer = self._loop.call_later(DIAL_STAGGER_S, self._next)
                return
        if not self._running and not self._done.done():
            self._done.set_exception(self._error)

    def _start(self, address: Address, port: int) -> bool:
        try:
            sock = socket.socket(_family(address), socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            self._error = error
            return False
        code = sock.connect_ex((str(address), port))
        if code == 0:
            self._won(sock)
            return True
        if code != errno.EINPROGRESS:
            sock.close()
            self._error = OSError(code, os.strerror(code))
            return False
        self._running[sock] = None
        self._loop.add_writer(sock.fileno(), self._writable, sock)  # by number: asyncio would write out the socket
        return True

    def _writable(self, sock: socket.socket) -> None:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._loop.remove_writer(sock.fileno())
        del self._running[sock]
        if code == 0:
            self._won(sock)
            return
        sock.close()
        self._error = OSError(code, os.strerror(code))
        self._next()

    def _give_up(self, sock: socket.socket) -> None:
        self._loop.remove_writer(sock.fileno())
        del self._running[sock]
        sock.close()

    def _won(self, sock: socket.socket) -> None:
        if self._done.done():
            sock.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._done.set_result(sock)


def _interleaved(targets: list[tuple[Address, int]]) -> list[tuple[Address, int]]:
    """IPv6 and IPv4 in turn, each in its given order (RFC 8305 §4)."""
    six = [target for target in targets if target[0].version == 6]
    four = [target for target in targets if target[0].version == 4]
    both = min(len(six), len(four))
    turns = [target for pair in zip(six, four, strict=False) for target in pair]
    return turns + six[both:] + four[both:]
