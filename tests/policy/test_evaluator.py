from __future__ import annotations

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.policy.evaluator import Evaluator
from paddock.policy.host import Address, Host
from paddock.policy.pattern import Pattern
from paddock.policy.rules import Action, Default, Layer, Policy, Rule, Source, SourceKind
from tests.support import reference_policy
from tests.support.hostile_hosts import hostile_hosts
from tests.support.properties import STRINGS, bounded, patient

USER = Source(SourceKind.USER, "policy.toml")


def rules(*lines: str, source: Source = USER) -> tuple[Rule, ...]:
    """`+pattern` allows, `-pattern` denies, `=pattern` bypasses."""
    return tuple(
        Rule(Action.DENY if line[0] == "-" else Action.ALLOW, Pattern(line[1:]).text, source, bypass=line[0] == "=")
        for line in lines
    )


def box(*lines: str, default: Default = Default.DENY, own: tuple[str, ...] = ()) -> Evaluator:
    return Evaluator(Policy((Layer("box", default, rules(*lines)),)), frozenset(map(ipaddress.ip_address, own)))


def allowed(evaluator: Evaluator, target: str) -> bool:
    head, _, port = target.rpartition(":")
    return evaluator.decide(Host(head), int(port)).allowed


def leads(evaluator: Evaluator, target: str, address: str) -> bool:
    head, _, port = target.rpartition(":")
    return evaluator.decide_address(Host(head), int(port), ipaddress.ip_address(address)).allowed


# From the most specific down: each decides against all that follow it.
NAME_ORDER = ["api.a.example.com:443", "api.a.example.com", "*.a.example.com:443", "*.a.example.com"]
NAME_ORDER += ["*.example.com:443", "*.example.com", "*.com:443", "*.com", "*:443", "*"]
ADDRESS_ORDER = ["8.8.8.8:443", "8.8.8.8", "8.8.8.0/24:443", "8.8.8.0/24", "8.0.0.0/8:443", "8.0.0.0/8"]
ADDRESS_ORDER += ["0.0.0.0/0:443", "0.0.0.0/0", "*:443", "*"]
SIX_ORDER = ["[2600::1]:443", "2600::1", "[2600::/64]:443", "2600::/64", "2600::/16", "::/0", "*:443", "*"]


@pytest.mark.parametrize(
    ("order", "target"),
    [(NAME_ORDER, "api.a.example.com:443"), (ADDRESS_ORDER, "8.8.8.8:443"), (SIX_ORDER, "2600::1:443")],
)
@pytest.mark.parametrize("default", list(Default))
def test_the_most_specific_rule_decides(order: list[str], target: str, default: Default) -> None:
    for number, pattern in enumerate(order):
        rest = order[number + 1 :]
        for shuffled in (rest, rest[::-1]):
            denying = [f"-{other}" for other in shuffled]
            allowing = [f"+{other}" for other in shuffled]
            assert allowed(box(*denying, f"+{pattern}", default=default), target), pattern
            assert not allowed(box(f"-{pattern}", *allowing, default=default), target), pattern


@pytest.mark.parametrize("default", list(Default))
def test_without_a_rule_the_default_decides(default: Default) -> None:
    verdict = box("+other.test", default=default).decide(Host("example.com"), 443)
    assert verdict.allowed is (default is not Default.DENY)
    assert verdict.observed is (default is Default.OBSERVE)
    assert verdict.rule is None


def test_without_layers_nothing_is_allowed() -> None:
    evaluator = Evaluator(Policy())
    verdict = evaluator.decide(Host("example.com"), 443)
    assert not verdict.allowed
    assert "no policy" in verdict.reason
    assert not evaluator.may_resolve(Host("example.com"))
    assert not allowed(evaluator, "localhost:80")


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        ("github.com:443", True),
        ("api.github.com:443", True),
        ("a.b.github.com:443", True),
        ("github.com.evil.test:443", False),
        ("evilgithub.com:443", False),
        ("github.com-evil.test:443", False),
        ("github.com.:443", True),
        ("xgithub.com:443", False),
        ("com:443", False),
    ],
)
def test_a_name_is_compared_label_by_label(target: str, verdict: bool) -> None:
    assert allowed(box("+github.com", "+*.github.com"), target) is verdict


