"""Servers of a test's own internet, run as a program inside its network namespace.

    python -m tests.support.origins ZONE.json QUERIES.log CERTIFICATE.pem KEY.pem

DNS on 127.0.0.1:53 answers from ZONE.json, read anew for every query: a name has a list of answers, of which the n-th
query gets the n-th and the last one stays (so a name can be rebound). Each query is a line in QUERIES.log. HTTP on port
80 and 8080 and HTTPS on 443 answer with what they saw, as JSON, and below /guarded/ let in who has a key; github.com is
git's own http-backend over git/ beside ZONE.json, for whoever has the key in git/key; registries of packages have the
files of packages/HOST beside it; 7 echoes; 9999 speaks first.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import ipaddress
import json
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any

REGISTRIES = (".npmjs.org", "pypi.org", ".pythonhosted.org", "packages.example", "elsewhere.example")


def question(data: bytes) -> tuple[str, int, int]:
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
        at += data[at] + 1
    return ".".join(labels).lower(), struct.unpack_from(">H", data, at + 1)[0], at + 5


class Names:
    def __init__(self, zone: Path, log: Path) -> None:
        self._zone, self._log = zone, log
        self.forge = zone.parent / "git"
        self.shelf = zone.parent / "packages"
        self._asked: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def answer(self, data: bytes) -> bytes:
        name, kind, end = question(data)
        with self._lock, self._log.open("a") as log:
            log.write(f"{name} {kind}\n")
            rows = json.loads(self._zone.read_text()).get(name)
            turn = self._asked[name, kind] = self._asked.get((name, kind), 0) + 1
        if rows is None:
            return data[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + data[12:end]
        addresses = [ipaddress.ip_address(text) for text in rows[min(turn, len(rows)) - 1]]
        wanted = [one.packed for one in addresses if kind == {4: 1, 6: 28}[one.version]]
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(one)) + one for one in wanted)
        return data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(wanted), 0, 0) + data[12:end] + records


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, sock = self.request
        sock.sendto(self.server.names.answer(data), self.client_address)  # type: ignore[attr-defined]


class Streams(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while len(size := self.rfile.read(2)) == 2:
            reply = self.server.names.answer(self.rfile.read(int.from_bytes(size, "big")))  # type: ignore[attr-defined]
            self.wfile.write(len(reply).to_bytes(2, "big") + reply)


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Host") == "github.com":
            self._git(self.server.names.forge)  # type: ignore[attr-defined]
            return
        if (self.headers.get("Host") or "").endswith(REGISTRIES):
            self._package(self.server.names.shelf)  # type: ignore[attr-defined]
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = {
            "method": self.command,
            "path": self.path,
            "host": self.headers.get("Host"),
            "headers": list(self.headers.items()),
            "body": body.decode("latin-1"),
            "address": self.connection.getsockname()[0].removeprefix("::ffff:"),
        }
        data = json.dumps(seen).encode() if self.path != "/big" else b"x" * (8 << 20)
        if self.path == "/v1/messages":  # as Anthropic's: a thousand tokens each way
            usage = {"input_tokens": 1000, "output_tokens": 1000}
            data = json.dumps({"type": "message", "model": "claude-haiku-4-5", "usage": usage}).encode()
        if self.path.startswith("/guarded/"):
            self._guarded(self.path.removeprefix("/guarded/"))
            return
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://other.example/")
        else:
            self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _package(self, root: Path) -> None:
        """A file below the registry's own directory, whatever its type."""
        file = root / str(self.headers["Host"]) / urllib.parse.unquote(self.path).strip("/")
        file = file / "index.html" if file.is_dir() else file
        data = file.read_bytes() if file.is_file() else b"{}"
        self.send_response(200 if file.is_file() else 404)
        self.send_header("Content-Type", "text/html" if file.suffix == ".html" else "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _guarded(self, wanted: str) -> None:
        """Only who has the key with this SHA-256 is let in."""
        given = self.headers.get("X-Api-Key", "").encode()
        is_right = hashlib.sha256(given).hexdigest() == wanted
        data = b"welcome\n" if is_right else b"no such key\n"
        self.send_response(200 if is_right else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _git(self, root: Path) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(given).decode() != f"x-access-token:{(root / 'key').read_text()}":
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "HOME": str(root)}
        env |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "somebody"}
        env |= {"CONTENT_TYPE": self.headers.get("Content-Type", ""), "GIT_CONFIG_COUNT": "1"}
        env |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        env |= {"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        done = subprocess.run(["git", "http-backend"], input=self._body(), env=env, capture_output=True, check=False)
        head, _, out = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while data := self.connection.recv(65536):
            self.connection.sendall(data)


class Greeting(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"hello from a server that speaks first\n")
        self.rfile.readline()


class Threaded(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6  # and IPv4 with it
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


class Encrypted(Threaded):
    def __init__(self, where: tuple[str, int], handler: Any, context: ssl.SSLContext) -> None:
        super().__init__(where, handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self._context.wrap_socket(request, server_side=True) as secured:
            self.RequestHandlerClass(secured, client_address, self)  # type: ignore[arg-type]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up is none of our business."""


def main(zone: str, log: str, certificate: str, key: str) -> None:
    names = Names(Path(zone), Path(log))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    servers: list[socketserver.BaseServer] = [
        socketserver.ThreadingUDPServer(("127.0.0.1", 53), Datagrams),
        Threaded(("::", 53), Streams),
        *(Threaded(("::", port), Web) for port in (80, 8080)),
        Encrypted(("::", 443), Web, context),
        Threaded(("::", 7), Echo),
        Threaded(("::", 9999), Greeting),
    ]
    for server in servers:
        server.names = names  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()  # until our starter is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
