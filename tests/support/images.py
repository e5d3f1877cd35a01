"""A registry of images on loopback: as much of the OCI distribution specification as skopeo asks for."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_MANIFEST = re.compile(r"/v2/(?P<name>[a-z0-9/._-]+)/manifests/(?P<which>[\w.:-]+)")
_BLOB = re.compile(r"/v2/(?P<name>[a-z0-9/._-]+)/blobs/(?P<which>sha256:[0-9a-f]{64})")
_UPLOAD = re.compile(r"/v2/(?P<name>[a-z0-9/._-]+)/blobs/uploads/(?P<which>\w*)")


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """What it has; a test may change it. With `login`, nobody gets anything without it."""

    def __init__(self, login: str = "") -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}  # by name:tag and by name@digest
        self.login = login
        self.asked: list[str] = []
        self.uploads: dict[str, bytes] = {}
        self.silence: threading.Event | None = None  # blobs are not sent before it is set
        self.port = 0

    def put(self, name: str, tag: str, manifest: dict[str, Any], *blobs: bytes) -> str:
        data = json.dumps(manifest).encode()
        self.blobs |= {digest(blob): blob for blob in blobs}
        self.manifests[f"{name}:{tag}"] = self.manifests[f"{name}@{digest(data)}"] = data
        return digest(data)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def log_message(self, *_: object) -> None:
        pass

    def _say(self, code: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _is_welcome(self) -> bool:
        wanted = self.registry.login
        self.registry.asked.append(f"{self.command} {self.path}")
        said = f"Basic {base64.b64encode(wanted.encode()).decode()}"
        if not wanted or self.headers.get("Authorization") == said:
            return True
        self._body()
        self._say(401, b"{}", WWW_Authenticate='Basic realm="test"')
        return False

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        if not self._is_welcome():
            return
        if self.path == "/v2/":
            self._say(200, b"{}")
        elif found := _MANIFEST.fullmatch(self.path):
            joined = "@" if found["which"].startswith("sha256:") else ":"
            data = self.registry.manifests.get(f"{found['name']}{joined}{found['which']}")
            if data is None:
                self._say(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such image"}]}')
                return
            kind = str(json.loads(data).get("mediaType", "application/vnd.oci.image.manifest.v1+json"))
            self._say(200, data, Content_Type=kind, Docker_Content_Digest=digest(data))
        elif (found := _BLOB.fullmatch(self.path)) and found["which"] in self.registry.blobs:
            if self.registry.silence is not None:
                self.registry.silence.wait(60)
            self._say(200, self.registry.blobs[found["which"]], Content_Type="application/octet-stream")
        else:
            self._say(404, b"{}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        if self._is_welcome() and (found := _UPLOAD.fullmatch(urlsplit(self.path).path)):
            self._body()
            upload = f"u{len(self.registry.uploads)}"
            self.registry.uploads[upload] = b""
            self._say(202, Location=f"/v2/{found['name']}/blobs/uploads/{upload}")

    def do_PATCH(self) -> None:
        if self._is_welcome() and (found := _UPLOAD.fullmatch(urlsplit(self.path).path)):
            self.registry.uploads[found["which"]] += self._body()
            self._say(202, Location=f"/v2/{found['name']}/blobs/uploads/{found['which']}")

    def do_PUT(self) -> None:
        if not self._is_welcome():
            return
        where = urlsplit(self.path)
        if found := _UPLOAD.fullmatch(where.path):
            data = self.registry.uploads.pop(found["which"]) + self._body()
            assert parse_qs(where.query)["digest"] == [digest(data)]
            self.registry.blobs[digest(data)] = data
            self._say(201, Docker_Content_Digest=digest(data))
        elif found := _MANIFEST.fullmatch(where.path):
            data = self._body()
            for which in (f":{found['which']}", f"@{digest(data)}"):
                self.registry.manifests[f"{found['name']}{which}"] = data
            self._say(201, Docker_Content_Digest=digest(data))


@contextlib.contextmanager
def registry(login: str = "") -> Iterator[Registry]:
    """It listens when this is entered."""
    made = Registry(login)
    handler = type("Handler", (_Handler,), {"registry": made})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        made.port = server.server_port
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield made
        finally:
            server.shutdown()
            serving.join()


def kept(there: Registry, file: Path) -> None:
    """For a registry that is a process of its own."""
    words = {"blobs": there.blobs, "manifests": there.manifests}
    file.write_text(json.dumps({key: {name: data.hex() for name, data in of.items()} for key, of in words.items()}))


def main(file: str, login: str, port: str, certificate: str, key: str) -> None:
    """With TLS; what it was asked for is written beside the file."""
    words = json.loads(Path(file).read_text())
    made = Registry(login)
    made.blobs, made.manifests = (
        {name: bytes.fromhex(data) for name, data in words[of].items()} for of in ("blobs", "manifests")
    )
    made.asked = _Log(f"{file}.log")
    handler = type("Handler", (_Handler,), {"registry": made})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("0.0.0.0", int(port)), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


class _Log(list[str]):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def append(self, line: str) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
