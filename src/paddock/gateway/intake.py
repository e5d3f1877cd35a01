"""What an accepted connection is, and where it goes.

The original destination of a connection is an address of the box's table (a name it was given), the gateway itself (the
explicit proxy, names over TCP, or a port of the host's own loopback), the refusal address, or an address written as
such. Whichever way a destination is named, the same judge decides about the same pair of host and port.

Where requests have to be seen one by one (`inspection`), TLS ends here and HTTP is read, on whatever port; all else is
refused there, a rule that bypasses included. For every other name:

What it may carry: on 443 it must be TLS whose SNI is the name, on 80 HTTP whose Host is the name. On other ports
the server may speak first, so the connection is made at once and the client's first bytes decide: TLS and HTTP are held
to the name there too, all else passes as it is. A rule that bypasses, or is about an address or the host's own port,
lets everything pass unseen.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable, UserError
from paddock.gateway import dns, socks, web
from paddock.gateway.caller import HTTP_PORT, TLS_PORT, Caller, SocksCaller
from paddock.gateway.hello import Hello
from paddock.gateway.http1 import BadRequest, Head, RequestParser
from paddock.gateway.opening import Kind
from paddock.gateway.sniffer import Sniffer, tls_problem
from paddock.gateway.world import HOST_ITSELF
from paddock.limits import (
    GATEWAY_ADDRESS,
    INTAKE_FIRST_S,
    INTAKE_SNIFF_S,
    INTAKE_STALL_S,
    PROXY_PORT,
    REFUSAL_ADDRESS,
    SYNTHETIC_FIRST,
    SYNTHETIC_LAST,
)
from paddock.policy import Host, Verdict

if TYPE_CHECKING:
    from paddock.gateway.box import Box
    from paddock.gateway.judging import Grant

_SO_ORIGINAL_DST: Final = 80
_SOCKADDR_BYTES: Final = 16
_DNS_PORT: Final = 53
_GATEWAY: Final = ipaddress.IPv4Address(GATEWAY_ADDRESS)
_REFUSAL: Final = ipaddress.IPv4Address(REFUSAL_ADDRESS)
_OWN: Final = ipaddress.IPv4Network("198.18.0.0/15")
_FIRST, _LAST = ipaddress.IPv4Address(SYNTHETIC_FIRST), ipaddress.IPv4Address(SYNTHETIC_LAST)
SEAL_CHECK: Final = (ipaddress.IPv4Address("192.0.2.1"), 9)  # where a starting box tries to get out
_SOCKS_VERSIONS: Final = (4, 5)
_LOCALHOST: Final = Host("localhost")
_HTTP_1: Final = "http/1.1"
_BYPASSED: Final = "a rule says to bypass inspection, and a secret or a request rule of this box needs it"
_NAMELESS: Final = "the connection does not say which host it is for"


def original_destination(sock: socket.socket) -> tuple[ipaddress.IPv4Address, int] | None:
    """Where a connection was meant to go; None when nothing turned it."""
    try:
        raw = sock.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, _SOCKADDR_BYTES)
    except OSError:
        return None
    address = ipaddress.IPv4Address(raw[4:8])
    return None if address.is_loopback else (address, int.from_bytes(raw[2:4]))


async def serve(box: Box, caller: Caller) -> None:
    """A connection that left the loopback of the box."""
    destination = original_destination(caller.sock)
    if destination is None or destination == SEAL_CHECK:
        caller.reset()
        return
    address, port = destination
    if address not in _OWN:
        await pass_on(box, caller, Host.of(address), port)
    elif address == _GATEWAY:
        await _gateway(box, caller, port)
    elif address == _REFUSAL:
        await _named_by_itself(box, caller, port)
    else:
        host = box.names.host_of(address) if _FIRST <= address <= _LAST else None
        if host is None:
            await _named_by_itself(box, caller, port)
        else:
            caller.address = address
            await pass_on(box, caller, host, port)


async def local(box: Box, caller: Caller, port: int) -> None:
    """A connection to a port of the box's own localhost that means the host's."""
    await pass_on(box, caller, _LOCALHOST, port)


async def published(box: Box, caller: Caller, port: int) -> None:
    """A connection of the host's to a port of the box."""
    try:
        inside = await box.entrances.dial(port)
    except Unavailable:
        caller.reset()
        return
    box.relay_inside(caller, inside, port)


async def pass_on(box: Box, caller: Caller, host: Host, port: int) -> None:
    """Judge, connect and relay, or refuse."""
    protocol = _protocol(caller, port)
    leave = await box.judge.judge(host, port, protocol)
    if isinstance(leave, Verdict):
        await box.refuse(caller, (host.text, port), protocol, leave)
        return
    opaque = leave.verdict.bypass or host.address is not None or host.text in HOST_ITSELF
    must_see = box.desk.must_see(leave)
    if must_see and leave.verdict.bypass:
        await box.refuse(caller, (host.text, port), protocol, _no(_BYPASSED))
    elif must_see and port != HTTP_PORT:
        await _pass_inspected(box, caller, leave)
    elif opaque and not must_see:
        await _pass_opaque(box, caller, leave, protocol)
    elif port == HTTP_PORT:
        await _pass_http(box, caller, leave, protocol)
    elif port == TLS_PORT:
        await _pass_tls(box, caller, leave, protocol)
    else:
        await _pass_sniffed(box, caller, leave, protocol)


async def _pass_opaque(box: Box, caller: Caller, leave: Grant, protocol: str) -> None:
    reached = await box.reach(caller, leave, protocol)
    if reached is None:
        return
    await caller.admit()
    box.relay(caller, leave, *reached).flow.start(caller.first)


async def _pass_http(box: Box, caller: Caller, leave: Grant, protocol: str) -> None:
    if not caller.waits:
        await web.Session(box, caller, leave).run()
        return
    reached = await box.reach(caller, leave, protocol)
    if reached is not None:
        await caller.admit()
        await web.Session(box, caller.admitted(), leave).run(reached)


async def _pass_tls(box: Box, caller: Caller, leave: Grant, protocol: str) -> None:
    """The name is compared before the server hears a byte; whoever waits for a yes has it before it speaks."""
    if not caller.waits:
        if await _is_tls_for(box, caller, leave):
            reached = await box.reach(caller, leave, protocol)
            if reached is not None:
                box.relay(caller, leave, *reached).flow.start(caller.first)
        return
    reached = await box.reach(caller, leave, protocol)
    if reached is None:
        return
    try:
        await caller.admit()
        caller = caller.admitted()
        allowed = await _is_tls_for(box, caller, leave)
    except BaseException:
        reached[0].sock.close()
        raise
    if allowed:
        box.relay(caller, leave, *reached).flow.start(caller.first)
    else:
        reached[0].sock.close()


async def _pass_sniffed(box: Box, caller: Caller, leave: Grant, protocol: str) -> None:
    reached = await box.reach(caller, leave, protocol)
    if reached is None:
        return
    await caller.admit()
    caller = caller.admitted()
    passage = box.relay(caller, leave, *reached)
    passage.flow.start(caller.first, Sniffer(box, caller, passage).gate)


async def _pass_inspected(box: Box, caller: Caller, leave: Grant) -> None:
    await caller.admit()
    caller = caller.admitted() if caller.waits else caller
    if leave.port != TLS_PORT and await caller.kind(INTAKE_FIRST_S) is Kind.HTTP:
        await web.Session(box, caller, leave).run()
        return
    found = await caller.hello(INTAKE_FIRST_S)
    problem = tls_problem(found, leave.host, strict=True)
    if problem is None and isinstance(found, Hello) and found.alpn and _HTTP_1 not in found.alpn:
        problem = _no("requests to this host are inspected, which needs HTTP/1.1, and the client offers none")
    if problem is None and not box.inspects_more:
        problem = _no("too many connections of this box are inspected already")
    if problem is not None:
        await box.refuse(caller, (leave.host.text, leave.port), "tls", problem)
        return
    box.inspect(caller, leave)


async def _is_tls_for(box: Box, caller: Caller, leave: Grant) -> bool:
    """Whether it is TLS to the name; otherwise the caller has been told no."""
    found = await caller.hello(INTAKE_FIRST_S)
    problem = tls_problem(found, leave.host, strict=True)
    if problem is None:
        return True
    await box.refuse(caller, (leave.host.text, leave.port), "tls", problem)
    return False


