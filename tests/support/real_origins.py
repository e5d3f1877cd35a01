"""Real servers as origins of inspected connections: each says on standard output which requests it believes it got."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.gateway import certificates
from paddock.policy import Host
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from tests.support.inspecting import Roots

GO = """package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(os.Stdout, "%s %s\\n", r.Method, r.RequestURI)
		if err == nil {
			fmt.Fprintf(w, "%d\\n", len(body))
		}
	})
	fmt.Println("ready")
	panic(http.ListenAndServeTLS(":8443", os.Args[1], os.Args[1], nil))
}
"""
NODE = """
const https = require("https"), fs = require("fs"), pem = fs.readFileSync(process.argv[2]);
https.createServer({key: pem, cert: pem}, (request, answer) => {
  let size = 0;
  fs.writeSync(1, request.method + " " + request.url + "\\n");
  request.on("data", data => { size += data.length; });
  request.on("end", () => answer.end(size + "\\n"));
}).listen(8443, () => fs.writeSync(1, "ready\\n"));
"""
PYTHON = """
import http.server, ssl, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        sys.stdout.write(f"{self.command} {self.path}\\n")
        sys.stdout.flush()
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"0\\n")

    do_POST = do_PUT = do_HEAD = do_GET

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
sys.stdout.write("ready\\n")
sys.stdout.flush()
server.serve_forever()
"""
UVICORN = """
import sys, uvicorn

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    query = scope["query_string"].decode("latin-1")
    say(f"{scope['method']} {scope['raw_path'].decode('latin-1')}{'?' if query else ''}{query}\\n")
    size, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        size, more = size + len(event["body"]), event["more_body"]
    body = b"%d\\n" % size
    head = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})

say("ready\\n")
pem = sys.argv[1]
uvicorn.run(app, port=8443, http="h11", lifespan="off", log_config=None, ssl_keyfile=pem, ssl_certfile=pem)
"""
NGINX = """
daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log {place}/error;
events {{ worker_connections 64; }}
http {{
  log_format seen '$request_method $request_uri';
  access_log /dev/stdout seen;
  client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
  uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
  server {{
    listen 127.0.0.1:8443 ssl; ssl_certificate {pem}; ssl_certificate_key {pem};
    location / {{ return 200 "0\\n"; }}
  }}
}}
"""
PORT = 8443  # whoever is started in a test's namespace may not have a lower one
SERVERS = ("go", "node", "nginx", "python", "uvicorn")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing(name: str) -> bool:
    if name == "uvicorn":
        return importlib.util.find_spec(name) is None
    return name != "python" and shutil.which(name, path=_PATH) is None


def prepare(name: str, place: Path) -> list[str]:
    """The words that start a server, to which the file with its key and certificate is added; outside the namespace."""
    match name:
        case "go":
            (place / "origin.go").write_text(GO)
            env = {"PATH": _PATH, "HOME": os.environ.get("HOME", "/tmp"), "GO111MODULE": "off", "CGO_ENABLED": "0"}
            env |= {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOCACHE": _go_cache(place)}
            command = ["go", "build", "-o", "origin", "origin.go"]
            subprocess.run(command, cwd=place, env=env, check=True, capture_output=True)
            return [str(place / "origin")]
        case "node":
            (place / "origin.js").write_text(NODE)
            return ["node", str(place / "origin.js")]
        case "nginx":
            return ["nginx"]
        case "uvicorn":
            return [sys.executable, "-c", UVICORN]
        case _:
            return [sys.executable, "-I", "-c", PYTHON]


def _go_cache(place: Path) -> str:
    """The user's own where there is one: the standard library takes half a minute to build."""
    known = Path(os.environ.get("HOME", "/")) / ".cache" / "go-build"
    return str(known if known.is_dir() and os.access(known, os.W_OK) else place / "cache")


class Origin:
    """A server in this process's network namespace, for `name`."""

    def __init__(self, kind: str, words: list[str], place: Path, roots: Roots, name: str) -> None:
        pem = place / "origin.pem"
        pem.write_bytes(certificates._Signer(roots.authority).leaf(Host(name)))
        self._log = place / "seen"
        command = [shutil.which(words[0], path=_PATH) or words[0], *words[1:]]
        if kind == "nginx":
            (place / "nginx.conf").write_text(NGINX.format(place=place, pem=pem))
            command += ["-p", str(place), "-e", str(place / "error"), "-c", str(place / "nginx.conf")]
            self._log.write_text("ready\n")
        else:
            command.append(str(pem))
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.DEVNULL)
        until(lambda: "ready" in self._log.read_text() and _listens(PORT), f"{kind} is ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def seen(self) -> list[str]:
        """The requests, once no more of them are on their way."""
        known = -1
        while known != self._log.stat().st_size:
            known = self._log.stat().st_size
            time.sleep(0.05)  # an access log is written after the answer was read
        return self._log.read_text().splitlines()[1:]


def _listens(port: int) -> bool:
    return any(_ports(Path(path).read_text(), port) for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"))


def _ports(table: str, port: int) -> Iterator[str] | bool:
    return any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines()[1:])
