"""One head at a time. How heads stand in a stream is in test_http1.py."""

from __future__ import annotations

import pytest

from paddock.gateway.heads import BadRequest, parse_request, parse_response, parse_trailers
from paddock.gateway.headwriting import serialise
from paddock.limits import HTTP_HEADERS_MAX


def request(line: str = "GET / HTTP/1.1", *headers: str, host: str | None = "example.com") -> bytes:
    named = [] if host is None else [f"Host: {host}"]
    return ("\r\n".join([line, *named, *headers]) + "\r\n\r\n").encode("latin-1")


def refused(raw: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse_request(raw)
    return caught.value


def test_a_plain_request_is_all_there() -> None:
    raw = request("GET /a?b=c HTTP/1.1", "Accept:  */* \t", "X-Two: 1", "x-two: 2", "Empty:", host="Example.COM:8080")
    head = parse_request(raw)
    assert (head.method, head.target, head.version, head.form) == ("GET", "/a?b=c", "HTTP/1.1", "origin")
    assert (head.host.text, head.port, head.path) == ("example.com", 8080, "/a?b=c")
    assert (head.length, head.keep_alive, head.expects_continue, head.websocket) == (0, True, False, False)
    assert head.headers[1:] == (("Accept", "*/*"), ("X-Two", "1"), ("x-two", "2"), ("Empty", ""))
    assert head.fields["x-two"] == "1, 2"
    assert head.raw == raw
    assert not head.leaves_http


@pytest.mark.parametrize(
    ("line", "host", "form", "text", "port", "path"),
    [
        ("GET / HTTP/1.1", "example.com", "origin", "example.com", None, "/"),
        ("GET //evil.test/ HTTP/1.1", "example.com.", "origin", "example.com", None, "//evil.test/"),
        ("GET / HTTP/1.1", "[2001:DB8::1]:81", "origin", "2001:db8::1", 81, "/"),
        ("GET / HTTP/1.1", "192.0.2.1", "origin", "192.0.2.1", None, "/"),
        ("OPTIONS * HTTP/1.1", "example.com", "asterisk", "example.com", None, "*"),
        ("GET http://example.com/x HTTP/1.1", "example.com", "absolute", "example.com", 80, "/x"),
        ("GET HTTP://EXAMPLE.com:80?q HTTP/1.1", "example.com", "absolute", "example.com", 80, "/?q"),
        ("GET http://example.com:81 HTTP/1.1", "example.com:81", "absolute", "example.com", 81, "/"),
        ("OPTIONS http://example.com HTTP/1.1", "example.com", "absolute", "example.com", 80, "*"),
        ("GET http://example.com/ HTTP/1.0", None, "absolute", "example.com", 80, "/"),
        ("CONNECT example.com:443 HTTP/1.1", "example.com:443", "authority", "example.com", 443, ""),
        ("CONNECT example.com:443 HTTP/1.1", "example.com", "authority", "example.com", 443, ""),
        ("CONNECT example.com:22 HTTP/1.0", None, "authority", "example.com", 22, ""),
        ("CONNECT [::1]:22 HTTP/1.1", "[::1]:22", "authority", "::1", 22, ""),
    ],
)
def test_a_request_has_one_destination(
    line: str, host: str | None, form: str, text: str, port: int | None, path: str
) -> None:
    head = parse_request(request(line, host=host))
    assert (head.form, head.host.text, head.port, head.path) == (form, text, port, path)


@pytest.mark.parametrize(
    ("line", "hosts"),
    [  # PRX-04
        ("GET / HTTP/1.1", []),
        ("GET / HTTP/1.0", []),
        ("OPTIONS * HTTP/1.0", []),
        ("GET http://example.com/ HTTP/1.1", []),
        ("CONNECT example.com:443 HTTP/1.1", []),
        ("GET / HTTP/1.1", ["example.com", "example.com"]),
        ("GET / HTTP/1.1", ["example.com", "evil.test"]),
        ("GET / HTTP/1.1", [""]),
        ("GET / HTTP/1.1", ["example.com, evil.test"]),
        ("GET / HTTP/1.1", ["example.com/path"]),
        ("GET / HTTP/1.1", ["user@example.com"]),
        ("GET / HTTP/1.1", ["example.com:"]),
        ("GET / HTTP/1.1", ["example.com:0"]),
        ("GET / HTTP/1.1", ["example.com:080"]),
        ("GET / HTTP/1.1", ["example.com:65536"]),
        ("GET / HTTP/1.1", ["example.com:80:80"]),
        ("GET / HTTP/1.1", ["exa mple.com"]),
        ("GET / HTTP/1.1", ["example.com\t.evil.test"]),
        ("GET / HTTP/1.1", ["exämple.com"]),
        ("GET / HTTP/1.1", ["127.1"]),
        ("GET / HTTP/1.1", ["0x7f000001"]),
        ("GET / HTTP/1.1", ["[::1"]),
        ("GET / HTTP/1.1", ["[fe80::1%25lo]"]),
        ("GET / HTTP/1.1", ["a" * 400]),
        ("GET http://example.com/ HTTP/1.1", ["evil.test"]),
        ("GET http://example.com:81/ HTTP/1.1", ["example.com"]),
        ("GET http://example.com/ HTTP/1.1", ["example.com:81"]),
        ("GET http://user@example.com/ HTTP/1.1", ["example.com"]),
        ("GET http:///x HTTP/1.1", ["example.com"]),
        ("GET http://?x HTTP/1.1", ["example.com"]),
        ("GET http://example.com\\@evil.test/ HTTP/1.1", ["example.com"]),
        ("GET https://example.com/ HTTP/1.1", ["example.com"]),
        ("GET ftp://example.com/ HTTP/1.1", ["example.com"]),
        ("GET example.com HTTP/1.1", ["example.com"]),
        ("GET example.com:80 HTTP/1.1", ["example.com"]),
        ("GET * HTTP/1.1", ["example.com"]),
        ("GET /#fragment HTTP/1.1", ["example.com"]),
        ("CONNECT example.com HTTP/1.1", ["example.com"]),
        ("CONNECT example.com:443 HTTP/1.1", ["evil.test:443"]),
        ("CONNECT example.com:443 HTTP/1.1", ["example.com:80"]),
        ("CONNECT example.com:0443 HTTP/1.1", ["example.com"]),
        ("CONNECT http://example.com:443 HTTP/1.1", ["example.com"]),
        ("CONNECT / HTTP/1.1", ["example.com"]),
    ],
)
def test_a_destination_in_doubt_is_refused(line: str, hosts: list[str]) -> None:
    assert refused(request(line, *[f"Host: {host}" for host in hosts], host=None)).status == 400


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET /  HTTP/1.1", 400),
        ("GET / HTTP/1.1 ", 400),
        (" GET / HTTP/1.1", 400),
        ("GET\t/ HTTP/1.1", 400),
        ("get / HTTP/1.1", 400),
        ("G@T / HTTP/1.1", 400),
        ("A" * 33 + " / HTTP/1.1", 400),
        ("GET /\x7f HTTP/1.1", 400),
        ("GET /ä HTTP/1.1", 400),
        ("GET / HTTP/1.10", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/1.2", 505),
        ("GET / HTTP/0.9", 505),
        ("PRI * HTTP/2.0", 505),
        ("", 400),
        ("TRACE / HTTP/1.1", 405),
        ("TRACK / HTTP/1.1", 405),
        ("\x16\x03\x01\x02\x00\x01", 400),
        ("SSH-2.0-OpenSSH_9.2", 400),
    ],
)
def test_a_malformed_request_line_is_refused(line: str, status: int) -> None:
    assert refused(request(line)).status == status