def test_a_wildcard_is_not_its_apex() -> None:
    evaluator = box("+*.example.com")
    assert allowed(evaluator, "www.example.com:1")
    assert not allowed(evaluator, "example.com:1")


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (SourceKind.FLAG, SourceKind.USER, True),
        (SourceKind.FLAG, SourceKind.PROJECT, True),
        (SourceKind.USER, SourceKind.PROJECT, True),
        (SourceKind.USER, SourceKind.PRESET, True),
        (SourceKind.PROJECT, SourceKind.PRESET, True),
        (SourceKind.USER, SourceKind.USER, False),
        (SourceKind.PRESET, SourceKind.USER, False),
    ],
)
@pytest.mark.parametrize("pattern", ["example.com:443", "example.com", "*.com", "*"])
def test_of_one_pattern_said_twice_the_source_decides_and_then_deny(
    first: SourceKind, second: SourceKind, verdict: bool, pattern: str
) -> None:
    both = [*rules(f"+{pattern}", source=Source(first)), *rules(f"-{pattern}", source=Source(second))]
    for order in (both, both[::-1]):
        evaluator = Evaluator(Policy((Layer("box", Default.ALLOW, tuple(order)),)))
        assert allowed(evaluator, "example.com:443") is verdict


def test_every_layer_must_agree() -> None:
    ceiling = Layer("organisation", Default.ALLOW, rules("-*.evil.test"))
    below = Layer("box", Default.DENY, rules("+*"))
    evaluator = Evaluator(Policy((ceiling, below)))
    assert allowed(evaluator, "example.com:443")
    verdict = evaluator.decide(Host("x.evil.test"), 443)
    assert (verdict.allowed, verdict.layer) == (False, "organisation")
    narrow = Evaluator(Policy((Layer("organisation", Default.DENY, rules("+example.com")), below)))
    assert allowed(narrow, "example.com:443")
    assert not allowed(narrow, "example.org:443")


# -- the host itself ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lines", [("+*",), ("+*:5432",), ("+*.com",), (), ("+localhost:5433",), ("+127.0.0.0/8",)])
@pytest.mark.parametrize("default", list(Default))
def test_localhost_is_opened_by_its_own_rule_only(lines: tuple[str, ...], default: Default) -> None:
    evaluator = box(*lines, default=default)
    for name in ("localhost", "host.docker.internal"):
        assert not allowed(evaluator, f"{name}:5432")
        assert allowed(box(*lines, "+localhost:5432", default=default), f"{name}:5432")


def test_localhost_leads_to_loopback_and_nowhere_else() -> None:
    evaluator = box("+localhost:5432", "-127.0.0.0/8", default=Default.ALLOW)
    assert leads(evaluator, "localhost:5432", "127.0.0.1")
    assert leads(evaluator, "localhost:5432", "::1")
    assert not leads(evaluator, "localhost:5432", "8.8.8.8")
    assert not leads(evaluator, "localhost:5433", "127.0.0.1")


def test_loopback_by_its_address_is_localhost() -> None:
    evaluator = box("+localhost:5432")
    assert allowed(evaluator, "127.0.0.1:5432")
    assert allowed(evaluator, "::1:5432")
    assert not allowed(evaluator, "127.0.0.1:5433")
    assert not allowed(evaluator, "127.0.0.2:5432")
    assert not allowed(box("+localhost:5432", "-127.0.0.1:5432"), "localhost:5432")


def test_the_ports_of_localhost_are_those_that_every_layer_allows() -> None:
    below = Layer("box", Default.DENY, rules("+localhost:5432", "+localhost:6379", "+localhost:22", "-localhost:22"))
    assert Evaluator(Policy((below,))).localhost_ports() == (5432, 6379)
    ceiling = Layer("organisation", Default.ALLOW, rules("-localhost:6379"))
    assert Evaluator(Policy((ceiling, below))).localhost_ports() == (5432,)
    assert Evaluator(Policy((Layer("organisation"), below))).localhost_ports() == ()


@pytest.mark.parametrize("name", ["gateway.paddock", "denied.paddock", "paddock", "x.localhost", "a.b.paddock"])
def test_names_of_the_gateway_are_never_allowed(name: str) -> None:
    evaluator = box("+*", "+localhost:80", default=Default.ALLOW)
    verdict = evaluator.decide(Host(name), 80)
    assert not verdict.allowed
    assert verdict.final
    assert not evaluator.may_resolve(Host(name))


