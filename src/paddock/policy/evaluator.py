"""The one judge: DNS, gateway, log, `policy check` and suggestions all ask this class, so they cannot disagree.

Theory. Inside a layer the most specific rule decides:

    name:port > name > *.longest:port > *.longest > ... > *:port > * > the layer's default
    address:port > address > longest/prefix:port > longest/prefix > ... > *:port > * > the layer's default

Of two rules for one pattern the source's rank decides, then deny, then bypass. Every layer must agree; the first that
does not names the reason. Two kinds of targets are never opened by `*`, by a default or by a name alone: the host's own
loopback (`localhost`), and reserved addresses (ranges.py) with the host's own. For these at least one layer must
say so with a rule for just that port or range, and a layer whose default is deny must say so itself. A project's layer
only narrows: what it allows opens none of these, and what it bypasses is opaque only if another layer says so too.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from paddock.policy import ranges
from paddock.policy.host import Address, Host
from paddock.policy.layering import PROJECT
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST, OWN_ZONES, Pattern
from paddock.policy.requests import RequestRules
from paddock.policy.rules import RANK, Action, Default, Layer, Policy, Rule, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANY_PORT = 0  # the key of rules for all ports; as an asked port, one that no rule names
_HOST_ITSELF = frozenset({LOCALHOST, HOST_ALIAS})
_LOOPBACK = frozenset({int(IPv4Address("127.0.0.1")), int(IPv6Address("::1"))})
_OWN = "an address of the host itself"
_Ports = dict[int, Rule]


class Evaluator:
    """A policy made ready to decide; building it raises UserError for a pattern that is none."""

    def __init__(self, policy: Policy, own_addresses: frozenset[Address] = frozenset()) -> None:
        self._layers = tuple(_Index(layer) for layer in policy.layers)
        self._own = own_addresses
        self.requests = RequestRules(policy.layers)

    def __repr__(self) -> str:
        return f"<Evaluator {', '.join(map(repr, self._layers)) or 'without layers'}>"

    def decide(self, host: Host, port: int) -> Verdict:
        """Whether a connection to `host` may be tried; an address is judged as such at once."""
        if host.address is not None:
            return self.decide_address(host, port, host.address)
        if host.text in _HOST_ITSELF:
            return self._localhost(host, port)
        if host.text.rpartition(".")[2] in OWN_ZONES:
            return Verdict(False, None, f"{host.text} is a name of the gateway or of the host itself", final=True)
        return self._by_rules(host, port)

    def decide_address(self, host: Host, port: int, address: Address) -> Verdict:
        """Whether `host` may be reached at `address`, which it resolved to (or is)."""
        address, *inner = ranges.forms(address)
        if host.address is None:
            verdict = self.decide(host, port)
        elif host.address != address:
            return Verdict(False, None, f"{host.text} does not resolve to another address", final=True)
        else:
            verdict = self._by_rules(host, port)
        if not verdict.allowed:
            return verdict
        if host.text in _HOST_ITSELF:
            if ranges.is_loopback(address):
                return verdict
            return Verdict(False, None, f"{host.text} resolved to {address}, which is not loopback", final=True)
        refusal, rule = self._closed(host, port, address)
        for form in inner:
            refusal = refusal or self._carried(host, port, address, form)
        if refusal is not None:
            return refusal
        if rule is not None and rule.bypass and not verdict.bypass:
            return Verdict(True, verdict.rule, verdict.reason, bypass=True, observed=verdict.observed)
        return verdict

    def may_resolve(self, host: Host) -> bool:
        """Whether there is a port at which `host` could be allowed, so that its name may be looked up."""
        if host.address is not None:
            return False
        ports = {port for layer in self._layers for port in layer.ports(host)}
        return any(self.decide(host, port).allowed for port in (_ANY_PORT, *ports))

    def localhost_ports(self) -> tuple[int, ...]:
        """The ports of the host's loopback that the box may reach."""
        host = Host(LOCALHOST)
        ports = {port for layer in self._layers for port in layer.ports(host)} - {_ANY_PORT}
        return tuple(sorted(port for port in ports if self.decide(host, port).allowed))

    def _by_rules(self, host: Host, port: int) -> Verdict:
        decided: Rule | None = None
        bypass, granted, observed = True, False, False
        for layer in self._layers:
            rule = layer.find(host, port)
            if rule is None:
                if layer.default is Default.DENY:
                    return _silent(layer, host, port)
                observed = observed or layer.default is Default.OBSERVE
                continue
            if rule.action is Action.DENY:
                return _refused(layer, rule, host, port)
            bypass = bypass and rule.bypass
            granted = granted or layer.opens
            decided = rule
        if not self._layers:
            return Verdict(False, None, f"no rule allows {host.with_port(port)}: there is no policy")
        if decided is not None:
            opaque = bypass and granted
            return Verdict(True, decided, f"allowed by {_named(decided)}", bypass=opaque, observed=observed)
        return Verdict(
            True, None, "observed: it would be denied" if observed else "allowed by default", False, observed
        )

    def _localhost(self, host: Host, port: int) -> Verdict:
        """`localhost:PORT` is opened by a rule of just that text."""
        decided: Rule | None = None
        bypass = True
        for layer in self._layers:
            rule = layer.names.get(LOCALHOST, {}).get(port)
            if rule is None:
                if layer.default is Default.DENY:
                    return _silent(layer, host, port)
                continue
            if rule.action is Action.DENY:
                return _refused(layer, rule, host, port)
            bypass = bypass and rule.bypass
            decided = rule if layer.opens else decided
        if decided is None:
            return Verdict(False, None, f"no rule allows localhost:{port}, and the host's own is opened by name only")
        return Verdict(True, decided, f"allowed by {_named(decided)}", bypass=bypass)

    def _closed(self, host: Host, port: int, address: Address) -> tuple[Verdict | None, Rule | None]:
        """Why `address` stays closed to an allowed `host`, or None and the rule that speaks of it."""
        closed = ranges.reserved(address)
        own = address in self._own and not ranges.is_loopback(address)
        opened: Rule | None = None
        for layer in self._layers:
            rule = layer.find_address(address, port)
            if rule is not None and rule.action is Action.DENY:
                return _refused(layer, rule, host, port, at=address), None
            if rule is None or not _opens(rule, closed, own=own):
                if (closed or own) and layer.default is Default.DENY:
                    return _reserved(layer, host, address, closed), None
                continue
            opened = rule if layer.opens else opened
        if (closed or own) and opened is None:
            return _reserved(None, host, address, closed), None
        return None, opened

    def _carried(self, host: Host, port: int, address: Address, inner: Address) -> Verdict | None:
        """Why an address is closed for the one it carries inside; nothing opens these."""
        for layer in self._layers:
            rule = layer.find_address(inner, port)
            if rule is not None and rule.action is Action.DENY:
                return replace(_refused(layer, rule, host, port, at=address), final=True)
        closed = ranges.reserved(inner)
        if closed is None and inner not in self._own:
            return None
        what = closed.what if closed else _OWN
        return Verdict(False, None, f"{host.text} leads to {address}, which carries {inner}, {what}", final=True)