@pytest.mark.parametrize(
    "header",
    [  # PRX-03
        "X: a\r\n b",  # obs-fold
        "X: a\r\n\tb",
        "X: a\nY: b",
        "X: a\rY: b",
        "X: a\r\r\nY: b",
        "X: a\0b",
        "X: a\x0bb",
        "X: a\x7fb",
        "X : a",
        " X: a",
        "\tX: a",
        ": a",
        "X",
        "X(: a",
        "X\xe4: a",
        "X\x80: a",
        '"X": a',
        "x" * 257 + ": a",
        "Content_Length: 5",  # CGI programs read it as Content-Length
        "transfer_encoding: chunked",
        "Authorization: a\r\nAuthorization: b",
        "Content-Type: a\r\nContent-Type: b",
    ],
    ids=ascii,
)
def test_a_malformed_header_is_refused(header: str) -> None:
    assert refused(request("POST / HTTP/1.1", header)).status == 400


def test_values_may_hold_any_visible_byte() -> None:
    head = parse_request(request("GET / HTTP/1.1", "X: a\tb c\xe4\xff~:", "x_y: z"))
    assert head.headers[1:] == (("X", "a\tb c\xe4\xff~:"), ("x_y", "z"))
    assert serialise(head).split(b"\r\n")[2] == b"X: a\tb c\xe4\xff~:"


