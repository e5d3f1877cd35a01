"""The refusal as the client's own protocol says it: a 403 over HTTP, the same inside TLS, an alert otherwise.

`TlsRefusal` is a TLS server without a socket: bytes in, bytes out. It ends the handshake with a leaf of the box's
authority, reads the head of one request, answers 403 with the text and closes. Whatever goes wrong ends it with the
alert that says so. Who owns the socket bounds the time, and after `done` sends what is left, shuts down its side and
reads on for a moment: closing a socket with unread data makes the kernel reset it, and the text would be lost.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from http import HTTPStatus

from paddock import limits

_READ_BYTES = 16 * limits.KIB
_METHOD = rb"[A-Za-z]{1,24} "
_METHOD_BYTES = 25
ACCESS_DENIED_ALERT = bytes.fromhex("15 0301 0002 02 31")  # fatal(2), access_denied(49), for who cannot do better
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one request is not sent on: `reason` for the records, `text` for whoever sent it."""

    status: int
    reason: str
    text: str
    rule: str = ""
    allow: str = ""  # the command that would allow it


def http_response(text: str, *, status: int = 403, head_only: bool = False) -> bytes:
    """A whole answer with `text` as its body; `head_only` for a HEAD request. The connection closes after it."""
    body = text.encode("utf-8", "backslashreplace")
    head = (
        f"HTTP/1.1 {status} {_PHRASES.get(status, 'Refused')}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n"
        "Server: paddock\r\n"
        "\r\n"
    )
    return head.encode("ascii") + (b"" if head_only else body)


class TlsRefusal:
    """One connection's refusal; `done` when nothing more will be sent, `delivered` when the answer was written."""

    def __init__(self, context: ssl.SSLContext, text: str, *, status: int = 403) -> None:
        self._text, self._status = text, status
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = self._answered = False
        self._fed_bytes = 0
        self._head = bytearray()
        self.done = False
        self.delivered = False

    def __repr__(self) -> str:
        state = "done" if self.done else "reading" if self._shaken else "shaking hands"
        return f"<TlsRefusal {state}, {self._fed_bytes} bytes>"

    def feed(self, data: bytes) -> bytes:
        """Bytes to send for the bytes that came; b"" for `data` is the end of the client's stream."""
        if self.done:
            return b""
        self._fed_bytes += len(data)
        if not data or self._fed_bytes > limits.REFUSAL_FED_BYTES:
            return self._give_up()
        self._incoming.write(data)
        try:
            self._advance()
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, OSError, ValueError):
            self.done = True  # the alert, where TLS has one for it, is in what goes out
        return self._sent()

    def _sent(self) -> bytes:
        data = self._outgoing.read()
        self._answered = self._answered or bool(data)
        return data

    def _give_up(self) -> bytes:
        """Close inside TLS once there is one; before the first answer an alert can still be read in the clear."""
        self.done = True
        if self._shaken:
            self._close()
            return self._sent()
        return b"" if self._answered else ACCESS_DENIED_ALERT

    def _advance(self) -> None:
        if not self._shaken:
            self._tls.do_handshake()
            self._shaken = True
        while not self._is_head_complete():
            chunk = self._tls.read(_READ_BYTES)
            if not chunk:
                raise ssl.SSLEOFError
            self._head += chunk
        self._tls.write(
            http_response(self._text, status=self._status, head_only=self._head.startswith((b"HEAD ", b"head ")))
        )
        self.delivered = self.done = True
        self._close()

    def _close(self) -> None:
        try:
            self._tls.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass  # our close is written; the client's is not waited for

    def _is_head_complete(self) -> bool:
        """True too for what is no HTTP or too long: it will not become better, and the text explains it."""
        head = self._head
        if b"\r\n\r\n" in head or b"\n\n" in head or len(head) > limits.REFUSAL_HEAD_BYTES:
            return True
        begin = bytes(head[:_METHOD_BYTES])
        return re.match(_METHOD, begin) is None and (len(begin) == _METHOD_BYTES or not begin.isalpha()) and bool(begin)