def _opens(rule: Rule, closed: ranges.Range | None, *, own: bool) -> bool:
    """An address of the host itself is opened one by one, a reserved one from within its range."""
    pattern = Pattern(rule.pattern)
    if pattern.network is None:
        return True  # localhost:PORT, found for its own address
    if own and pattern.network.num_addresses != 1:
        return False
    return closed is None or closed.holds(pattern.network)


class _Index:
    """One layer's rules by what they speak of."""

    def __init__(self, layer: Layer) -> None:
        self.name = layer.name
        self.default = layer.default
        self.opens = layer.name != PROJECT  # or only narrows what others open
        self.names: dict[str, _Ports] = {}
        self._below: dict[str, _Ports] = {}
        self._every: _Ports = {}
        self._networks: dict[int, dict[int, dict[int, _Ports]]] = {
            4: {},
            6: {},
        }  # version, prefix length, first address
        self._size = len(layer.rules)
        for rule in layer.rules:
            self._add(rule)
        self._lengths = {version: sorted(table, reverse=True) for version, table in self._networks.items()}
        self._longest = max(map(len, self._below), default=0)

    def __repr__(self) -> str:
        return f"{self.name}: {self._size} rules, default {self.default.value}"

    def _add(self, rule: Rule) -> None:
        pattern = Pattern(rule.pattern)
        if pattern.network is not None:
            network = pattern.network
            lengths = self._networks[network.version].setdefault(network.prefixlen, {})
            ports = lengths.setdefault(int(network.network_address), {})
        elif not pattern.name:
            ports = self._every
        else:
            ports = (self._below if pattern.wildcard else self.names).setdefault(pattern.name, {})
        other = ports.get(pattern.port)
        if other is None or _weight(rule) < _weight(other):
            ports[pattern.port] = rule

    def find(self, host: Host, port: int) -> Rule | None:
        """The most specific rule for `host` as it is written."""
        if host.address is not None:
            return self.find_address(host.address, port) or _of(self._every, port)
        if ports := self.names.get(host.text):
            rule = _of(ports, port)
            if rule:
                return rule
        for ports in self._above(host.text):
            rule = _of(ports, port)
            if rule:
                return rule
        return _of(self._every, port)

    def find_address(self, address: Address, port: int) -> Rule | None:
        """The most specific rule among those for addresses and ranges; at 127.0.0.1 and ::1, localhost's come first."""
        if (
            int(address) in _LOOPBACK
            and ranges.is_loopback(address)
            and (rule := self.names.get(LOCALHOST, {}).get(port))
        ):
            return rule
        for ports in self._around(address):
            rule = _of(ports, port)
            if rule:
                return rule
        return None

    def ports(self, host: Host) -> Iterator[int]:
        """The ports that any rule about the name of `host` speaks of."""
        name = LOCALHOST if host.text == HOST_ALIAS else host.text
        yield from self.names.get(name, ())
        for ports in self._above(name):
            yield from ports
        yield from self._every

    def _above(self, name: str) -> Iterator[_Ports]:
        """What wildcards say of `name`, the longest first."""
        below, longest = self._below, self._longest
        at = name.find(".", max(0, len(name) - longest - 1)) if longest else -1
        while at >= 0:
            if ports := below.get(name[at + 1 :]):
                yield ports
            at = name.find(".", at + 1)

    def _around(self, address: Address) -> Iterator[_Ports]:
        version, bits = (4, 32) if isinstance(address, IPv4Address) else (6, 128)
        number, table = int(address), self._networks[version]
        for length in self._lengths[version]:
            shift = bits - length
            if ports := table[length].get(number >> shift << shift):
                yield ports


