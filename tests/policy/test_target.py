"""What someone asks about is a host or a request, and nothing is guessed."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.policy import Host
from paddock.policy.target import Target, parse_target

A = Host("a.test")


@pytest.mark.parametrize(
    ("text", "method", "wanted"),
    [
        ("a.test", "", Target(host=A, port=443)),
        ("A.test:80", "", Target(host=A, port=80)),
        ("a.test", "POST", Target(host=A, port=443, method="POST", path="/")),
        ("https://a.test", "", Target(host=A, port=443, method="GET", path="/")),
        ("https://a.test/x/y?q=/z#f", "PUT", Target(host=A, port=443, method="PUT", path="/x/y")),
        ("http://a.test:8080/%2e", "", Target(host=A, port=8080, method="GET", path="/%2e")),
        ("http://a.test?q=1", "", Target(host=A, port=80, method="GET", path="/")),
    ],
)
def test_a_target_is_read_as_it_is_written(text: str, method: str, wanted: Target) -> None:
    assert parse_target(text, method) == wanted


@pytest.mark.parametrize(
    ("text", "method", "code"),
    [
        ("ftp://a.test/", "", "bad-url"),
        ("https://a.test/x y", "", "bad-url"),
        ("https://a.test/\u00e9", "", "bad-url"),
        ("https://me@a.test/", "", "bad-host"),
        ("a.test", "post", "bad-method"),
        ("a.test", "GET /", "bad-method"),
        ("a.test/x", "", "bad-host"),
    ],
)
def test_what_is_no_target_is_an_error(text: str, method: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_target(text, method)
    assert caught.value.code == code
