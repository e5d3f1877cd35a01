"""Names to addresses by asking the host's nameservers ourselves: the jail has no files, hence no getaddrinfo.

Only names that policy permits come here. What comes out is judged address by address before it is dialled (dial.py);
a name that cannot be resolved is an error and never a guess.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.gateway import dial, stub
from paddock.gateway.dns import AAAA, A, Rcode, frame
from paddock.policy import Address, parse_port
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST, OWN_ZONES

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from paddock.policy import Host

_PORT: Final = 53
_SERVERS: Final = 3  # as resolv.conf has them at most
_ROUNDS: Final = 2
_STRAY_PACKETS: Final = 64  # that are not the answer, before a nameserver is given up
_SECOND_FAMILY_S: Final = 0.5  # how long the other family may lag behind the first
_TTL_MIN_S: Final = 2.0
_NEGATIVE_TTL_S: Final = 5.0
_FAILURE_TTL_S: Final = 1.0
_LOOPBACK: Final = (ipaddress.IPv6Address("::1"), ipaddress.IPv4Address("127.0.0.1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What the host's own resolver would read: nameservers ("192.0.2.1" or "192.0.2.1#5353") and /etc/hosts."""

    nameservers: tuple[str, ...] = ()
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Server:
    address: Address
    port: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is known of a name, and until when: its addresses or why there are none."""

    until: float
    addresses: tuple[Address, ...]
    error: str = ""


class Resolver:
    """One for all boxes. Answers are kept as long as they say, within bounds; nothing is asked twice at once."""

    def __init__(self, view: HostView, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cache: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first
        self._lookups: dict[str, asyncio.Task[_Entry]] = {}
        self._servers: tuple[_Server, ...] = ()
        self._hosts: dict[str, tuple[Address, ...]] = {}
        self.update(view)

    def __repr__(self) -> str:
        return f"<Resolver {len(self._servers)} servers, {len(self._cache)} known, {len(self._lookups)} under way>"

    def update(self, view: HostView) -> None:
        """The host changed its mind: what was learned before is forgotten."""
        self._servers = tuple(filter(None, map(_server, view.nameservers)))[:_SERVERS]
        self._hosts = {name.lower(): _addresses(texts) for name, texts in view.hosts.items()}
        self._cache.clear()

    async def resolve(self, host: Host) -> tuple[Address, ...]:
        """At least one address, or Unavailable code="resolve"."""
        known = self._without_asking(host)
        if known:
            return known
        name = host.text
        entry = self._cache.get(name)
        if entry is None or entry.until <= self._clock():
            entry = await asyncio.shield(self._lookup(name))
        else:
            self._cache.move_to_end(name)
        if not entry.addresses:
            raise Unavailable(entry.error, code="resolve")
        return entry.addresses

    async def close(self) -> None:
        """Ends every lookup."""
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _without_asking(self, host: Host) -> tuple[Address, ...]:
        if host.address is not None:
            return (host.address,)
        name = host.text
        if name in {LOCALHOST, HOST_ALIAS} or name.endswith(f".{LOCALHOST}"):  # RFC 6761 §6.3: never asked for
            return _LOOPBACK
        if name.rpartition(".")[2] in OWN_ZONES:
            raise Unavailable(f"{name} is a name of ours", code="resolve")
        return self._hosts.get(name, ())

    def _lookup(self, name: str) -> asyncio.Task[_Entry]:
        task = self._lookups.get(name)
        if task is None:
            if len(self._lookups) >= limits.RESOLVE_LOOKUPS_MAX:
                raise Unavailable("too many names are being resolved", code="resolve")
            task = asyncio.create_task(self._learn(name, self._servers), name=f"resolve {name}")
            self._lookups[name] = task
            task.add_done_callback(lambda _: self._lookups.pop(name, None))
        return task

    async def _learn(self, name: str, servers: tuple[_Server, ...]) -> _Entry:
        try:
            async with asyncio.timeout(limits.RESOLVE_TIMEOUT_S):
                answer = await _ask(servers, name)
        except (Unavailable, TimeoutError) as error:
            reason = error.message if isinstance(error, Unavailable) else f"no answer for {name} in time"
            entry = _Entry(self._clock() + _FAILURE_TTL_S, (), reason)
        else:
            if answer.addresses:
                ttl_s = min(max(answer.ttl_s, _TTL_MIN_S), limits.RESOLVE_TTL_DEFAULT)
                entry = _Entry(self._clock() + ttl_s, answer.addresses)
            else:
                what = "does not exist" if answer.rcode == Rcode.NXDOMAIN else "has no address"
                entry = _Entry(self._clock() + _NEGATIVE_TTL_S, (), f"{name} {what}")
        if servers is self._servers:  # else the host's view changed while we asked
            self._cache[name] = entry
            self._cache.move_to_end(name)
            while len(self._cache) > limits.RESOLVE_CACHE_ENTRIES:
                self._cache.popitem(last=False)
        return entry


async def _ask(servers: tuple[_Server, ...], name: str) -> stub.Answer:
    """Both families at once; when one has addresses, the other is waited for only a little longer."""
    if not servers:
        raise Unavailable("the host has no nameserver", code="resolve")
    tasks = [asyncio.create_task(_ask_family(servers, name, kind)) for kind in (AAAA, A)]
    try:
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if waiting:
            found = any(task.exception() is None and task.result().addresses for task in done)
            await asyncio.wait(waiting, timeout=_SECOND_FAMILY_S if found else None)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    answers = [result for result in results if isinstance(result, stub.Answer)]
    addresses = tuple(address for answer in answers for address in answer.addresses)
    if addresses:
        ttl_s = min(answer.ttl_s for answer in answers if answer.addresses)
        return stub.Answer(rcode=Rcode.NOERROR, truncated=False, addresses=addresses, ttl_s=ttl_s)
    for answer in answers:
        if answer.rcode == Rcode.NXDOMAIN:  # there is no such name, whatever the other type
            return answer
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return answers[0]


async def _ask_family(servers: tuple[_Server, ...], name: str, qtype: int) -> stub.Answer:
    """The first server's answer that is one; their failures move on to the next."""
    for _ in range(_ROUNDS):
        for server in servers:
            try:
                async with asyncio.timeout(limits.RESOLVE_ATTEMPT_S):
                    answer = await _ask_server(server, name, qtype)
            except (OSError, TimeoutError, Unavailable):
                continue
            if answer is not None and answer.rcode in {Rcode.NOERROR, Rcode.NXDOMAIN}:
                return answer
    raise Unavailable(f"no nameserver answers for {name}", code="resolve")


