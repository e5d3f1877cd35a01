"""Rules of boxes, decisions, and what waits for one. Made by scripts/unasync.py from _async/: edit that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from paddock import codec
from paddock.client.answers import expect_list, expect_object
from paddock.model import Network
from paddock.reports import NetworkLog, PendingInfo, PolicyInfo, VerdictInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model import NetworkRule

    Decision = Literal["once", "box", "always", "no"]


class Calls(Protocol):
    def call(self, verb: str, **args: object) -> object: ...


class Policies:
    """`box` names a box; left empty it means the user's own file, or the rules of a new box."""

    def __init__(self, daemon: Calls) -> None:
        self._daemon = daemon

    def __repr__(self) -> str:
        return f"<Policies of {self._daemon!r}>"

    def show(self, box: str = "") -> PolicyInfo:
        return codec.from_wire(PolicyInfo, self._daemon.call("policy_show", box=box))

    def check(self, target: str, box: str = "", method: str = "") -> VerdictInfo:
        """What the gateway would decide about `host` or `host:port`, or a request to a URL, by the same code."""
        answer = self._daemon.call("policy_check", box=box, target=target, method=method)
        return codec.from_wire(VerdictInfo, answer)

    def change(self, box: str, change: Network) -> PolicyInfo:
        """Add rules and presets to a box and set what is not empty; in force when this returns."""
        return codec.from_wire(PolicyInfo, self._daemon.call("network", box=box, change=change))

    def add(self, rules: Sequence[NetworkRule], box: str = "") -> PolicyInfo:
        if box:
            return self.change(box, Network(rules=tuple(rules)))
        return codec.from_wire(PolicyInfo, self._daemon.call("policy_user", rules=tuple(rules)))

    def remove(self, patterns: Sequence[str], box: str = "") -> PolicyInfo:
        """All that is said of these patterns; `GET host/path` names one rule about requests."""
        return codec.from_wire(PolicyInfo, self._daemon.call("policy_rm", box=box, patterns=tuple(patterns)))

    def suggest(self, box: str) -> list[str]:
        """The narrowest patterns that would allow what the box was refused."""
        return [str(pattern) for pattern in expect_list(self._daemon.call("policy_suggest", box=box))]

    def pending(self) -> list[PendingInfo]:
        return [codec.from_wire(PendingInfo, row) for row in expect_list(self._daemon.call("policy_pending"))]

    def answer(self, ask: str, decision: Decision) -> None:
        self._daemon.call("policy_answer", ask=ask, decision=decision)

    def approve(self, box: str) -> list[str]:
        """Accept what the project file asks for, by the id `pending` lists it under; returns that."""
        return [str(pattern) for pattern in expect_list(self._daemon.call("policy_approve", box=box))]

    def export(self, box: str = "", layout: str = "paddock") -> tuple[str, list[str]]:
        """The rules as a file of `paddock`, `docker` or `agent-sandbox`, and what could not be said in it."""
        answer = expect_object(self._daemon.call("policy_export", box=box, format=layout))
        return str(answer.get("text")), [str(note) for note in expect_list(answer.get("notes"))]

    def logs(self, box: str = "") -> list[NetworkLog]:
        """The files with every decision about a box, or about all; `paddock.gateway.audit` reads them."""
        return [
            codec.from_wire(NetworkLog, row) for row in expect_list(self._daemon.call("network_logs", box=box))
        ]
