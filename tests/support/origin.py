"""A server of the host's own, on its loopback: what a box reaches by `localhost:PORT` when it may."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

ANSWER = b"hello from the host\n"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        pass


class Origin:
    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def rule(self) -> str:
        return f"localhost:{self.port}"

    def fetch(self) -> list[str]:
        """The words of a command that asks it, in a box or outside."""
        return ["curl", "-sS", "--noproxy", "*", "-m", "10", f"http://localhost:{self.port}/"]
