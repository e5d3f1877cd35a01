"""A desk judges each request by what is in force, in the clear as inside TLS, and records it without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.exchange import Exchange
from paddock.gateway.heads import parse_request
from paddock.gateway.refusal import Refusal
from paddock.policy import Host
from tests.gateway.test_conversation import Talk
from tests.support.inspecting import API, OTHER, PLACEHOLDER, VALUE, document, get, secret

if TYPE_CHECKING:
    from pathlib import Path

RULES = [f"allow GET {API}/ok/**"]


def test_a_request_is_judged_by_its_host_then_the_rules_then_its_secrets(tmp_path: Path) -> None:
    with Talk(tmp_path, document(secret()), requests=RULES) as talk:

        def begin(data: bytes) -> object:
            found = talk.desk.begin(parse_request(data), Host(API), 443, 0.0)
            return found.status if isinstance(found, Refusal) else found

        assert begin(get("/ok", f"X: {PLACEHOLDER}", host=OTHER)) == 421
        assert begin(get("/no", f"X: {PLACEHOLDER}")) == 403
        assert isinstance(begin(get("/ok/x", f"X: {PLACEHOLDER}")), Exchange)
        assert isinstance(begin(get("/ok/x", host=f"{API}:443")), Exchange)
        assert begin(get("/ok/x", host=f"{API}:80")) == 421
        assert repr(talk.desk).startswith("<Desk box <Inspection 1 secrets")


def test_a_refusal_by_a_rule_says_what_and_which(tmp_path: Path) -> None:
    with Talk(tmp_path, document(), requests=[*RULES, f"deny * {API}/ok/no"]) as talk:

        def refused(path: str) -> Refusal:
            found = talk.desk.begin(parse_request(get(path)), Host(API), 443, 0.0)
            assert isinstance(found, Refusal)
            return found

        found = refused("/ok/no?x=1")
        command = "paddock policy allow --box box api.test:443 --method GET --path /ok/no"
        assert found.text.splitlines() == [
            "paddock: GET api.test/ok/no is denied for box box",
            "why: by the request rule deny * api.test/ok/no (flag test)",
            "rule: deny * api.test/ok/no (flag test)",
            f"to allow it, run outside the box: {command}",
        ]
        assert (found.rule, found.allow) == ("deny * api.test/ok/no (flag test)", command)
        assert refused("/a/../b").text.endswith("no rule can allow it\n")
        assert refused("/$(reboot)").allow.endswith("--path '/$(reboot)'")


def test_records_and_refusals_have_no_value_in_them(tmp_path: Path) -> None:  # CRED-08
    with Talk(tmp_path) as talk:
        talk.client(get(f"/{VALUE}/x?{VALUE}", f"X: {VALUE}"))
        talk.server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        talk.client(get(f"/{VALUE}", f"X: {PLACEHOLDER}", host=OTHER))
        assert len(talk.records()) == 2
        assert VALUE not in json.dumps(talk.records()) + json.dumps(talk.refusals())
        assert talk.records()[0]["path"] == "/***/x"
        assert talk.desk.refused == 1


@pytest.mark.parametrize(
    ("content", "data", "why"),
    [
        (document(secret()), get("/", f"X: {PLACEHOLDER}"), "secret-misdirected"),
        (document(secret()), get("/", f"X: {VALUE}"), "secret-misdirected"),
        (document(meter=[API]), get("/"), "metered, which needs https"),
        (document(secret(scheme="http", port=80, missing=True)), get("/", f"X: {PLACEHOLDER}"), "secret-missing"),
    ],
)
def test_requests_in_the_clear_are_held_to_the_same(tmp_path: Path, content: bytes, data: bytes, why: str) -> None:
    with Talk(tmp_path, content) as talk:
        verdict = talk.desk.plain_problem(parse_request(data), Host(API), 80)
        assert verdict is not None
        assert not verdict.allowed
        assert why in verdict.reason
        assert talk.desk.plain_problem(parse_request(get("/ok/x")), Host(OTHER), 80) is None


def test_rules_hold_in_the_clear_and_what_they_let_pass_is_recorded(tmp_path: Path) -> None:
    with Talk(tmp_path, document(), requests=RULES) as talk:
        for path, refused in (("/no?x=1", True), ("/ok/x?y=1", False)):
            found = talk.desk.plain_refusal(parse_request(get(path)), Host(API), 80)
            assert (found is not None) is refused
            assert talk.desk.plain_refusal(parse_request(get(path)), Host(OTHER), 80) is None
            if found is None:
                talk.desk.plain_sent(parse_request(get(path)), Host(API), 80)
                talk.desk.plain_sent(parse_request(get(path, host=OTHER)), Host(OTHER), 80)
            else:
                talk.desk.refuse(found, parse_request(get(path)), Host(API), 80, "http")
        told = [(each["decision"], each["method"], each["path"], each.get("status")) for each in talk.records()]
        assert told == [("deny", "GET", "/no", 403), ("allow", "GET", "/ok/x", None)]
        assert talk.refusals()[0]["allow"] == "paddock policy allow --box box api.test:80 --method GET --path /no"


def test_a_secret_goes_in_the_clear_only_when_that_was_named(tmp_path: Path) -> None:
    with Talk(tmp_path, document(secret(scheme="http", port=80))) as talk:
        head = parse_request(get("/", f"X: {PLACEHOLDER}"))
        assert talk.desk.plain_problem(head, Host(API), 80) is None
        assert ("X", VALUE) in talk.desk.plain(head, Host(API), 80).headers
        assert talk.desk.plain(head, Host(OTHER), 80).headers == head.headers
