"""One inspected request and its answer: what is sent for what came, and what is known of it in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.gateway.headwriting import write_request
from paddock.gateway.http1 import chunk, last_chunk
from paddock.gateway.replacing import Replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.gateway.heads import Head, Headers, ResponseHead
    from paddock.gateway.injection import Swapped
    from paddock.gateway.meter import Metered

_TUNNEL: Final = 101


class Exchange:
    """`status` is 0 until an answer began. The secrets it carries leave it by `opening` and the bodies only."""

    __slots__ = (
        "_chunked",
        "_guard",
        "_metered",
        "_names",
        "_opening",
        "_replacing",
        "_words",
        "head",
        "received",
        "sent",
        "started",
        "status",
    )

    def __init__(
        self,
        head: Head,
        swapped: Swapped,
        *,
        started: float,
        metered: Metered | None = None,
        words: Mapping[bytes, str] | None = None,
        body: Mapping[bytes, bytes] | None = None,
        masks: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.head = head
        self.started = started
        self.status = 0
        self.sent = self.received = 0  # bytes of bodies
        self._names = dict.fromkeys(swapped.names)
        self._metered = metered
        self._words = words or {}  # the names behind what is replaced in the body
        self._guard = Replacing(masks) if masks else None  # over the answer
        self._replacing = Replacing(body) if body and head.length != 0 else None
        self._chunked = head.length is None or (self._replacing is not None and not self._replacing.keeps_length)
        headers = _uncompressed(swapped.headers) if metered is not None else swapped.headers
        self._opening = write_request(head, path=swapped.path, headers=headers, chunked=self._chunked)

    def __repr__(self) -> str:
        return f"<Exchange {self.head.method} {self.path[:80]} {self.status}>"

    @property
    def path(self) -> str:
        """Without the query, for records."""
        return self.head.path.partition("?")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The secrets that were used."""
        return tuple(self._names)

    def opening(self) -> bytes:
        """The head for the server; once."""
        opening, self._opening = self._opening, b""
        return opening

    def outward(self, data: bytes) -> bytes:
        """A piece of the body, as the server gets it."""
        self.sent += len(data)
        if self._metered is not None:
            self._metered.sent(data)
        if self._replacing is not None:
            data = self._replacing.feed(data)
        return self._framed(data)

    def asked(self) -> bytes:
        """The end of the body. What followed it in the way of trailers is not sent on: nobody looked at it."""
        rest = self._replacing.end() if self._replacing is not None else b""
        if self._replacing is not None:
            self._names.update(dict.fromkeys(self._words[word] for word in self._replacing.found))
        return self._framed(rest) + (last_chunk() if self._chunked else b"")

    def answered(self, head: ResponseHead) -> None:
        self.status = head.status
        if head.fields.get("content-encoding", "identity") != "identity":
            self._guard = None  # nothing could be found in it
        if self._metered is not None:
            self._metered.head(head)

    def inward(self, data: bytes) -> bytes:
        """A piece of the answer's body, as the client gets it."""
        self.received += len(data)
        if self._metered is not None:
            self._metered.received(data)
        if self._guard is None:
            return data
        if self.status == _TUNNEL:  # nobody knows when more comes: a message may not wait for it
            return self._guard.feed(data) + self._guard.end()
        return self._guard.feed(data)

    def answer_ended(self) -> bytes:
        """What of it was held back."""
        return b"" if self._guard is None else self._guard.end()

    def through(self, data: bytes) -> None:
        """Bytes of a websocket on their way to the server."""
        self.sent += len(data)
        if self._metered is not None:
            self._metered.sent(data)

    def end(self, *, complete: bool) -> None:
        if self._metered is not None:
            self._metered.end(complete=complete)
            self._metered = None

    def _framed(self, data: bytes) -> bytes:
        return chunk(data) if self._chunked and data else data


def _uncompressed(headers: Headers) -> Headers:
    """Asks for an answer that can be read as it passes."""
    kept = tuple((name, value) for name, value in headers if name.lower() != "accept-encoding")
    return (*kept, ("Accept-Encoding", "identity"))
