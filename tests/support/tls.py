"""Servers that refuse: a refusal of the gateway behind a real socket, so that real programs can meet it."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from paddock.gateway.refusal import TlsRefusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator


@contextlib.contextmanager
def refusing(context: ssl.SSLContext, text: str) -> Iterator[int]:
    """The port on loopback at which every connection gets `text`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        thread = threading.Thread(target=_serve, args=(server, context, text), name="refusing")
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)  # wakes accept
            thread.join()


def _serve(server: socket.socket, context: ssl.SSLContext, text: str) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            refuse(connection, TlsRefusal(context, text))


def refuse(connection: socket.socket, refusal: TlsRefusal) -> None:
    while not refusal.done:
        connection.sendall(refusal.feed(connection.recv(4096)))
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass
