"""The user's own proxy, for hosts that have no other way out.

Policy decides about the inner destination before it comes here, and as Checked it arrives. Private destinations never
go upstream: they would be reached from the proxy's network instead of ours, where nobody judged them.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote_to_bytes

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.gateway import dial
from paddock.gateway.heads import BadRequest, parse_response
from paddock.policy import Address, Host, parse_authority
from paddock.policy.ranges import forms, reserved
from paddock.readiness import readable

if TYPE_CHECKING:
    from paddock.gateway.dial import Checked
    from paddock.gateway.resolver import Resolver

_URL: Final = re.compile(r"(http|socks5h?)://(?:([^@/]*)@)?([^@/]+)/?", re.IGNORECASE)
_PORTS: Final = {"http": 80, "socks5h": 1080}
_REPLY_CODES: Final = {3: "unreachable", 4: "unreachable", 5: "refused", 6: "timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Where the user's proxy is and how it is spoken to."""

    scheme: Literal["http", "socks5h"]
    host: Host
    port: int
    user: bytes = field(default=b"", repr=False)
    password: bytes = field(default=b"", repr=False)


def parse_proxy(url: str) -> Proxy:
    """http://[user:password@]host[:port] or socks5h://...; raises UserError code="bad-proxy", without the password."""
    match = _URL.fullmatch(url)
    if match is None:
        what = "a proxy that is spoken to over TLS" if url.lower().startswith("https://") else "this proxy"
        hint = "use http://[user:password@]host:port or socks5h://host:port"
        raise UserError(f"{what} cannot be used", hint=hint, code="bad-proxy")
    scheme: Literal["http", "socks5h"] = "http" if match[1].lower() == "http" else "socks5h"
    user, _, password = (match[2] or "").partition(":")
    try:
        host, port = parse_authority(match[3], _PORTS[scheme])
    except UserError as error:
        raise UserError(f"this proxy cannot be used: {error.message}", code="bad-proxy") from error
    proxy = Proxy(scheme=scheme, host=host, port=port, user=unquote_to_bytes(user), password=unquote_to_bytes(password))
    if max(len(proxy.user), len(proxy.password)) > 255 or b":" in proxy.user or b"\0" in proxy.user + proxy.password:
        raise UserError("the credentials of this proxy cannot be used", code="bad-proxy")
    return proxy


class Upstream:
    """When the user's proxy is asked, and how. Without one, nothing is."""

    def __init__(self, resolver: Resolver, proxy: str = "", no_proxy: str = "") -> None:
        self._resolver = resolver
        self._proxy = parse_proxy(proxy) if proxy else None
        self._exceptions = tuple(filter(None, (entry.strip().lower() for entry in no_proxy.split(","))))

    def __repr__(self) -> str:
        return f"<Upstream {self._proxy or 'none'}>"

    def __bool__(self) -> bool:
        return self._proxy is not None

    def serves(self, host: Host, port: int, addresses: tuple[Address, ...]) -> bool:
        """Whether this destination goes through the proxy; `addresses` is empty when only the proxy can resolve it."""
        if self._proxy is None or (host.address is None and "." not in host.text):
            return False
        known = (host.address,) if host.address is not None else addresses
        if any(reserved(form) is not None for address in known for form in forms(address)):
            return False
        return not any(_excepts(entry, host, port, known) for entry in self._exceptions)

    async def connect(self, checked: Checked) -> socket.socket:
        """A socket that leads to the destination; Unavailable code="proxy", or as dial has them."""
        proxy = self._proxy
        if proxy is None:
            raise Unavailable("there is no proxy", code="proxy")
        if not self.serves(checked.host, checked.port, checked.addresses):
            raise Unavailable(f"{checked.host.text} does not go through the user's proxy", code="proxy")
        sock = await dial.dial_proxy(await self._resolver.resolve(proxy.host), proxy.port)
        try:
            async with asyncio.timeout(limits.UPSTREAM_TIMEOUT_S):
                if proxy.scheme == "http":
                    await _http(sock, proxy, checked)
                else:
                    await _socks(sock, proxy, checked)
        except BaseException as error:
            sock.close()
            if isinstance(error, TimeoutError):
                raise Unavailable("the user's proxy did not answer in time", code="timeout") from error
            if isinstance(error, OSError):
                raise Unavailable(f"the user's proxy failed: {error.strerror or error}", code="proxy") from error
            raise
        return sock


