"""Inspected connections for tests: origins with certificates of a test's own root, documents, and clients in boxes."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any

from paddock.gateway.certificates import Leaves, make_authority
from paddock.policy import Host
from tests.support.origins_plain import over_tls
from tests.support.scene import connect, policy

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from tests.support.scene import BoxScene, Scene

API, OTHER = "api.test", "other.test"
PLACEHOLDER = "sk-test-0000placeholder0000placeholder"
VALUE = "sk-test-1111realrealreal1111realrealre"


def secret(name: str = "api", **more: Any) -> dict[str, Any]:
    """An entry of the document: bound to API unless the test says otherwise."""
    return {"name": name, "placeholder": PLACEHOLDER, "value": VALUE, "hosts": [API], **more}


def document(*secrets: dict[str, Any], meter: Sequence[str] = ()) -> bytes:
    return json.dumps({"secrets": secrets, "meter": list(meter)}).encode()


class Roots:
    """A root that the gateway is told to trust, and servers it certifies."""

    def __init__(self, scene: Scene, *, told: bool = True) -> None:
        self.authority = make_authority("the roots of a test")
        self._leaves = Leaves(self.authority, str(scene.directory))
        self._scene = scene
        if told:
            scene.run(scene.gateway.set_roots(self.authority.certificate_pem))

    def fresh(self) -> Roots:
        """The same root, with no certificate made yet."""
        made = object.__new__(Roots)
        made.authority, made._scene = self.authority, self._scene
        made._leaves = Leaves(self.authority, str(self._scene.directory))
        return made

    def context(self, name: str = API) -> ssl.SSLContext:
        return self._leaves.context(Host(name))

    def serve(self, serve: Callable[[socket.socket], None], name: str = API, port: int = 443) -> None:
        """An origin of that name."""
        self._scene.origin(port, over_tls(self.context(name), serve))
        self._scene.names(name)


def inspected_box(scene: Scene, content: bytes, *allowed: str, **options: Any) -> BoxScene:
    return scene.box(policy(*(allowed or (API, OTHER)), **options), secrets=content)


def secured(box: BoxScene, name: str = API, port: int = 443, alpn: Sequence[str] = ("http/1.1",)) -> ssl.SSLSocket:
    """Inside the box: TLS with `name`, verified by the box's own authority."""
    return wrapped(box, connect(name, port), name, alpn)


def wrapped(box: BoxScene, sock: socket.socket, name: str, alpn: Sequence[str] = ("http/1.1",)) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=box.authority.certificate_pem.decode())
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context.wrap_socket(sock, server_hostname=name)


def get(path: str = "/", *headers: str, host: str = API, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def ask(box: BoxScene, data: bytes, name: str = API, port: int = 443) -> str:
    """Inside the box: what comes back for `data` until the connection ends; the last request should ask to close."""
    with secured(box, name, port) as sock:
        sock.settimeout(10)
        sock.sendall(data)
        return drain(sock)


def drain(sock: socket.socket) -> str:
    said = b""
    try:
        while piece := sock.recv(65536):
            said += piece
    except (ConnectionResetError, ssl.SSLError) as error:
        return said.decode("latin-1") + f"<{type(error).__name__}>"
    return said.decode("latin-1")
