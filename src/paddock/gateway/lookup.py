"""A box's questions for names, answered from its policy alone: nothing of a question ever leaves the host.

A name that policy permits at some port means an address of the box's own table; every other name means the one refusal
address, where the client is told why. In a box that asks, every name gets an address of its own, so that the question
can be put by name for any protocol.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable
from paddock.gateway import dns
from paddock.limits import GATEWAY_ADDRESS, NAME_TTL_DEFAULT, REFUSAL_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.names import Names
    from paddock.policy import Evaluator, Host

SEAL_NAME: Final = "denied.paddock"  # what a starting box asks for to prove its seal
OWN_ZONE: Final = ".paddock"
_GATEWAY: Final = IPv4Address(GATEWAY_ADDRESS)
_REFUSAL: Final = IPv4Address(REFUSAL_ADDRESS)
_FIXED: Final = {
    "gateway.paddock": _GATEWAY,
    "host.docker.internal": _GATEWAY,
    "localhost": IPv4Address("127.0.0.1"),
    SEAL_NAME: _REFUSAL,
}


class Lookup:
    """One box's names. `on_denied` hears each denied name that is asked for, as often as it is asked."""

    def __init__(self, names: Names, evaluator: Evaluator, on_denied: Callable[[Host], None]) -> None:
        self._names = names
        self.evaluator = evaluator
        self.asks = False  # every name may be asked about, so every name gets an address
        self._on_denied = on_denied

    def __repr__(self) -> str:
        return f"<Lookup {self._names!r}>"

    def answer(self, data: bytes, *, tcp: bool = False) -> bytes:
        """The answer to a message, or nothing for what is no question."""
        query = dns.parse_query(data)
        if isinstance(query, dns.BadQuery):
            return query.response
        if query.host is None or query.host.address is not None:
            return dns.refused(query, dns.Ede.PROHIBITED, "not a host name", tcp=tcp)
        if query.qclass != dns.IN or query.qtype not in {dns.A, dns.AAAA}:
            return dns.refused(query, dns.Ede.NOT_SUPPORTED, "only addresses are answered here", tcp=tcp)
        if query.qtype == dns.AAAA:
            return dns.nodata(query, tcp=tcp)
        try:
            address = self._address(query.host)
        except Unavailable as error:
            return dns.servfail(query, dns.Ede.OTHER, error.message, tcp=tcp)
        return dns.answer_address(query, address, NAME_TTL_DEFAULT, tcp=tcp)

    def _address(self, host: Host) -> IPv4Address:
        fixed = _FIXED.get(host.text)
        if fixed is not None:
            return fixed
        if self.evaluator.may_resolve(host):
            return self._names.address_of(host)
        self._on_denied(host)
        if self.asks and not host.text.endswith((OWN_ZONE, ".localhost")):
            return self._names.address_of(host)
        return _REFUSAL