def _excepts(entry: str, host: Host, port: int, addresses: tuple[Address, ...]) -> bool:
    """Whether an entry of NO_PROXY names this destination: a domain, an address, a range, each with a port or not."""
    if entry == "*":
        return True
    try:
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
        return any(address.version == network.version and address in network for address in addresses)
    except ValueError:
        pass
    name, colon, wanted = entry.rpartition(":")
    if colon:
        if wanted != str(port):
            return False
        entry = name.strip("[]")
    domain = entry.removeprefix("*").removeprefix(".").removesuffix(".")
    return bool(domain) and (host.text == domain or host.text.endswith("." + domain))


# -- HTTP CONNECT (RFC 9110 §9.3.6) ------------------------------------------------------------------------------------
async def _http(sock: socket.socket, proxy: Proxy, checked: Checked) -> None:
    authority = checked.host.with_port(checked.port)
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user or proxy.password:
        credentials = base64.b64encode(proxy.user + b":" + proxy.password).decode("ascii")
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    await asyncio.get_running_loop().sock_sendall(sock, ("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    for _ in range(limits.HTTP_INTERIM_MAX):
        try:
            status = parse_response(await _read_head(sock), bodiless=True).status
        except BadRequest as error:
            raise Unavailable(f"the user's proxy answered with {error.reason}", code="proxy") from error
        if status == 407:
            raise Unavailable("the user's proxy wants other credentials", code="proxy")
        if status == 101 or status >= 300:
            raise Unavailable(f"the user's proxy refused {authority} with status {status}", code="proxy")
        if status >= 200:
            return
    raise Unavailable("the user's proxy does not come to an end", code="proxy")


async def _read_head(sock: socket.socket) -> bytes:
    """Up to the empty line and not a byte further: what follows is the destination's."""
    head = b""
    while len(head) < limits.HTTP_HEAD_BYTES:
        await readable(sock.fileno())
        seen = sock.recv(4096, socket.MSG_PEEK)
        if not seen:
            raise Unavailable("the user's proxy hung up", code="proxy")
        end = (head + seen).find(b"\r\n\r\n", max(0, len(head) - 3))
        head += sock.recv(len(seen) if end < 0 else end + 4 - len(head))
        if end >= 0:
            return head
    raise Unavailable("the user's proxy does not come to an end", code="proxy")


# -- SOCKS5 with names (RFC 1928, 1929) --------------------------------------------------------------------------------
async def _socks(sock: socket.socket, proxy: Proxy, checked: Checked) -> None:
    loop = asyncio.get_running_loop()
    methods = b"\x00\x02" if proxy.user or proxy.password else b"\x00"
    await loop.sock_sendall(sock, bytes((5, len(methods))) + methods)
    version, method = await _exactly(sock, 2)
    if version != 5 or method not in methods:
        raise Unavailable("the user's proxy wants other credentials", code="proxy")
    if method == 2:
        parts = (proxy.user, proxy.password)
        await loop.sock_sendall(sock, b"\x01" + b"".join(bytes((len(part),)) + part for part in parts))
        if (await _exactly(sock, 2))[1] != 0:
            raise Unavailable("the user's proxy wants other credentials", code="proxy")
    await loop.sock_sendall(sock, b"\x05\x01\x00" + _socks_address(checked.host) + checked.port.to_bytes(2))
    version, code, _, kind = await _exactly(sock, 4)
    if version != 5 or kind not in {1, 3, 4}:
        raise Unavailable("the user's proxy does not speak SOCKS5", code="proxy")
    length = {1: 4, 4: 16}.get(kind) or (await _exactly(sock, 1))[0]
    await _exactly(sock, length + 2)
    if code != 0:
        where = checked.host.with_port(checked.port)
        raise Unavailable(f"the user's proxy refused {where}", code=_REPLY_CODES.get(code, "proxy"))


def _socks_address(host: Host) -> bytes:
    if host.address is not None:
        return (b"\x01" if host.address.version == 4 else b"\x04") + host.address.packed
    name = host.text.encode("ascii")
    return b"\x03" + bytes((len(name),)) + name


async def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = await asyncio.get_running_loop().sock_recv(sock, count - len(data))
        if not piece:
            raise Unavailable("the user's proxy hung up", code="proxy")
        data += piece
    return data
