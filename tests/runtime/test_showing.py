"""Policies and verdicts are shown with all that decides, and with the command that would change it."""

from __future__ import annotations

import pytest

from paddock.policy import Evaluator, Host, Source, SourceKind
from paddock.policy.layering import Statement, compose
from paddock.policy.target import parse_target
from paddock.runtime.showing import layer_info, request_info, verdict_info

SAID = Statement(
    source=Source(SourceKind.USER, "mine"),
    allow=("free.test",),
    allow_requests=("GET api.test/v1/**", "POST api.test/v1/things"),
    deny_requests=("* free.test/admin/**",),
)


def shown(target: str, method: str = "", said: Statement = SAID) -> tuple[bool, str, str]:
    evaluator = Evaluator(compose(user=said))
    asked = parse_target(target, method)
    reached = verdict_info(evaluator.decide(asked.host, asked.port), asked.host.text, asked.port, "box")
    info = request_info(reached, evaluator.requests.at(asked.host, asked.port), asked, "box")
    return info.allowed, info.reason, info.command


def test_a_layer_shows_rules_about_requests_and_not_the_hosts_they_stand_for() -> None:
    (layer,) = compose(user=SAID).layers
    assert Evaluator(compose(user=SAID)).decide(Host("api.test"), 443).allowed
    assert [(rule.action, rule.pattern, rule.methods, rule.path) for rule in layer_info(layer).rules] == [
        ("allow", "free.test", (), ""),
        ("deny", "free.test", ("*",), "/admin/**"),
        ("allow", "api.test", ("GET",), "/v1/**"),
        ("allow", "api.test", ("POST",), "/v1/things"),
    ]


@pytest.mark.parametrize(
    ("target", "method", "allowed"),
    [
        ("https://api.test/v1/x", "", True),
        ("https://api.test/v1/x", "HEAD", True),
        ("https://api.test/v1/x", "POST", False),
        ("https://api.test/v1/things?x", "POST", True),
        ("api.test", "GET", False),
        ("http://free.test/x", "DELETE", True),
        ("http://free.test/Admin/x", "GET", False),
        ("api.test", "", True),
    ],
)
def test_a_request_is_shown_as_it_is_decided(target: str, method: str, allowed: bool) -> None:
    assert shown(target, method)[0] is allowed


def test_a_refused_request_names_the_rule_and_the_command() -> None:
    allowed, reason, command = shown("https://api.test/v1/x", "POST")
    assert (allowed, reason) == (False, "no request rule of the box policy allows POST here")
    assert command == "paddock policy allow --box box api.test:443 --method POST --path /v1/x"
    assert shown("https://free.test/admin/x")[1] == "by the request rule deny * free.test/admin/** (user mine)"
    assert "ask with a URL or --method" in shown("api.test")[1]


def test_a_host_that_is_bypassed_and_has_rules_about_requests_passes_nothing() -> None:
    said = Statement(
        source=Source(SourceKind.USER, "mine"), bypass=("x.api.test",), deny_requests=("DELETE *.api.test",)
    )
    allowed, reason, _ = shown("https://x.api.test/", said=said)
    assert (allowed, "nothing passes" in reason) == (False, True)
