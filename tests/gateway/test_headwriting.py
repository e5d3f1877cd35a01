"""Heads for the next hop."""

from __future__ import annotations

import dataclasses

import pytest

from paddock.gateway.heads import Head, parse_request
from paddock.gateway.headwriting import serialise
from tests.gateway.test_heads import request


def forwarded(line: str, *headers: str, host: str | None = "example.com") -> list[str]:
    written = serialise(parse_request(request(line, *headers, host=host)), forward=True)
    assert written.endswith(b"\r\n\r\n")
    return written.decode("latin-1").split("\r\n")[:-2]


def test_what_is_for_one_hop_only_is_not_forwarded() -> None:  # PRX-07
    assert forwarded(
        "GET http://example.com/x HTTP/1.1",
        "Accept: */*",
        "Connection: keep-alive, X-Mine, http2-settings",
        "X-Mine: secret",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
        "Proxy-Authorization: Basic x",
        "Proxy-Connection: keep-alive",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1",
        "Cookie: a=b",
    ) == ["GET /x HTTP/1.1", "Host: example.com", "Accept: */*", "Cookie: a=b"]


@pytest.mark.parametrize(
    ("line", "headers", "written"),
    [
        ("GET / HTTP/1.1", ["Connection: close"], ["Connection: close"]),
        ("GET / HTTP/1.0", ["Connection: keep-alive"], ["Connection: keep-alive"]),
        ("GET / HTTP/1.0", [], ["Connection: close"]),
        ("POST / HTTP/1.1", ["Transfer-Encoding: CHUNKED"], ["Transfer-Encoding: chunked"]),
        ("POST / HTTP/1.1", ["Content-Length: 3"], ["Content-Length: 3"]),
        (
            "GET / HTTP/1.1",
            ["connection: Upgrade, x-a", "Upgrade: WebSocket", "Sec-WebSocket-Key: x", "X-A: 1"],
            ["Sec-WebSocket-Key: x", "Connection: Upgrade", "Upgrade: websocket"],
        ),
    ],
)
def test_the_next_hop_is_told_what_holds_for_it(line: str, headers: list[str], written: list[str]) -> None:
    assert forwarded(line, *headers)[2:] == written


def test_a_host_is_added_for_an_old_client() -> None:
    assert forwarded("GET http://example.com:81/x HTTP/1.0", host=None) == [
        "GET /x HTTP/1.0",
        "Host: example.com:81",
        "Connection: close",
    ]


def test_a_head_is_written_as_it_was_read() -> None:
    raw = request("GET http://example.com/x HTTP/1.1", "X-Forwarded-For: 1", "Connection: close")
    assert serialise(parse_request(raw)) == raw


def test_a_changed_head_is_written_as_it_is() -> None:
    head = parse_request(request())
    changed = dataclasses.replace(head, headers=(*head.headers, ("Authorization", "Bearer x")))
    assert serialise(changed, forward=True).split(b"\r\n")[2] == b"Authorization: Bearer x"
    assert isinstance(changed, Head)