def test_only_so_many_headers_are_read() -> None:
    lines = [f"X-{n}: {n}" for n in range(HTTP_HEADERS_MAX - 1)]
    assert len(parse_request(request("GET / HTTP/1.1", *lines)).headers) == HTTP_HEADERS_MAX
    assert refused(request("GET / HTTP/1.1", *lines, "One: more")).status == 431


@pytest.mark.parametrize(
    "headers",
    [  # PRX-01 and PRX-02
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 0"],
        ["Content-Length: 4", "Content-Length: 4"],
        ["Content-Length: 4", "content-length: 5"],
        ["Content-Length: 4, 4"],
        ["Content-Length: +4"],
        ["Content-Length: -4"],
        ["Content-Length: 0x4"],
        ["Content-Length: 4.0"],
        ["Content-Length: 4_0"],
        ["Content-Length: 04"],
        ["Content-Length:"],
        ["Content-Length: \xb2"],
        ["Content-Length: 4 4"],
        ["Content-Length: " + "9" * 19],
        ["Transfer-Encoding:"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked, chunked"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: chunked\x0b"],
        ["Transfer-Encoding: chunked;q=1"],
        ["Transfer-Encoding: 'chunked'"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding : chunked"],
        ["Transfer-Encoding\x0b: chunked"],
        ["Connection: content-length", "Content-Length: 4"],
        ["Connection: close, Host"],
        ["Connection: authorization"],
        ["Connection: clo se"],
        ["Connection: " + "x" * 1025],
    ],
)
def test_a_body_in_doubt_is_refused(headers: list[str]) -> None:
    assert refused(request("POST / HTTP/1.1", *headers)).status == 400


def test_chunks_need_http_1_1() -> None:
    assert parse_request(request("POST / HTTP/1.1", "Transfer-Encoding: Chunked")).length is None
    assert refused(request("POST / HTTP/1.0", "Transfer-Encoding: chunked")).status == 400


@pytest.mark.parametrize("header", ["Content-Length: 1", "Transfer-Encoding: chunked"])
def test_connect_has_no_body(header: str) -> None:
    line = "CONNECT example.com:443 HTTP/1.1"
    assert parse_request(request(line, "Content-Length: 0")).leaves_http
    assert refused(request(line, header)).status == 400


@pytest.mark.parametrize(
    ("line", "headers", "keep_alive"),
    [
        ("GET / HTTP/1.1", [], True),
        ("GET / HTTP/1.1", ["Connection: close"], False),
        ("GET / HTTP/1.1", ["Connection: foo, CLOSE"], False),
        ("GET / HTTP/1.1", ["Connection: keep-alive", "Connection: close"], False),
        ("GET / HTTP/1.0", [], False),
        ("GET / HTTP/1.0", ["Connection: Keep-Alive"], True),
        ("GET / HTTP/1.0", ["Proxy-Connection: keep-alive"], False),
    ],
)
def test_how_long_a_connection_lives(line: str, headers: list[str], keep_alive: bool) -> None:
    assert parse_request(request(line, *headers)).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("line", "headers", "websocket"),
    [  # PRX-08
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], True),
        ("GET / HTTP/1.1", ["Connection: keep-alive, upgrade", "Upgrade: WebSocket"], True),
        ("GET / HTTP/1.1", ["Upgrade: websocket"], False),
        ("GET / HTTP/1.0", ["Connection: Upgrade", "Upgrade: websocket"], False),
        ("POST / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket", "Content-Length: 1"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: h2c"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: TLS/1.0"], False),
        ("GET / HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket, h2c"], False),
    ],
)
def test_only_a_websocket_leaves_http_and_other_upgrades_are_removed(
    line: str, headers: list[str], websocket: bool
) -> None:
    head = parse_request(request(line, *headers))
    assert (head.websocket, head.leaves_http) == (websocket, websocket)
    assert (b"upgrade" in serialise(head, forward=True).lower()) is websocket


def test_two_upgrades_are_refused() -> None:
    assert refused(request("GET / HTTP/1.1", "Upgrade: h2c", "Upgrade: websocket")).status == 400


def test_a_client_may_wait_for_100_and_for_nothing_else() -> None:
    assert parse_request(request("PUT / HTTP/1.1", "Expect: 100-Continue", "Content-Length: 5")).expects_continue
    assert not parse_request(request("PUT / HTTP/1.0", "Expect: 100-continue", "Content-Length: 5")).expects_continue
    assert refused(request("PUT / HTTP/1.1", "Expect: 200-ok")).status == 417


