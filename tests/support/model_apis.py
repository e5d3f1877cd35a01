"""Stand-ins for the APIs of three models' services, run as a program in place of a test internet's other origins.

    python -m tests.support.model_apis ZONE.json QUERIES.log CERTIFICATE.pem KEY.pem

keys.json beside the zone has the real key of each service by its host: whoever brings another one gets 401, as from the
service itself. Hosts without a key answer 200 to everything, so who cannot reach them was refused by the gateway. The
model is scripted: it has an agent run one command with its shell, and then says ANSWER. requests.jsonl beside the zone
has a line for each request; websockets are spoken where a file of that name is beside it.
"""

from __future__ import annotations

import hmac
import http.server
import json
import re
import socketserver
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import copilot_api, model_script, model_sockets
from tests.support.model_answers import Answer, Anthropic, Chat, Gemini, OpenAI
from tests.support.origins import Datagrams, Encrypted, Names

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = threading.Lock()
_GEMINI = re.compile(r"/v1beta/models/([\w.-]+):(generateContent|streamGenerateContent)")

# The header that brings the key.
APIS = {
    "api.anthropic.com": "x-api-key",
    "api.openai.com": "authorization",
    "generativelanguage.googleapis.com": "x-goog-api-key",
    copilot_api.USERS: "authorization",
    copilot_api.MODELS: "authorization",
}
_ROUTES: dict[tuple[str, str], type[Anthropic | Chat | OpenAI]] = {
    ("api.anthropic.com", "/v1/messages"): Anthropic,
    ("api.openai.com", "/v1/responses"): OpenAI,
    (copilot_api.MODELS, "/chat/completions"): Chat,
}


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    directory: Path

    def do_GET(self) -> None:
        self._host = (self.headers.get("Host") or "").partition(":")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = self._chunks()
        header = APIS.get(self._host, "")
        path = self.path.partition("?")[0]
        if header and not self._has_key(header):
            self._say(401, _ERRORS[self._host])
        elif self.headers.get("Upgrade"):
            self._upgrade()
        elif answer := self._answer(body):
            self._refuse() if self._refusal.exists() else self._speak(answer)
        elif known := copilot_api.told(self._host, path):
            self._say(200, known)
        elif path.endswith((":countTokens", "/count_tokens")):
            self._say(200, {"input_tokens": 12, "totalTokens": 12})
        else:
            self._say(404 if header else 200, {"error": {"message": "the stand-in does not know it"}})

    def _has_key(self, header: str) -> bool:
        wanted = json.loads((self.directory / "keys.json").read_text())[self._host]
        given = (self.headers.get(header) or "").rpartition(" ")[2]  # `Bearer`, `bearer` and `token` all come
        return hmac.compare_digest(given.encode("latin-1"), wanted.encode())

    def _answer(self, body: bytes) -> Answer | None:
        path = self.path.partition("?")[0]
        if self.command != "POST":
            return None
        script = model_script.load(self.directory)
        if found := _GEMINI.fullmatch(path):
            return Gemini(json.loads(body), found[1], stream=found[2].startswith("stream"), script=script)
        if route := _ROUTES.get((self._host, path)):
            return route(json.loads(body), script=script)
        return None

    @property
    def _refusal(self) -> Path:
        """What a model's requests are refused with, if a test wants it: a status and a body."""
        return self.directory / "refusal.json"

    def _refuse(self) -> None:
        status, value = json.loads(self._refusal.read_text())
        self._say(status, value)

    def _speak(self, answer: Answer) -> None:
        if not answer.streamed:
            self._say(200, answer.whole(), answer)
            return
        self._record(200, answer)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in answer.events():  # a chunk each, as services send them
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _upgrade(self) -> None:
        if not (self.directory / "websockets").exists():
            self._say(426, {"error": {"message": "not over a websocket"}})
            return
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", model_sockets.accept(self.headers["Sec-WebSocket-Key"]))
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        model_sockets.converse(self.rfile, self.wfile, self._over_websocket)

    def _over_websocket(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        answer = OpenAI(message, script=model_script.load(self.directory))
        self._record(101, answer)
        return answer.messages()

    def _say(self, status: int, value: dict[str, Any], answer: Answer | None = None) -> None:
        self._record(status, answer)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _record(self, status: int, answer: Answer | None) -> None:
        row = {
            "at": time.monotonic(),
            "host": self._host,
            "method": self.command,
            "path": self.path,
            "status": status,
            "model": answer.model if answer else "",
            "final": bool(answer and answer.final),
            "heard": answer.said("user") if answer else [],
            "told": answer.said("assistant") if answer else [],
        }
        with _LOCK, (self.directory / "requests.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_POST = do_PUT = do_HEAD = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Say nothing."""


_ERRORS: dict[str, dict[str, Any]] = {
    "api.anthropic.com": {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    "api.openai.com": {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}},
    "generativelanguage.googleapis.com": {
        "error": {"code": 401, "message": "API key not valid", "status": "UNAUTHENTICATED"}
    },
    copilot_api.USERS: {
        "message": "Bad credentials",
        "documentation_url": "https://docs.github.com/rest",
        "status": "401",
    },
    copilot_api.MODELS: {"error": {"message": "unauthorized: token is not valid", "code": "unauthorized"}},
}


def main(zone: str, log: str, certificate: str, key: str) -> None:
    Api.directory = Path(zone).parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    servers: list[socketserver.BaseServer] = [
        socketserver.ThreadingUDPServer(("127.0.0.1", 53), Datagrams),
        Encrypted(("::", 443), Api, context),
    ]
    for server in servers:
        server.names = Names(Path(zone), Path(log))  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()  # until our starter is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