# -- reserved addresses ------------------------------------------------------------------------------------------------
CLOSED = [
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fc00::1",
    "fe80::1",
]
CLOSED += [
    "fd00:ec2::254",
    "100.100.100.200",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "0.0.0.0",
    "ff02::1",
]
CLOSED += ["::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:c0a8:101::1"]
CLOSED += ["2001:0:4136:e378:8000:63bf:f5ff:fffe", "2a00::5efe:a00:1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]


@pytest.mark.parametrize("address", CLOSED)
@pytest.mark.parametrize("lines", [("+*",), ("+example.com:443",), ("+0.0.0.0/0", "+::/0", "+*"), ()])
def test_a_reserved_address_is_closed_whatever_the_name(address: str, lines: tuple[str, ...]) -> None:
    evaluator = box(*lines, default=Default.ALLOW)
    assert leads(evaluator, "example.com:443", "8.8.8.8") or "+0.0.0.0/0" in lines
    assert not leads(evaluator, "example.com:443", address)
    assert not evaluator.decide(Host(address), 443).allowed


@pytest.mark.parametrize(
    ("rule", "address", "opened"),
    [
        ("+10.0.0.0/8", "10.0.0.1", True),
        ("+10.0.0.0/8:443", "10.0.0.1", True),
        ("+10.0.0.0/8:80", "10.0.0.1", False),
        ("+10.0.0.1", "10.0.0.1", True),
        ("+10.0.0.2", "10.0.0.1", False),
        ("+8.0.0.0/5", "10.0.0.1", False),
        ("+0.0.0.0/0", "10.0.0.1", False),
        ("+10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("+10.0.0.0/8", "64:ff9b::a00:1", False),
        ("+64:ff9b::/96", "64:ff9b::a00:1", False),
        ("+2002::/16", "2002:a00:1::", False),
        ("+64:ff9b::/96", "64:ff9b::808:808", True),
        ("+169.254.0.0/16", "169.254.1.1", True),
        ("+169.254.0.0/16", "169.254.169.254", False),
        ("+169.254.169.254", "169.254.169.254", True),
        ("+100.64.0.0/10", "100.100.100.200", False),
        ("+fc00::/7", "fd00::1", True),
        ("+fc00::/7", "fd00:ec2::254", False),
        ("+::/0", "fd00::1", False),
        ("+8000::/1", "fd00::1", False),
        ("+127.0.0.0/8", "127.0.0.1", True),
        ("+localhost:443", "127.0.0.1", True),
        ("+localhost:80", "127.0.0.1", False),
    ],
)
def test_a_reserved_address_is_opened_from_within_its_range(rule: str, address: str, opened: bool) -> None:
    assert leads(box("+example.com", rule), "example.com:443", address) is opened
    assert box("+*", rule).decide(Host(address), 443).allowed is opened


def test_a_denied_range_closes_allowed_names() -> None:
    evaluator = box("+example.com:443", "-8.8.0.0/16", "+8.8.8.8")
    assert not leads(evaluator, "example.com:443", "8.8.1.1")
    assert not leads(evaluator, "example.com:443", "64:ff9b::808:101")
    assert leads(evaluator, "example.com:443", "8.8.8.8")
    verdict = evaluator.decide_address(Host("example.com"), 443, ipaddress.ip_address("8.8.1.1"))
    assert verdict.address == "8.8.1.1"
    assert verdict.rule is not None
    assert verdict.rule.pattern == "8.8.0.0/16"


def test_an_address_of_the_host_is_opened_one_by_one() -> None:
    own = ("192.168.1.5", "203.0.113.9", "2a00::5", "8.8.4.4", "127.0.0.1")
    assert not leads(box("+*", own=own), "example.com:443", "8.8.4.4")
    assert not leads(box("+*", own=own), "example.com:443", "2a00::5")
    assert not leads(box("+*", "+8.8.0.0/16", own=own), "example.com:443", "8.8.4.4")
    assert not leads(box("+*", "+192.168.0.0/16", own=own), "example.com:443", "192.168.1.5")
    assert leads(box("+*", "+192.168.0.0/16", own=own), "example.com:443", "192.168.1.6")
    assert leads(box("+*", "+192.168.1.5:443", own=own), "example.com:443", "192.168.1.5")
    assert leads(box("+*", "+127.0.0.0/8", own=own), "example.com:443", "127.0.0.1")
    assert not leads(box("+*", "+8.8.4.4", own=own), "example.com:443", "64:ff9b::808:404")


def test_a_layer_that_denies_by_default_must_open_a_reserved_range_itself() -> None:
    below = Layer("box", Default.DENY, rules("+*", "+10.0.0.0/8", "+localhost:80"))
    silent = Evaluator(Policy((Layer("organisation", Default.DENY, rules("+*")), below)))
    assert leads(silent, "example.com:443", "8.8.8.8")
    assert not leads(silent, "example.com:443", "10.0.0.1")
    assert not allowed(silent, "localhost:80")
    open_one = Evaluator(Policy((Layer("organisation", Default.ALLOW), below)))
    assert leads(open_one, "example.com:443", "10.0.0.1")
    assert allowed(open_one, "localhost:80")
    both = Evaluator(Policy((Layer("organisation", Default.DENY, rules("+*", "+10.0.0.0/16")), below)))
    assert leads(both, "example.com:443", "10.0.0.1")
    assert not leads(both, "example.com:443", "10.1.0.1")


def test_an_address_resolves_to_itself() -> None:
    evaluator = box("+8.8.8.8")
    assert leads(evaluator, "8.8.8.8:1", "8.8.8.8")
    assert leads(evaluator, "8.8.8.8:1", "::ffff:8.8.8.8")
    assert not leads(evaluator, "8.8.8.8:1", "8.8.4.4")


# -- bypass ------------------------------------------------------------------------------------------------------------
def test_bypass_is_what_no_layer_objects_to() -> None:
    below = Layer("box", Default.DENY, rules("=example.com", "+example.com", "+example.org"))
    assert Evaluator(Policy((below,))).decide(Host("example.com"), 443).bypass
    assert not Evaluator(Policy((below,))).decide(Host("example.org"), 443).bypass
    silent = Layer("organisation", Default.ALLOW)
    assert Evaluator(Policy((silent, below))).decide(Host("example.com"), 443).bypass
    careful = Layer("organisation", Default.DENY, rules("+*.com", "+example.com"))
    assert not Evaluator(Policy((careful, below))).decide(Host("example.com"), 443).bypass
    assert not box(default=Default.ALLOW).decide(Host("example.com"), 443).bypass


def test_a_bypassed_range_is_opaque_for_what_leads_there() -> None:
    evaluator = box("+example.com", "=10.0.0.0/8")
    assert evaluator.decide_address(Host("example.com"), 443, ipaddress.ip_address("10.0.0.1")).bypass
    assert not evaluator.decide_address(Host("example.com"), 443, ipaddress.ip_address("8.8.8.8")).bypass


# -- names that may be looked up ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lines", "default", "name", "verdict"),
    [
        (("+example.com:443",), Default.DENY, "example.com", True),
        (("+example.com:443",), Default.DENY, "example.org", False),
        (("+*.example.com:22",), Default.DENY, "a.example.com", True),
        (("+*.example.com:22",), Default.DENY, "example.com", False),
        (("+*:443", "-example.com"), Default.DENY, "example.com", False),
        (("+*:443", "-example.com:443"), Default.DENY, "example.com", False),
        (("+*:443", "-example.com:80"), Default.DENY, "example.com", True),
        (("-example.com:443",), Default.ALLOW, "example.com", True),
        (("-example.com",), Default.ALLOW, "example.com", False),
        (("-example.com", "+example.com:22"), Default.ALLOW, "example.com", True),
        (("+*",), Default.DENY, "localhost", False),
        (("+localhost:80",), Default.DENY, "host.docker.internal", True),
        (("+10.0.0.1",), Default.DENY, "10.0.0.1", False),
    ],
)
def test_a_name_may_be_looked_up_if_some_port_is_allowed(
    lines: tuple[str, ...], default: Default, name: str, verdict: bool
) -> None:
    assert box(*lines, default=default).may_resolve(Host(name)) is verdict


# -- the whole against a plain reference -------------------------------------------------------------------------------
NAMES = ["example.com", "a.example.com", "b.a.example.com", "example.org", "com", "localhost", "host.docker.internal"]
NAMES += ["x.paddock", "a.localhost"]
PLACES = [
    "8.8.8.8",
    "8.8.8.9",
    "8.9.0.1",
    "10.0.0.1",
    "10.1.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "::1",
    "2600::1",
    "2600:1::1",
]
PLACES += [
    "fd00::1",
    "64:ff9b::808:808",
    "64:ff9b::a00:1",
    "2002:808:808::1",
    "169.254.169.254",
    "192.168.1.5",
    "::ffff:8.8.8.8",
]
SUBJECTS = [
    "example.com",
    "a.example.com",
    "*.example.com",
    "*.a.example.com",
    "*.com",
    "*",
    "*",
    "8.8.8.8",
    "8.8.8.0/24",
]
SUBJECTS += [
    "8.0.0.0/8",
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/16",
    "127.0.0.0/8",
    "127.0.0.1",
    "2600::/32",
    "::/0",
    "fd00::/8",
]
SUBJECTS += ["64:ff9b::/96", "169.254.0.0/16", "192.168.1.5", "localhost"]
PORTS = [0, 0, 80, 443]


def _pattern(subject: str, port: int) -> str:
    if not port:
        return subject if subject != "localhost" else "localhost:80"
    return Pattern(f"[{subject}]:{port}" if ":" in subject else f"{subject}:{port}").text


RULES = st.builds(
    Rule,
    st.sampled_from(Action),
    st.builds(_pattern, st.sampled_from(SUBJECTS), st.sampled_from(PORTS)),
    st.sampled_from([Source(kind) for kind in SourceKind]),
)
LAYERS = st.builds(Layer, st.just("layer"), st.sampled_from(Default), st.lists(RULES, max_size=8).map(tuple))
POLICIES = st.lists(LAYERS, max_size=3).map(lambda layers: Policy(tuple(layers)))
ADDRESSES = st.sampled_from([ipaddress.ip_address(text) for text in PLACES])


@bounded
@patient
@given(
    POLICIES,
    st.sampled_from(NAMES + PLACES),
    st.sampled_from([22, 80, 443]),
    ADDRESSES,
    st.frozensets(ADDRESSES, max_size=3),
)
def test_the_evaluator_agrees_with_a_plain_reference(
    policy: Policy, name: str, port: int, address: Address, own: frozenset[Address]
) -> None:
    evaluator, host = Evaluator(policy, own), Host(name)
    assert evaluator.decide(host, port).allowed is reference_policy.decide(policy, own, host, port)
    verdict = evaluator.decide_address(host, port, address)
    assert verdict.allowed is reference_policy.decide(policy, own, host, port, address)
    if host.address is None:
        could = any(reference_policy.decide(policy, own, host, one) for one in (22, 80, 443))
        assert evaluator.may_resolve(host) is could
    assert evaluator.localhost_ports() == tuple(
        one for one in (80, 443) if reference_policy.decide(policy, own, Host("localhost"), one)
    )


@patient
def test_what_is_decided_for_a_hostile_host_is_what_would_be_resolved() -> None:
    """A text that is accepted is decided as the very name or address that is looked up and dialled."""
    evaluator = box("+*.example.com:443", "+example.com:443", "+8.8.8.8")
    seed = random.randrange(1 << 32)
    for text in hostile_hosts(STRINGS, seed):
        try:
            host = Host(text)
        except UserError:
            continue
        if evaluator.decide(host, 443).allowed:
            assert host.text in {"example.com", "8.8.8.8"} or host.text.endswith(".example.com"), (
                f"{text!r} seed {seed}"
            )
            assert text.lower().rstrip(".]").lstrip("[").endswith(("example.com", "8.8.8.8", "808:808")), f"seed {seed}"
        if host.address is None:
            assert evaluator.may_resolve(host) is evaluator.decide(host, 443).allowed


def test_a_bad_pattern_in_a_policy_is_refused() -> None:
    with pytest.raises(UserError):
        Evaluator(Policy((Layer("box", Default.DENY, (Rule(Action.ALLOW, "a..b", USER),)),)))


def test_it_says_what_it_holds() -> None:
    assert repr(box("+*", "-a.com")) == "<Evaluator box: 2 rules, default deny>"
    assert repr(Evaluator(Policy())) == "<Evaluator without layers>"
