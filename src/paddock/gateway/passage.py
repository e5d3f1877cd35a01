"""An allowed connection on its way: the flow, what was decided about it, and its record at the end."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from paddock.gateway.flow import Flow

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from ipaddress import IPv4Address

    from paddock.gateway.judging import Grant
    from paddock.gateway.pipes import Pipes
    from paddock.gateway.poller import Poller
    from paddock.gateway.records import Decided
    from paddock.policy import Evaluator


class Passage:
    """`address` is the box's own name for the host; `on_end` is called once."""

    __slots__ = ("_on_end", "address", "decided", "direct", "flow", "grant", "reason", "started")

    def __init__(
        self,
        poller: Poller,
        pipes: Pipes,
        sockets: tuple[socket.socket, socket.socket],
        grant: Grant,
        decided: Decided,
        on_end: Callable[[Passage], None],
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
        self.flow = Flow(poller, pipes, *sockets, self._ended)

    def __repr__(self) -> str:
        return f"<Passage {self.grant.host.with_port(self.grant.port)} {self.flow!r}>"

    def still_allowed(self, evaluator: Evaluator) -> bool:
        """By another policy. What a person allowed once stays until a rule speaks against it."""
        if self.grant.inside:
            return True
        host, port = self.grant.host, self.grant.port
        verdict = evaluator.decide(host, port)
        if verdict.allowed and self.direct and host.address is None:
            try:
                peer = ipaddress.ip_address(self.flow.server.getpeername()[0])
            except (OSError, ValueError):
                return False  # it is gone already
            verdict = evaluator.decide_address(host, port, peer)
        if not verdict.allowed:
            return self.grant.once and verdict.rule is None
        return verdict.bypass or not self.grant.verdict.bypass  # what passed unseen cannot be looked at any more

    def end(self, reason: str) -> None:
        self.reason = reason
        self.flow.abort()

    def _ended(self, _flow: Flow) -> None:
        self._on_end(self)