# -- responses ---------------------------------------------------------------------------------------------------------
def response(line: str, *headers: str) -> bytes:
    return ("\r\n".join([line, *headers]) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize(
    ("line", "headers", "bodiless", "length", "chunked", "keep_alive"),
    [
        ("HTTP/1.1 200 OK", ["Content-Length: 5"], False, 5, False, True),
        ("HTTP/1.1 200", ["Content-Length: 5"], False, 5, False, True),
        ("HTTP/1.1 200 ", ["Content-Length: 0"], False, 0, False, True),
        ("HTTP/1.1 200 Schön ist es", ["Transfer-Encoding: chunked"], False, None, True, True),
        ("HTTP/1.1 200 OK", [], False, None, False, False),
        ("HTTP/1.0 200 OK", ["Content-Length: 5"], False, 5, False, False),
        ("HTTP/1.0 200 OK", ["Content-Length: 5", "Connection: keep-alive"], False, 5, False, True),
        ("HTTP/1.1 200 OK", ["Content-Length: 5"], True, 0, False, True),
        ("HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"], True, 0, False, True),
        ("HTTP/1.1 200 OK", [], True, 0, False, True),
        ("HTTP/1.1 304 Not Modified", ["Content-Length: 5"], False, 0, False, True),
        ("HTTP/1.1 204 No Content", [], False, 0, False, True),
        ("HTTP/1.1 204 No Content", ["Content-Length: 0"], False, 0, False, True),
        ("HTTP/1.1 100 Continue", [], False, 0, False, True),
        ("HTTP/1.1 999 Request denied", ["Content-Length: 1", "Connection: close"], False, 1, False, False),
    ],
)
def test_where_an_answer_ends(
    line: str, headers: list[str], bodiless: bool, length: int | None, chunked: bool, keep_alive: bool
) -> None:
    head = parse_response(response(line, *headers), bodiless=bodiless)
    assert (head.length, head.chunked, head.keep_alive) == (length, chunked, keep_alive)
    assert serialise(head).startswith(line.rstrip().encode("latin-1"))


@pytest.mark.parametrize(
    ("line", "headers"),
    [  # PRX-11
        ("HTTP/1.1 200 OK", ["Content-Length: 5", "Transfer-Encoding: chunked"]),
        ("HTTP/1.1 200 OK", ["Content-Length: 5", "Content-Length: 5"]),
        ("HTTP/1.1 200 OK", ["Transfer-Encoding: gzip"]),
        ("HTTP/1.0 200 OK", ["Transfer-Encoding: chunked"]),
        ("HTTP/1.1 204 No Content", ["Content-Length: 5"]),
        ("HTTP/1.1 204 No Content", ["Transfer-Encoding: chunked"]),
        ("HTTP/1.1 100 Continue", ["Content-Length: 5"]),
        ("HTTP/1.1 200 OK\rSet-Cookie: a", []),
        ("HTTP/1.1 200 OK\nSet-Cookie: a", []),
        ("HTTP/1.1 200 O\0K", []),
        ("HTTP/1.1 20 OK", []),
        ("HTTP/1.1 2000 OK", []),
        ("HTTP/1.1 099 OK", []),
        ("HTTP/1.1  200 OK", []),
        ("HTTP/2 200", []),
        ("ICY 200 OK", []),
        ("HTTP/1.1 200 OK", ["X: a\r\n b"]),
    ],
)
def test_an_answer_in_doubt_is_refused(line: str, headers: list[str]) -> None:
    with pytest.raises(BadRequest):
        parse_response(response(line, *headers), bodiless=False)


def test_answers_may_repeat_what_requests_may_not() -> None:
    head = parse_response(response("HTTP/1.1 200 OK", "Content-Type: a", "Content-Type: b"), bodiless=False)
    assert head.fields["content-type"] == "a, b"


# -- trailers ----------------------------------------------------------------------------------------------------------
def test_trailers_are_read() -> None:
    assert parse_trailers(b"X-Sum: 1\r\nX-B: 2\r\n\r\n") == (("X-Sum", "1"), ("X-B", "2"))


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "Transfer-Encoding", "Authorization", "Connection", "Proxy-X", "X-Forwarded-For"]
)
def test_a_trailer_does_not_say_what_belongs_into_the_head(name: str) -> None:  # PRX-09
    with pytest.raises(BadRequest):
        parse_trailers(f"{name}: x\r\n\r\n".encode())
