"""The most specific rule about a request decides, and what none speaks of is denied on a host that has any."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import UserError
from paddock.gateway.heads import parse_request
from paddock.gateway.requests import HostRules, parse
from paddock.policy import Host

HOST = "api.test"


def rule(action: str = "allow", **more: Any) -> dict[str, Any]:
    return {"pattern": HOST, "action": action, **more}


def at(*rules: dict[str, Any], host: str = HOST, port: int = 443) -> HostRules | None:
    return parse(list(rules)).at(Host(host), port)


def allows(rules: HostRules | None, method: str, path: str, *headers: str) -> bool:
    assert rules is not None
    head = parse_request("\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {HOST}", *headers, "", ""]).encode())
    verdict = rules.decide(head)
    assert verdict.reason
    return verdict.allowed


def test_a_host_that_no_rule_speaks_of_is_held_to_none() -> None:
    assert at(rule(), host="other.test") is None
    assert at() is None
    assert at(rule(pattern=f"{HOST}:8443")) is None
    assert at(rule(pattern=f"{HOST}:8443"), port=8443) is not None
    assert at(rule(pattern="*.test")) is not None


def test_methods_that_are_not_named_are_denied() -> None:
    rules = at(rule(methods=["GET"]))
    assert allows(rules, "GET", "/x?y")
    assert allows(rules, "HEAD", "/x")
    assert not allows(rules, "POST", "/x")
    assert not allows(rules, "DELETE", "/x")
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    assert not allows(rules, "GET", "/x", *upgrade), "a websocket is more than reading"
    assert allows(at(rule(methods=["WEBSOCKET"])), "GET", "/x", *upgrade)
    assert allows(at(rule()), "GET", "/x", *upgrade)


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override"])
def test_a_request_that_claims_another_method_is_denied_where_methods_count(header: str) -> None:
    assert not allows(at(rule(methods=["GET", "POST"])), "POST", "/x", f"{header}: DELETE")
    assert allows(at(rule(paths=["/x"])), "POST", "/x", f"{header}: DELETE")


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("/repos/me/x/**", ["/repos/me/x", "/repos/me/x/", "/repos/me/x/a/b"], ["/repos/me/xy", "/repos/me", "/"]),
        ("/a/*/c", ["/a/b/c"], ["/a/c", "/a/b/b/c", "/a/b/c/d"]),
        ("/v*/models", ["/v1/models", "/v/models"], ["/models", "/v1/x/models"]),
        ("/a", ["/a"], ["/a/", "/a/b", "/A"]),
        ("/", ["/"], ["/a"]),
        ("/**", ["/", "/a", "/a/b"], []),
        ("/x*y/**", ["/xy", "/x1y/z"], ["/x"]),
    ],
)
def test_a_path_stands_for_what_it_says(glob: str, yes: list[str], no: list[str]) -> None:
    rules = at(rule(paths=[glob]))
    assert all(allows(rules, "GET", path) for path in yes)
    assert not any(allows(rules, "GET", path) for path in no)


@pytest.mark.parametrize(
    "path",
    [
        "/pub/../key",
        "/pub/%2e%2e/key",
        "/pub//key",
        "/pub/..;/key",
        "/pub/%2e%2e%2fkey",
        "/pub%2f..%2fkey",
        "/pub/%c0%ae",
    ],
)
def test_a_path_that_cannot_be_judged_is_denied_where_paths_count(path: str) -> None:  # PRX-12
    assert not allows(at(rule(paths=["/pub/**"])), "GET", path)
    assert allows(at(rule(methods=["GET"])), "GET", path), "and nobody cares where they do not"


def test_every_reading_of_a_path_must_be_allowed() -> None:
    rules = at(rule(paths=["/pub/*"]))
    assert allows(rules, "GET", "/pub/a")
    assert not allows(rules, "GET", "/pub/a%2fb"), "it may be /pub/a/b"
    assert allows(at(rule(paths=["/pub/**"])), "GET", "/pub/a%2fb")


def test_the_most_specific_rule_decides_and_deny_wins_a_tie() -> None:
    rules = at(rule("deny", pattern="*.test"), rule(methods=["GET"]), rule("deny", paths=["/key/**"]))
    assert allows(rules, "GET", "/x")
    assert not allows(rules, "GET", "/key/1")
    assert not allows(rules, "POST", "/x")
    tie = at(rule(paths=["/a/**"]), rule("deny", paths=["/a/**"]))
    assert not allows(tie, "GET", "/a/b")
    named = at(rule(paths=["/a/**"], methods=["GET"]), rule("deny", paths=["/a/**"]))
    assert allows(named, "GET", "/a/b")
    assert not allows(named, "PUT", "/a/b")


def test_a_denial_is_not_evaded_by_case_or_a_last_slash() -> None:
    rules = at(rule(), rule("deny", paths=["/key"]))
    for path in ("/key", "/KEY", "/Key/"):
        assert not allows(rules, "GET", path)
    assert allows(rules, "GET", "/keys")


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "allow"},
        rule("perhaps"),
        rule(more=1),
        rule(methods=["get"]),
        rule(methods=["GET POST"]),
        rule(paths=["x"]),
        rule(paths=[""]),
        rule(paths=["/a//b"]),
        rule(paths=["/../a"]),
        rule(paths=["/**/a"]),
        rule(paths=["/a**"]),
        rule(paths=["/*a*"]),
        rule(paths=["/%41"]),
        rule(pattern="10.0.0.0/8"),
        rule(pattern="not a host"),
    ],
)
def test_a_rule_that_is_none_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        parse([wrong])


def test_rules_are_shown_as_they_read() -> None:
    verdict = at(rule(methods=["GET"], paths=["/a/**"], source="project"))
    assert repr(verdict) == "<HostRules 1>"
    assert repr(parse([rule(), rule()])) == "<RequestRules 2>"
    with pytest.raises(UserError):
        parse({})
    with pytest.raises(UserError):
        parse([rule()] * 1001)