async def _named_by_itself(box: Box, caller: Caller, port: int) -> None:
    """A denied name, or one from before a restart: only TLS and HTTP say which host they want."""
    host = await _name_inside(caller, port)
    if host is None or host.address is not None:
        last = box.name_denied_last()
        why = f"{_NAMELESS}; the name denied last was {last}" if last else _NAMELESS
        await box.refuse(caller, ("unknown", port), "tcp", Verdict(False, None, why, final=True))
        return
    await pass_on(box, caller, host, port)


async def _name_inside(caller: Caller, port: int) -> Host | None:
    patience = INTAKE_FIRST_S if port in {HTTP_PORT, TLS_PORT} else INTAKE_SNIFF_S
    match await caller.kind(patience):
        case Kind.TLS:
            found = await caller.hello(INTAKE_STALL_S)
            return _parsed(found.sni) if isinstance(found, Hello) else None
        case Kind.HTTP:
            return await _host_of_request(caller)
        case Kind.OTHER:
            return None


async def _host_of_request(caller: Caller) -> Host | None:
    parser = RequestParser()
    data = caller.first
    try:
        while True:
            for event in parser.feed(data):
                if isinstance(event, Head):
                    return event.host
            data = await caller.read(INTAKE_STALL_S)
            if not data:
                return None
    except BadRequest:
        return None


def _parsed(name: str | None) -> Host | None:
    if name is None:
        return None
    try:
        return Host.parse(name)
    except UserError:
        return None


def _protocol(caller: Caller, port: int) -> str:
    if caller.waits:
        return "socks5" if isinstance(caller, SocksCaller) else "connect"
    return {HTTP_PORT: "http", TLS_PORT: "tls"}.get(port, "tcp")


# -- the gateway's own address -----------------------------------------------------------------------------------------


async def _gateway(box: Box, caller: Caller, port: int) -> None:
    if port == _DNS_PORT:
        await _names_over_tcp(box, caller)
    elif port == PROXY_PORT:
        await _proxy(box, caller)
    else:
        await pass_on(box, caller, _LOCALHOST, port)


async def _names_over_tcp(box: Box, caller: Caller) -> None:
    queries = dns.TcpQueries()
    while data := await caller.read(INTAKE_STALL_S):
        caller.first = b""
        for query in queries.feed(data):
            answer = box.answer(query, tcp=True)
            if answer is None:
                caller.reset()
                return
            if answer:
                await caller.send(dns.frame(answer))
    caller.sock.close()


async def _proxy(box: Box, caller: Caller) -> None:
    """HTTP and SOCKS on one port: the first byte of SOCKS is its version, which begins no method."""
    if not await caller.read(INTAKE_FIRST_S):
        caller.sock.close()
    elif caller.first[0] in _SOCKS_VERSIONS:
        await _socks(box, caller)
    else:
        await web.Session(box, caller, None, tunnel).run()


async def _socks(box: Box, caller: Caller) -> None:
    server = socks.SocksServer()
    data = caller.first
    try:
        while True:
            found = server.feed(data)
            data = b""
            if isinstance(found, socks.Reply):
                await caller.send(found.data)
            elif isinstance(found, socks.Request):
                break
            else:
                data = await caller.read(INTAKE_STALL_S)
                if not data:
                    caller.sock.close()
                    return
    except socks.BadSocks as error:
        await caller.finish(error.reply, INTAKE_STALL_S)
        return
    asked = SocksCaller(caller.poller, caller.sock, caller.contexts, found.rest)
    await tunnel(box, asked, found.host, found.port)


async def tunnel(box: Box, caller: Caller, host: Host, port: int) -> None:
    """A destination named to the proxy; the box's own addresses are no destinations, least of all the proxy."""
    if isinstance(host.address, ipaddress.IPv4Address) and host.address in _OWN:
        known = box.names.host_of(host.address)
        if known is None:
            problem = Verdict(False, None, f"{host.text} is an address of this box's own", final=True)
            await box.refuse(caller, (host.text, port), _protocol(caller, port), problem)
            return
        host = known
    await pass_on(box, caller, host, port)


def _no(reason: str) -> Verdict:
    return Verdict(False, None, reason, final=True)