async def _ask_server(server: _Server, name: str, qtype: int) -> stub.Answer | None:
    ident = secrets.randbelow(1 << 16)
    question = stub.question(ident, name, qtype)
    loop = asyncio.get_running_loop()
    with dial.nameserver_socket(server.address, server.port) as sock:
        await loop.sock_sendall(sock, question)
        for _ in range(_STRAY_PACKETS):
            answer = stub.read_answer(await loop.sock_recv(sock, 65535), ident, name, qtype)
            if answer is not None:
                break
        else:
            return None
    if not answer.truncated:
        return answer
    with await dial.dial_nameserver(server.address, server.port, limits.RESOLVE_ATTEMPT_S) as sock:
        await loop.sock_sendall(sock, frame(question))
        length = int.from_bytes(await _receive(sock, 2))
        answer = stub.read_answer(await _receive(sock, length), ident, name, qtype)
    return answer if answer is not None and not answer.truncated else None


async def _receive(sock: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(sock, count - len(data))
        if not piece:
            raise Unavailable("the nameserver hung up", code="resolve")
        data += piece
    return data


def _server(text: str) -> _Server | None:
    """None for one we cannot ask, such as a link-local address with its interface."""
    address, _, port = text.partition("#")
    try:
        return _Server(_address(address), parse_port(port) if port else _PORT)
    except (ValueError, UserError):
        return None


def _addresses(texts: tuple[str, ...]) -> tuple[Address, ...]:
    found: list[Address] = []
    for text in texts:
        try:
            found.append(_address(text))
        except ValueError:  # what a person mistyped, or one with its interface
            continue
    return tuple(found)


def _address(text: str) -> Address:
    if "%" in text:  # what the interface is called is not for a jail to look up
        raise ValueError(text)
    return ipaddress.ip_address(text)
