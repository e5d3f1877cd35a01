"""The addresses a box knows names by: each permitted name gets one of its own, which leads back to the name.

An address is not given to another name while a connection uses it, nor for a while after its name was dropped, so that
a client which kept an old answer cannot reach the wrong host. Tables begin at a random place: after a restart of the
gateway the answers of before lead nowhere instead of somewhere else.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable
from paddock.limits import NAME_COOL_DOWN_S, NAMES_PER_BOX, SYNTHETIC_FIRST, SYNTHETIC_LAST

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.policy import Host

_FIRST: Final = int(ipaddress.IPv4Address(SYNTHETIC_FIRST))
_SPAN: Final = int(ipaddress.IPv4Address(SYNTHETIC_LAST)) - _FIRST + 1


class _Entry:
    __slots__ = ("address", "flows", "host")

    def __init__(self, host: Host, address: int) -> None:
        self.host = host
        self.address = address
        self.flows = 0


class Names:
    """One box's table of at most `capacity` names; the one unused for longest makes room."""

    def __init__(self, capacity: int = NAMES_PER_BOX, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._by_name: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first
        self._by_address: dict[int, _Entry] = {}
        self._cooling: deque[tuple[float, int]] = deque()  # (when it may be used again, address)
        self._start = secrets.randbelow(_SPAN)
        self._taken = 0  # addresses in use or cooling: never more than twice the capacity

    def __repr__(self) -> str:
        return f"<Names {len(self._by_name)}/{self._capacity}, {len(self._cooling)} cooling>"

    def __len__(self) -> int:
        return len(self._by_name)

    def address_of(self, host: Host) -> ipaddress.IPv4Address:
        """The name's address, a new one if need be; Unavailable code="names" when all are in use or cooling."""
        entry = self._by_name.get(host.text)
        if entry is None:
            entry = _Entry(host, self._free_address())
            self._by_name[host.text] = entry
            self._by_address[entry.address] = entry
        else:
            self._by_name.move_to_end(host.text)
        return ipaddress.IPv4Address(entry.address)

    def host_of(self, address: ipaddress.IPv4Address) -> Host | None:
        """The name behind an address; None for one that has none now."""
        entry = self._by_address.get(int(address))
        if entry is None:
            return None
        self._by_name.move_to_end(entry.host.text)
        return entry.host

    def hold(self, address: ipaddress.IPv4Address) -> None:
        """A connection to this address opened: it keeps its name until as many were released."""
        entry = self._by_address.get(int(address))
        if entry is not None:
            entry.flows += 1

    def release(self, address: ipaddress.IPv4Address) -> None:
        entry = self._by_address.get(int(address))
        if entry is not None and entry.flows:
            entry.flows -= 1

    def _free_address(self) -> int:
        if len(self._by_name) >= self._capacity:
            self._drop_oldest()
        if self._cooling and self._cooling[0][0] <= self._clock():
            return self._cooling.popleft()[1]
        self._taken += 1
        return _FIRST + (self._start + self._taken) % _SPAN

    def _drop_oldest(self) -> None:
        oldest = next((entry for entry in self._by_name.values() if not entry.flows), None)
        if oldest is None:
            raise Unavailable("too many names are in use", code="names")
        if len(self._cooling) >= self._capacity and self._cooling[0][0] > self._clock():
            raise Unavailable("too many names in a short time", code="names")
        del self._by_name[oldest.host.text]
        del self._by_address[oldest.address]
        self._cooling.append((self._clock() + NAME_COOL_DOWN_S, oldest.address))
