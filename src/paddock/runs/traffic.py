"""What a box's network did during a run, summed up from the gateway's log, and what it tells about the agent's key.

A box chooses the names it asks for, so the number of hosts that are told apart is bounded. The log is in two halves
that take turns: who reads too late misses some of it, which is said.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paddock.gateway.records import Decision, Event
from paddock.limits import RUN_HOSTS_MAX, RUN_REFUSED_ANSWERS_MAX, RUN_REFUSED_S
from paddock.reports import HostCount, TrafficInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paddock.agents import Agent
    from paddock.gateway.records import Record

_TOLD_APART = 32 * RUN_HOSTS_MAX
_REST = "(others)"
_KEY_REFUSED = frozenset({401, 403})
_NO_VALUE = 424  # the gateway's own answer: the secret has no value
_SPENT = 402  # the budget's, which is no matter of policy
_SAYS_NOTHING = frozenset({0, 404, *range(500, 600)})  # of whether a key is good


class Traffic:
    """One run's; `agent` is None where the definition is not known any more. `key_hosts` are where its keys go."""

    def __init__(self, agent: Agent | None, key_hosts: Iterable[str] = ()) -> None:
        self._agent = agent
        self._own = (*key_hosts, *(agent.hosts.allow if agent else ()))
        self._connections = self._requests = 0
        self._tried: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()  # names that were looked up; who is refused then tries no connection
        self._complete = True
        self._refused_answers = 0
        self._accepted = False
        self._first_refused_s = 0.0
        self.key_refused = ""  # the host that did not take its key

    def __repr__(self) -> str:
        return f"<Traffic {self._requests} requests, {sum(self._tried.values())} refused>"

    def add(self, records: Iterable[Record], now_s: float) -> None:
        for record in records:
            match record.event:
                case Event.DECISION:
                    self._decided(record)
                case Event.REQUEST:
                    self._requested(record, now_s)
                case Event.LOST:
                    self._complete = False
                case Event.END | Event.POLICY:
                    pass

    def missed(self) -> None:
        self._complete = False

    def _decided(self, record: Record) -> None:
        if record.decision is not Decision.DENY:
            self._connections += record.port > 0
        else:
            self._count(self._tried if record.port else self._asked, record.host)

    def _requested(self, record: Record, now_s: float) -> None:
        if record.decision is Decision.DENY:
            if record.status == _NO_VALUE:
                self.key_refused = record.host
            if record.status not in {_NO_VALUE, _SPENT}:
                self._count(self._tried, record.host)
            return
        self._requests += 1
        if not self._has_key(record) or record.status in _SAYS_NOTHING:
            return
        if record.status in _KEY_REFUSED:
            self._first_refused_s = self._first_refused_s if self._refused_answers else now_s
            self._refused_answers += 1
            self.key_refused = record.host
        else:
            self._accepted, self.key_refused = True, ""

    def _count(self, counter: Counter[str], host: str) -> None:
        counter[host if host in counter or len(counter) < _TOLD_APART else _REST] += 1

    def _has_key(self, record: Record) -> bool:
        """Whether the agent's own key was put into a request; the token of a repository is another matter."""
        if self._agent is None or not record.secrets:
            return False
        named = set(record.secrets.split(",")) & set(self._agent.keys.any)
        return bool(named) or matches(record.host, self._own)

    def is_shut_out(self, now_s: float) -> bool:
        """Whether every answer so far was that the key is not good: more of them help nobody."""
        enough = self._refused_answers >= RUN_REFUSED_ANSWERS_MAX and now_s - self._first_refused_s >= RUN_REFUSED_S
        return enough and not self._accepted

    @property
    def answers(self) -> int:
        """How often the key was refused."""
        return self._refused_answers

    def info(self) -> TrafficInfo:
        refused, telemetry = Counter[str](), Counter[str]()
        for host, count in self._refused().items():
            (telemetry if self._is_telemetry(host) else refused)[host] += count
        return TrafficInfo(
            connections=self._connections,
            requests=self._requests,
            refused=_listed(refused),
            telemetry=_listed(telemetry),
            complete=self._complete,
        )

    def needed(self) -> tuple[str, ...]:
        """Hosts that the agent cannot do without and that were refused."""
        refused = [host for host in self._refused() if not self._is_telemetry(host)]
        domains = self._agent.hosts.domains if self._agent else ()
        own = (*self._own, *domains, *(f"*.{domain}" for domain in domains))
        if needed := [host for host in refused if matches(host, own)]:
            return tuple(needed[:3])
        return tuple(refused[:3]) if not self._connections else ()

    def _refused(self) -> Counter[str]:
        names = Counter({host: count for host, count in self._asked.items() if host not in self._tried})
        return self._tried + names

    def _is_telemetry(self, host: str) -> bool:
        return self._agent is not None and matches(host, self._agent.hosts.telemetry)


def matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this host, or is `*.name` and the host lies below the name."""
    host = host.lower()
    for pattern in patterns:
        name = pattern.lower().partition(":")[0]
        if host == name or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def _listed(counter: Counter[str]) -> tuple[HostCount, ...]:
    most = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    shown = [HostCount(host=host, count=count) for host, count in most[:RUN_HOSTS_MAX]]
    rest = sum(count for _, count in most[RUN_HOSTS_MAX:])
    return (*shown, HostCount(host=_REST, count=rest)) if rest else tuple(shown)
