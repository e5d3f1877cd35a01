"""What all boxes share: the loop's poller, what is known of the host, and the one way out."""

from __future__ import annotations

import ipaddress
import re
import resource
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable, UserError
from paddock.gateway.dial import Checked, check, check_name, dial
from paddock.gateway.pipes import Pipes
from paddock.gateway.resolver import HostView, Resolver
from paddock.gateway.upstream import Upstream
from paddock.limits import DESCRIPTORS_KEPT_MAX, FLOWS_PER_BOX

if TYPE_CHECKING:
    from paddock.gateway.control import HostFacts
    from paddock.gateway.poller import Poller
    from paddock.policy import Address, Evaluator, Host, Verdict

_LOOPBACK: Final[tuple[Address, ...]] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
HOST_ITSELF: Final = frozenset({"localhost", "host.docker.internal"})
_CERTIFICATE: Final = r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*"
_FLOWS_LEAST: Final = 64
_DESCRIPTORS_PER_BOX: Final = 8


@dataclass(frozen=True, slots=True)
class Reached:
    """A connection to outside; `direct` when it leads to the destination and not to the user's proxy."""

    sock: socket.socket
    direct: bool


class World:
    """`directory` is a private one, for the moment a key needs a file."""

    def __init__(self, poller: Poller, directory: str) -> None:
        self.poller = poller
        self.pipes = Pipes()
        self.directory = directory
        self.boxes = 0
        self.busy = 0  # boxes with connections
        self.own_addresses: frozenset[Address] = frozenset()
        self.roots: ssl.SSLContext | None = None  # whom inspected servers are verified by; without it none is reached
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._resolver = Resolver(HostView())
        self._upstream = Upstream(self._resolver)

    def __repr__(self) -> str:
        return f"<World {self.boxes} boxes, {self.busy} busy>"

    def set_host(self, facts: HostFacts) -> None:
        """UserError for facts that are none; then the old ones stay."""
        upstream = Upstream(self._resolver, facts.proxy, facts.no_proxy)
        try:
            own = frozenset(map(ipaddress.ip_address, facts.addresses))
        except ValueError as error:
            raise UserError(f"an address of the host: {error}", code="bad-host") from error
        self._resolver.update(HostView(nameservers=facts.nameservers, hosts=facts.hosts))
        self._upstream = upstream
        self.own_addresses = own

    def set_roots(self, pem: bytes) -> None:
        """UserError for what holds no certificate; then the old ones stay."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which verifies, names included
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_verify_locations(cadata="".join(re.findall(_CERTIFICATE, pem.decode("latin-1"))))
        except (ssl.SSLError, ValueError) as error:
            raise UserError(f"the root certificates cannot be read: {error}", code="bad-roots") from error
        self.roots = context

    def flows_per_box(self) -> int:
        """A box's share of the descriptors: two for each connection, and none of them another box's."""
        left = self._descriptors - DESCRIPTORS_KEPT_MAX - self.boxes * _DESCRIPTORS_PER_BOX
        return min(FLOWS_PER_BOX, max(_FLOWS_LEAST, left // 2 // max(1, self.busy)))

    async def reach(self, evaluator: Evaluator, host: Host, port: int) -> Reached | Verdict:
        """Connect to an allowed host; a Verdict when the address it leads to is refused. Raises Unavailable."""
        addresses: tuple[Address, ...] = ()
        try:
            addresses = await self._addresses(host)
            checked = check(evaluator, host, port, addresses)
        except Unavailable:
            if not self._upstream.serves(host, port, ()):
                raise
            checked = check_name(evaluator, host, port)  # behind some proxies only the proxy can resolve names
        if not isinstance(checked, Checked):
            return checked
        # All its addresses are asked about: with a private one among them the proxy might choose just that.
        if self._upstream.serves(host, port, addresses):
            return Reached(await self._upstream.connect(checked), direct=False)
        return Reached(await dial(checked), direct=True)

    async def close(self) -> None:
        await self._resolver.close()

    async def _addresses(self, host: Host) -> tuple[Address, ...]:
        if host.text in HOST_ITSELF:
            return _LOOPBACK
        if host.address is not None:
            return (host.address,)
        return await self._resolver.resolve(host)
