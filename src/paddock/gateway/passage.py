"""An allowed connection on its way: what carries it, what was decided about it, and its record at the end."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from ipaddress import IPv4Address

    from paddock.gateway.judging import Grant
    from paddock.gateway.poller import Poller
    from paddock.gateway.records import Decided
    from paddock.policy import Evaluator


class Carrier(Protocol):
    """Whatever holds a connection's two ends: a flow, or an inspected conversation, which may have no server yet."""

    @property
    def client(self) -> socket.socket: ...
    @property
    def server(self) -> socket.socket | None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def active(self) -> float: ...
    @property
    def sent(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def half_closed(self) -> bool: ...
    def abort(self) -> None: ...


F = TypeVar("F", bound=Carrier)


class Passage(Generic[F]):
    """`carry` makes what carries it, which calls back when it has ended. `address` is the box's own name for the host;
    `on_end` is called once."""

    __slots__ = ("_on_end", "address", "decided", "direct", "flow", "grant", "reason", "started")

    def __init__(
        self,
        poller: Poller,
        carry: Callable[[Callable[[], None]], F],
        grant: Grant,
        decided: Decided,
        on_end: Callable[[Passage[F]], None],
        *,
        direct: bool = True,
        address: IPv4Address | None = None,
    ) -> None:
        self.grant = grant
        self.decided = decided
        self.direct = direct
        self.address = address
        self.started = poller.now
        self.reason = ""
        self._on_end = on_end
        self.flow = carry(self._ended)

    def __repr__(self) -> str:
        return f"<Passage {self.grant.host.with_port(self.grant.port)} {self.flow!r}>"

    def still_allowed(self, evaluator: Evaluator) -> bool:
        """By another policy. What a person allowed once stays until a rule speaks against it."""
        if self.grant.inside:
            return True
        host, port = self.grant.host, self.grant.port
        verdict = evaluator.decide(host, port)
        server = self.flow.server
        if verdict.allowed and self.direct and host.address is None and server is not None:
            try:
                peer = ipaddress.ip_address(server.getpeername()[0])
            except (OSError, ValueError):
                return False  # it is gone already
            verdict = evaluator.decide_address(host, port, peer)
        if not verdict.allowed:
            return self.grant.once and verdict.rule is None
        return verdict.bypass or not self.grant.verdict.bypass  # what passed unseen cannot be looked at any more

    def end(self, reason: str) -> None:
        self.reason = reason
        self.flow.abort()

    def _ended(self) -> None:
        self._on_end(self)
