"""The most specific rule about a request decides; where any allows, what none speaks of is denied."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.policy import Action, Host, Layer, Request, RequestRule, RequestRules, Source, SourceKind
from paddock.policy.requests import HostRules, is_request

HOST = "api.test"


def rule(text: str = f"allow * {HOST}", kind: SourceKind = SourceKind.FLAG) -> RequestRule:
    action, _, request = text.partition(" ")
    return RequestRule(Action(action), Request(request).text, Source(kind, "test"))


def at(*texts: str | RequestRule, host: str = HOST, port: int = 443) -> HostRules | None:
    rules = tuple(rule(text) if isinstance(text, str) else text for text in texts)
    return RequestRules([Layer("box", requests=rules)]).at(Host(host), port)


def allows(rules: HostRules | None, method: str, path: str, *headers: str) -> bool:
    assert rules is not None
    verdict = rules.decide(method, path, headers)
    assert verdict.reason
    return verdict.allowed


def test_a_host_that_no_rule_speaks_of_is_held_to_none() -> None:
    assert at("allow * api.test", host="other.test") is None
    assert at() is None
    assert at("allow * api.test:8443") is None
    assert at("allow * api.test:8443", port=8443) is not None
    assert at("allow * *.test") is not None
    assert at("allow GET localhost:80", host="host.docker.internal", port=80) is not None
    assert at("allow GET *", host="192.0.2.1") is None, "rules are about names"


def test_methods_that_are_not_named_are_denied() -> None:
    rules = at("allow GET api.test")
    assert allows(rules, "GET", "/x")
    assert allows(rules, "HEAD", "/x")
    assert not allows(rules, "POST", "/x")
    assert not allows(rules, "DELETE", "/x")
    assert not allows(rules, "WEBSOCKET", "/x"), "a websocket is more than reading"
    assert allows(at("allow WEBSOCKET api.test"), "WEBSOCKET", "/x")
    assert allows(at("allow * api.test"), "WEBSOCKET", "/x")


def test_rules_that_only_deny_leave_the_rest_open() -> None:
    rules = at("deny DELETE api.test", "deny * api.test/admin/**")
    assert allows(rules, "GET", "/x")
    assert not allows(rules, "DELETE", "/x")
    assert not allows(rules, "GET", "/admin/x")
    assert not allows(at("deny DELETE api.test", "allow GET *.test"), "POST", "/x"), "unless one allows a part of it"


@pytest.mark.parametrize("header", ["x-http-method-override", "x_http_method_override", "x-http_method"])
def test_a_request_that_claims_another_method_is_denied_where_methods_count(header: str) -> None:
    assert not allows(at("allow GET,POST api.test"), "POST", "/x", header)
    assert allows(at("allow GET,POST api.test"), "POST", "/x", "x-http-other")
    assert allows(at("allow * api.test/x"), "POST", "/x", header)


@pytest.mark.parametrize("header", ["x-original-url", "x_original_url", "x-rewrite-url"])
def test_a_request_that_claims_another_path_is_denied_where_paths_count(header: str) -> None:
    assert not allows(at("allow * api.test/x"), "POST", "/x", header)
    assert allows(at("allow * api.test/x"), "POST", "/x", "x-original-uri-of-mine")
    assert allows(at("allow POST api.test"), "POST", "/x", header)


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
    rules = at(f"allow GET api.test{glob}")
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
    assert not allows(at("allow * api.test/pub/**"), "GET", path)
    assert not allows(at("deny * api.test/other"), "GET", path)
    assert allows(at("allow GET api.test"), "GET", path), "and nobody cares where they do not"


def test_every_reading_of_a_path_must_be_allowed() -> None:
    rules = at("allow * api.test/pub/*")
    assert allows(rules, "GET", "/pub/a")
    assert not allows(rules, "GET", "/pub/a%2fb"), "it may be /pub/a/b"
    assert allows(at("allow * api.test/pub/**"), "GET", "/pub/a%2fb")


def test_the_most_specific_rule_decides_and_deny_wins_a_tie() -> None:
    rules = at("deny * *.test", "allow GET api.test", "deny * api.test/key/**")
    assert allows(rules, "GET", "/x")
    assert not allows(rules, "GET", "/key/1")
    assert not allows(rules, "POST", "/x")
    assert not allows(at("allow * api.test/a/**", "deny * api.test/a/**"), "GET", "/a/b")
    named = at("allow GET api.test/a/**", "deny * api.test/a/**")
    assert allows(named, "GET", "/a/b")
    assert not allows(named, "PUT", "/a/b")


def test_of_equals_the_source_is_heard_before_deny() -> None:
    denied = rule("deny GET api.test", SourceKind.USER)
    assert allows(at("allow GET api.test", denied), "GET", "/")
    assert not allows(at(rule("allow GET api.test", SourceKind.PROJECT), denied), "GET", "/")


def test_every_layer_must_allow_a_request() -> None:
    layers = [
        Layer("organisation", requests=(rule("deny DELETE api.test", SourceKind.ORGANISATION),)),
        Layer("project"),
        Layer("box", requests=(rule("allow DELETE,GET api.test/mine/**"),)),
    ]
    rules = RequestRules(layers).at(Host(HOST), 443)
    assert allows(rules, "GET", "/mine/x")
    assert not allows(rules, "GET", "/x")
    assert not allows(rules, "DELETE", "/mine/x")
    assert rules is not None
    assert rules.decide("DELETE", "/mine/x").layer == "organisation"
    assert rules.decide("GET", "/x").layer == "box"


def test_a_denial_is_not_evaded_by_case_or_a_last_slash() -> None:
    rules = at("allow * api.test", "deny * api.test/key")
    for path in ("/key", "/KEY", "/Key/"):
        assert not allows(rules, "GET", path)
    assert allows(rules, "GET", "/keys")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "api.test",
        "GET",
        "GET ",
        " api.test",
        "get api.test",
        "GET,, api.test",
        "GET,* api.test",
        "GET  api.test",
        "GET POST api.test",
        "GET api.test/a//b",
        "GET api.test/../a",
        "GET api.test/**/a",
        "GET api.test/a**",
        "GET api.test/*a*",
        "GET api.test/%41",
        "GET api.test/a?b",
        "GET api.test/a\\b",
        "GET 10.0.0.0/8",
        "GET 192.0.2.1/x",
        "GET https://api.test/x",
        "GET localhost/x",
        "GET api.test/" + "a" * 2048,
    ],
)
def test_a_rule_that_is_none_is_an_error(wrong: str) -> None:
    with pytest.raises(UserError):
        Request(wrong)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("POST,GET,POST API.test./x", "GET,POST api.test/x"),
        ("* api.test/**", "* api.test"),
        ("GET 127.0.0.1:80/x/**", "GET localhost:80/x/**"),
        ("GET *.test:443", "GET *.test:443"),
        ("GET */x", "GET */x"),
    ],
)
def test_a_rule_has_one_spelling(text: str, canonical: str) -> None:
    found = Request(text)
    assert (found.text, str(found)) == (canonical, canonical)
    assert Request(canonical) == found
    assert Request.of(found.pattern.text, found.methods, found.path) == found
    assert is_request(canonical)
    assert not is_request(found.pattern.text)


@pytest.mark.parametrize(
    ("pattern", "methods", "path"),
    [
        ("a.test/x", ("GET",), ""),
        ("a.test", ("GET", "GET,POST"), ""),
        ("a.test", ("GET a.test",), ""),
        ("a.test", (), "x"),
    ],
)
def test_parts_do_not_become_other_parts(pattern: str, methods: tuple[str, ...], path: str) -> None:
    with pytest.raises(UserError):
        Request.of(pattern, methods, path)


def test_rules_are_shown_as_they_read_and_remembered_within_bounds() -> None:
    assert repr(at("allow GET api.test/a/**")) == "<HostRules 1>"
    rules = RequestRules([Layer("box", requests=(rule(), rule("deny DELETE *.test")))])
    assert repr(rules) == "<RequestRules 2>"
    assert rules.at(Host(HOST), 443) is rules.at(Host(HOST), 443)
    for number in range(1000):
        rules.at(Host(f"n{number}.test"), 443)
    assert len(rules._known) <= 256
    assert str(rule("allow GET api.test")) == "allow GET api.test (flag test)"
