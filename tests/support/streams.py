"""HTTP as bytes: whole messages, pieces of them, and strategies that join and spoil them."""

from __future__ import annotations

from hypothesis import strategies as st

GET = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = b"GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
CONNECT = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"
WEBSOCKET = b"GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

PARTS = [
    GET,
    POST,
    CHUNKED,
    CLOSE,
    CONNECT,
    WEBSOCKET,
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"X: y\r\n",
    b"Host: a.test\r\n",
    b"GET http://a.test/ HTTP/1.1\r\n",
    b"PUT / HTTP/1.0\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
]
ANSWERS = [
    OK,
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n",
    *PARTS[6:16],
    *PARTS[18:],
]


def cut(data: bytes, at: int, new: bytes, skip: int) -> bytes:
    at %= len(data) + 1
    return data[:at] + new + data[at + skip :]


def streams(parts: list[bytes]) -> st.SearchStrategy[bytes]:
    joined = st.lists(st.sampled_from(parts) | st.binary(max_size=4), max_size=6).map(b"".join)
    return joined | st.builds(cut, joined, st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3))
