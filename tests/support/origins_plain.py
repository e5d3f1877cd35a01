"""Servers of a few lines for tests of the gateway, each a function of one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable


def echo(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        sock.sendall(data)


def banner(sock: socket.socket) -> None:
    """Speaks first, as ssh and SMTP do."""
    sock.sendall(b"hello from the server\n")
    sock.sendall(b"you said " + sock.recv(65536))


def web(sock: socket.socket) -> None:
    """Answers every request with its own head and body, until one asks to close."""
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            data = sock.recv(65536)
            if not data:
                return
            buffer += data
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        body = b""
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                while len(buffer) < int(value):
                    buffer += sock.recv(65536)
                body, buffer = buffer[: int(value)], buffer[int(value) :]
            if name.lower() == b"transfer-encoding":
                while not buffer.endswith(b"0\r\n\r\n"):
                    buffer += sock.recv(65536)
                body, buffer = buffer, b""
        said = head + b"\n" + body
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
        if b"connection: close" in head.lower():
            return


def websocket(sock: socket.socket) -> None:
    """Leaves HTTP when asked to, and then echoes."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    if b"upgrade: websocket" in head.lower() and b"/refuse" not in head:
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        echo(sock)
    else:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhttp")
        web(sock)


def over_tls(context: ssl.SSLContext, serve: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def wrapped(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as inner:
            serve(inner)

    return wrapped
