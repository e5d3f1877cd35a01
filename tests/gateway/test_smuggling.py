"""What is judged here and what a server behind us reads are the same requests."""

from __future__ import annotations

import io
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given

from paddock.gateway.http1 import BadRequest, Head, RequestParser, serialise
from tests.support.streams import PARTS, streams


class Origin(BaseHTTPRequestHandler):
    """An ordinary server over a buffer: notes the requests it believes it got."""

    protocol_version = "HTTP/1.1"

    def __init__(self, data: bytes) -> None:
        self.rfile, self.wfile = io.BytesIO(data), io.BytesIO()
        self.client_address = ("127.0.0.1", 1)
        self.seen: list[tuple[str, str, str | None]] = []
        self.close_connection = False
        while not self.close_connection:
            self.handle_one_request()

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, self.headers.get("Host")))
        self.send_response(200)
        self.end_headers()

    do_POST = do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def heads(data: bytes) -> list[Head]:
    try:
        return [event for event in RequestParser().feed(data) if isinstance(event, Head)]
    except BadRequest:
        return []


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: a.test\n\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\n X: folded\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +4\r\n\r\nbody",
        b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 9\r\n\r\nbody",
        b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ],
)
def test_what_an_ordinary_server_takes_is_refused(data: bytes) -> None:
    assert Origin(data).seen
    assert heads(data) == []


@given(streams(PARTS))
def test_an_ordinary_server_reads_what_we_read(data: bytes) -> None:  # PRX-15
    sent = b""
    wanted: list[tuple[str, str, str | None]] = []
    for head in heads(data):
        if head.length is None or head.length > 10_000 or head.method not in {"GET", "POST"}:
            break  # it knows neither chunks nor other methods
        sent += serialise(head, forward=True) + bytes(head.length)
        wanted.append((head.method, head.path, head.fields["host"]))
        if not head.keep_alive:
            break
    assert Origin(sent).seen == wanted
