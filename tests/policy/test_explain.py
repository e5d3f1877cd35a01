from __future__ import annotations

import ipaddress

import pytest

from paddock.policy.evaluator import Evaluator
from paddock.policy.explain import allow_command, allow_pattern, refusal
from paddock.policy.host import Host
from paddock.policy.layering import Statement, compose
from paddock.policy.rules import Action, Default, Policy, Rule, Source, SourceKind, Verdict

USER = Source(SourceKind.USER, "/home/me/policy.toml")


def user(**words: object) -> Statement:
    return Statement(source=USER, **words)  # type: ignore[arg-type]


def test_a_refusal_says_what_why_which_rule_and_what_to_do() -> None:
    verdict = Evaluator(compose(user=user(deny=("*.example.com",)))).decide(Host("api.example.com"), 443)
    assert refusal(verdict, "api.example.com", 443, "shell-app").splitlines() == [
        "paddock: api.example.com:443 is denied for box shell-app",
        "why: api.example.com:443 is denied by rule *.example.com (user /home/me/policy.toml)",
        "rule: deny *.example.com (user /home/me/policy.toml)",
        "to allow it, run outside the box: paddock policy allow --box shell-app api.example.com:443",
        "or start a box with it: paddock run --allow-host api.example.com:443 ...",
    ]


def test_a_refusal_by_default_says_so() -> None:
    verdict = Evaluator(compose()).decide(Host("a.com"), 22)
    assert "rule: the default of the box policy" in refusal(verdict, "a.com", 22, "b")


def test_what_the_organisation_refused_is_not_for_the_user_to_allow() -> None:
    organisation = Statement(source=Source(SourceKind.ORGANISATION, "/etc/paddock/policy.toml"))
    verdict = Evaluator(compose(organisation=organisation, user=user(allow=("*",)))).decide(Host("a.com"), 22)
    text = refusal(verdict, "a.com", 22, "b")
    assert "administrator" in text
    assert "paddock policy allow" not in text


def test_a_name_refused_for_where_it_leads_is_allowed_there() -> None:
    evaluator = Evaluator(compose(user=user(allow=("db.example",))))
    verdict = evaluator.decide_address(Host("db.example"), 5432, ipaddress.ip_address("10.1.2.3"))
    text = refusal(verdict, "db.example", 5432, "b")
    assert "db.example leads to 10.1.2.3, a private address" in text
    assert "paddock policy allow --box b 10.1.2.3:5432" in text
    six = evaluator.decide_address(Host("db.example"), 5432, ipaddress.ip_address("fd00::1"))
    assert allow_command("db.example", 5432, "b", six) == "paddock policy allow --box b '[fd00::1]:5432'"


@pytest.mark.parametrize(
    ("host", "pattern"),
    [
        ("a.com", "a.com:80"),
        ("A.com.", "a.com:80"),
        ("localhost", "localhost:80"),
        ("127.0.0.1", "localhost:80"),
        ("host.docker.internal", "localhost:80"),
        ("fd00::1", "[fd00::1]:80"),
        ("x.paddock", ""),
        ("a..b", ""),
        ("\x1b[2J", ""),
    ],
)
def test_the_narrowest_rule_is_offered(host: str, pattern: str) -> None:
    assert allow_pattern(host, 80) == pattern


@pytest.mark.parametrize("host", ["\x1b[2Jevil", "a\nb", "a" * 10_000, "\ud800"])
def test_whatever_a_box_sent_is_harmless_in_a_refusal(host: str) -> None:
    text = refusal(Verdict(False, None, "no\x1b", final=True), host, 80, "b")
    assert text.count("\n") == 4
    assert text.replace("\n", "").isprintable()
    assert len(text) < 1_000
    assert "no rule can allow it" in text


# Each way to be refused, and whether the command offered in the refusal really opens it.
@pytest.mark.parametrize(
    ("words", "target", "address"),
    [
        ({}, "a.com", "8.8.8.8"),
        ({"deny": ("*",)}, "a.com", "8.8.8.8"),
        ({"deny": ("a.com",)}, "a.com", "8.8.8.8"),
        ({"allow": ("a.com",)}, "a.com", "10.0.0.1"),
        ({"allow": ("a.com",), "deny": ("10.0.0.0/8",)}, "a.com", "10.0.0.1"),
        ({"allow": ("a.com",)}, "a.com", "169.254.169.254"),
        ({}, "localhost", "127.0.0.1"),
        ({}, "10.0.0.1", "10.0.0.1"),
        ({}, "fd00::1", "fd00::1"),
    ],
)
def test_the_command_offered_allows_it(words: dict[str, object], target: str, address: str) -> None:
    host, place = Host(target), ipaddress.ip_address(address)

    def after(*patterns: str) -> Verdict:
        flags = Statement(source=Source(SourceKind.FLAG), allow=patterns)
        return Evaluator(compose(user=user(**words), flags=flags)).decide_address(host, 443, place)

    verdict = after()
    assert not verdict.allowed
    offered = [allow_pattern(target, 443, verdict)]
    verdict = after(*offered)
    offered.append(allow_pattern(target, 443, verdict))  # the name first, then where it leads
    verdict = after(*offered)
    assert verdict.allowed


def test_a_final_refusal_offers_nothing() -> None:
    evaluator = Evaluator(Policy(compose(user=user(allow=("*",), default=Default.ALLOW)).layers))
    verdict = evaluator.decide_address(Host("a.com"), 80, ipaddress.ip_address("64:ff9b::a00:1"))
    assert not verdict.allowed
    assert allow_command("a.com", 80, "b", verdict) == ""
    assert Rule(Action.ALLOW, "*", USER) in compose(user=user(allow=("*",))).layers[0].rules