def _of(ports: _Ports, port: int) -> Rule | None:
    return ports.get(port) or ports.get(_ANY_PORT)


def _weight(rule: Rule) -> tuple[int, bool, bool]:
    """Smaller is heard: the source, then deny, then bypass."""
    return RANK[rule.source.kind], rule.action is Action.ALLOW, not rule.bypass


def _silent(layer: _Index, host: Host, port: int) -> Verdict:
    return Verdict(False, None, f"no rule of the {layer.name} policy allows {_target(host, port)}", layer=layer.name)


def _refused(layer: _Index, rule: Rule, host: Host, port: int, at: Address | None = None) -> Verdict:
    address = "" if at is None or at == host.address else str(at)
    where = f" at {address}" if address else ""
    reason = f"{_target(host, port)}{where} is denied by {_named(rule)}"
    return Verdict(False, rule, reason, layer=layer.name, address=address)


def _reserved(layer: _Index | None, host: Host, address: Address, closed: ranges.Range | None) -> Verdict:
    what = closed.what if closed else _OWN
    refusing = layer.name if layer else ""
    if host.address == address:
        return Verdict(False, None, f"{host.text} is {what}, which only a rule for it opens", layer=refusing)
    reason = f"{host.text} leads to {address}, {what}, which only a rule for it opens"
    return Verdict(False, None, reason, layer=refusing, address=str(address))


def _named(rule: Rule) -> str:
    return f"rule {rule.pattern} ({rule.source})"


def _target(host: Host, port: int) -> str:
    return host.with_port(port) if port else host.text
