"""What all boxes share: the loop's poller, what is known of the host, and the one way out."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.gateway.control import HostFacts
from paddock.gateway.dial import Checked, check, dial
from paddock.gateway.flow import Pipes
from paddock.limits import DESCRIPTORS_KEPT, FLOWS_PER_BOX
from paddock.policy import Address, Evaluator, Host, Verdict

if TYPE_CHECKING:
    import socket

    from paddock.gateway.poller import Poller

_LOOPBACK: Final[tuple[Address, ...]] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
HOST_ITSELF: Final = frozenset({"localhost", "host.docker.internal"})
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
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.set_host(HostFacts())

    def __repr__(self) -> str:
        return f"<World {self.boxes} boxes, {self.busy} busy>"

    def set_host(self, facts: HostFacts) -> None:
        """UserError for facts that are none; then the old ones stay."""
        self.own_addresses = frozenset(map(ipaddress.ip_address, facts.addresses))

    def flows_per_box(self) -> int:
        """A box's share of the descriptors: two for each connection, and none of them another box's."""
        left = self._descriptors - DESCRIPTORS_KEPT - self.boxes * _DESCRIPTORS_PER_BOX
        return min(FLOWS_PER_BOX, max(_FLOWS_LEAST, left // 2 // max(1, self.busy)))

    async def reach(self, evaluator: Evaluator, host: Host, port: int) -> Reached | Verdict:
        """Connect to an allowed host; a Verdict when the address it leads to is refused. Raises Unavailable."""
        addresses = await self._addresses(host)
        checked = check(evaluator, host, port, addresses)
        if not isinstance(checked, Checked):
            return checked
        return Reached(await dial(checked), True)

    async def _addresses(self, host: Host) -> tuple[Address, ...]:
        if host.text in HOST_ITSELF:
            return _LOOPBACK
        if host.address is not None:
            return (host.address,)
        raise NotImplementedError


def now() -> float:
    return asyncio.get_running_loop().time()
