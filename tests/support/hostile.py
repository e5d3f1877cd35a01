"""Clients and servers of inspected connections that say anything: HTTP that is nearly right, spoiled TLS, noise."""

from __future__ import annotations

import contextlib
import random
import ssl
import struct
from typing import TYPE_CHECKING, Final

from tests.support.inspecting import API, OTHER, PLACEHOLDER, VALUE, get
from tests.support.streams import ANSWERS, PARTS

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_KEYS = (f"X-Api-Key: {PLACEHOLDER}", f"Authorization: Bearer {PLACEHOLDER}", f"X: {VALUE}", "Cookie: a=b")
REQUESTS: Final = [
    *(get("/", key, host=host) for key in _KEYS for host in (API, OTHER)),
    get(f"/{PLACEHOLDER}?{PLACEHOLDER}"),
    get("/", "Content-Length: 5", _KEYS[0], method="POST") + b"hello",
    get("/", "Transfer-Encoding: chunked", _KEYS[0], method="POST"),
    get("/ws", "Connection: Upgrade", "Upgrade: websocket", _KEYS[0]),
    get("/", "Expect: 100-continue", "Content-Length: 5", method="PUT"),
    PLACEHOLDER.encode(),
    *(part.replace(b"a.test", API.encode()) for part in PARTS),
]
REPLIES: Final = [
    *(answer for answer in ANSWERS if b" 101 " not in answer),  # what comes in pieces after it is not searched
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    f"HTTP/1.1 302 {VALUE}\r\nLocation: https://{OTHER}/{VALUE}\r\nContent-Length: 0\r\n\r\n".encode(),
    f"HTTP/1.1 200 OK\r\nContent-Length: {len(VALUE)}\r\n\r\n{VALUE}".encode(),
    f"HTTP/1.0 200 OK\r\n\r\n{VALUE}{VALUE[:9]}".encode(),
    f"26\r\n{VALUE}\r\n0\r\nX: {VALUE}\r\n\r\n".encode(),
    VALUE.encode(),
]


def stream(dice: random.Random, parts: list[bytes]) -> bytes:
    """Some of them, usually spoiled somewhere."""
    data = b"".join(dice.choices(parts, k=dice.randint(1, 4)))
    for _ in range(dice.choice((0, 0, 1, 3))):
        at = dice.randrange(len(data) + 1)
        data = data[:at] + dice.randbytes(dice.randint(0, 3)) + data[at + dice.randint(0, 3) :]
    return data + dice.randbytes(dice.choice((0, 0, 0, 9, 70_000)))


def send_pieces(dice: random.Random, send: Callable[[bytes], object], data: bytes) -> None:
    step = dice.choice((1, 7, 500, 100_000)) if len(data) < 2000 else 100_000
    for at in range(0, len(data), step):
        send(data[at : at + step])


def spoiled(dice: random.Random, data: bytes) -> bytes:
    """One bit of it."""
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def records(dice: random.Random, hello: bytes) -> bytes:
    """What looks like the beginning of TLS."""
    kinds = bytes([dice.choice((20, 21, 22, 23, 24, 255))]) + b"\x03" + bytes([dice.randrange(5)])
    wild = b"".join(
        kinds + struct.pack(">H", dice.choice((0, 5, 16384, 65535))) + dice.randbytes(dice.randint(0, 40))
        for _ in range(dice.randint(1, 30))
    )
    return dice.choice((hello[: dice.randrange(len(hello))], spoiled(dice, hello), hello + wild, wild, hello * 3))


class SpoiledWire:
    """TLS over a socket; of what is sent one piece is spoiled, early or late."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, dice: random.Random, name: str | None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=name is None, server_hostname=name)
        self._sock, self._dice, self._left = sock, dice, dice.randrange(4)

    def talk(self, data: bytes) -> None:
        """Handshake and `data`. OSError when the other end had enough."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                heard = self._sock.recv(65536)
                if not heard:
                    return
                self._incoming.write(heard)
        for at in range(0, len(data), 500):
            self._tls.write(data[at : at + 500])
            self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._left == 0:
            data = spoiled(self._dice, data)
        if data:
            self._left -= 1
            self._sock.sendall(data)


def heard(sock: socket.socket, patience_s: float = 0.3) -> bytes:
    """Whatever comes until the end, or until nothing does."""
    sock.settimeout(patience_s)
    said = b""
    with contextlib.suppress(OSError):
        while data := sock.recv(65536):
            said += data
    return said


def server(context: ssl.SSLContext, seen: list[bytes], *, knows: bool) -> Callable[[socket.socket], None]:
    """An origin that is never the same twice; `seen` gets what it hears inside TLS. Who knows the value says it."""
    dice = random.Random(5)
    replies = REPLIES if knows else [reply.replace(VALUE.encode(), PLACEHOLDER.encode()) for reply in REPLIES]

    def serve(sock: socket.socket) -> None:
        own = random.Random(dice.random())
        sock.settimeout(5)
        match own.choice(("noise", "end", "spoiled", *["talk"] * 7)):
            case "noise":
                sock.sendall(own.randbytes(own.choice((1, 300, 70_000))))
            case "spoiled":
                SpoiledWire(sock, context, own, None).talk(stream(own, replies))
            case "talk":
                with context.wrap_socket(sock, server_side=True) as tls:
                    seen.append(tls.recv(65536))
                    send_pieces(own, tls.sendall, stream(own, replies))
                    seen.append(heard(tls))
            case _:
                pass  # it hangs up

    return serve
