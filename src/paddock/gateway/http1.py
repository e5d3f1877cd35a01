"""HTTP/1.1 as a stream: bytes in, heads, pieces of bodies and ends out, in any chunking the same (RFC 9112).

Both sides hold no more than one head and what they were last fed: bodies of any size pass through in constant memory.
After the first malformed byte a parser stays failed, for where the next message begins is then a guess.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.gateway.heads import (
    BadRequest,
    BadResponse,
    Head,
    Headers,
    ResponseHead,
    look_at_request,
    look_at_response,
    parse_request,
    parse_response,
    parse_trailers,
)
from paddock.gateway.headwriting import serialise
from paddock.limits import HTTP_HEAD_BYTES, HTTP_INTERIM_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "END",
    "BadRequest",
    "BadResponse",
    "Body",
    "End",
    "Head",
    "Headers",
    "RequestParser",
    "ResponseHead",
    "ResponseParser",
    "chunk",
    "last_chunk",
    "serialise",
]

_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,16}")
_CHUNK_LINE_BYTES: Final = 18
_CHUNK_BYTES_MAX: Final = 1 << 60
_CHUNK_BEGUN: Final = re.compile(rb"[0-9A-Fa-f]{0,16}\r?")


@dataclass(frozen=True, slots=True)
class Body:
    """Some bytes of a body, with its chunking taken off."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The message is complete."""

    trailers: Headers = ()


END: Final = End()
Event = Head | ResponseHead | Body | End


def chunk(data: bytes) -> bytes:
    """`data`, which must not be empty, as one chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(end: End = END) -> bytes:
    """What ends a body of chunks."""
    return b"".join([b"0\r\n", *(f"{name}: {value}\r\n".encode("latin-1") for name, value in end.trailers), b"\r\n"])


class _Parser:
    """What both sides share. A step takes what it can of the buffer and says whether another may follow."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # how much of the buffer was looked at for the end of a head
        self._looked = False  # whether the start line of an unfinished head was checked
        self._left = 0  # bytes of the body or chunk that are still to come
        self._step: Callable[[], bool] = self._head
        self._events: list[Event] = []  # of the feed that is under way
        self.error: BadRequest | BadResponse | None = None

    def __repr__(self) -> str:
        state = f"failed: {self.error.reason}" if self.error else self._step.__name__.strip("_")
        return f"<{type(self).__name__} {state}, {len(self._buffer)} bytes pending>"

    def feed(self, data: bytes) -> list[Event]:
        """The events completed by `data`. Raises BadRequest, or BadResponse in a ResponseParser.

        Events before a malformed byte are still delivered: `error` is set then, and the next feed raises it.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        if len(data) < self._left and data and not self._buffer and self._step == self._body:
            self._left -= len(data)
            return [Body(data)]
        self._buffer += data
        return self._run()

    def _run(self) -> list[Event]:
        events = self._events = []
        try:
            while self._step():
                pass
        except BadRequest as error:
            self._fail(error)
        self._events = []
        if self.error is not None and not events:
            raise self.error
        return events

    def feed_end(self) -> list[Event]:
        """The peer sends no more; raises when that cuts a message short."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        if not self._may_end():
            self._fail(BadRequest(400, "the connection ended inside a message"))
            return self.feed(b"")
        return []

    @property
    def idle(self) -> bool:
        """Between two messages, with nothing of the next one here."""
        return self._step == self._head and not self._buffer

    @property
    def paused(self) -> bool:
        """Behind what may be the end of HTTP on this connection: nothing is parsed until that is decided."""
        return self._step == self._pause

    @property
    def due(self) -> int:
        """Bytes that are certainly of the present body, or of its present chunk."""
        return self._left if self._step in {self._body, self._chunk_data} else 0

    def take_rest(self) -> bytes:
        """The connection left HTTP: what came since, of which nothing was parsed."""
        assert self.paused
        rest = self._take(len(self._buffer))
        self._fail(BadRequest(400, "the connection has left HTTP"))
        return rest

    def _fail(self, error: BadRequest) -> None:
        self.error = error
        self._buffer.clear()

    def _may_end(self) -> bool:
        return not self._buffer and self._step in {self._head, self._pause, self._closed}

    def _look(self, begun: bytes) -> bool:
        """Refuses what cannot become a head; says whether its first line was all there."""
        raise NotImplementedError

    def _begin(self, raw: bytes) -> None:
        """A whole head is here."""
        raise NotImplementedError

    def _ended(self, end: End = END) -> bool:
        """The message is complete; says where the next bytes belong."""
        raise NotImplementedError

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer) if count == len(self._buffer) else bytes(self._buffer[:count])
        del self._buffer[:count]
        self._searched = 0
        return data

    def _head(self) -> bool:
        buffer = self._buffer
        if not buffer:
            return False
        end = self._find_end()
        if not 0 < end <= HTTP_HEAD_BYTES:
            self._looked = self._looked or self._look(bytes(buffer[:HTTP_HEAD_BYTES]))
            return self._too_long(end)
        self._looked = False
        self._begin(self._take(end))
        return True

    def _find_end(self) -> int:
        """Where the empty line ends, or 0."""
        end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3)) + 4
        self._searched = len(self._buffer)
        return end if end >= 4 else 0

    def _too_long(self, end: int) -> bool:
        if end or len(self._buffer) >= HTTP_HEAD_BYTES:
            raise BadRequest(431, f"more than {HTTP_HEAD_BYTES} bytes of headers")
        return False

    def _pause(self) -> bool:
        if len(self._buffer) > HTTP_HEAD_BYTES:
            raise BadRequest(400, "too much was sent ahead of an answer")
        return False

    def _closed(self) -> bool:
        if self._buffer:
            raise BadRequest(400, "more after what was said to be the last")
        return False

    # -- bodies --------------------------------------------------------------------------------------------------------
    def _body(self) -> bool:
        return self._take_body() and self._ended()

    def _take_body(self) -> bool:
        """Whether all of the body or chunk was taken."""
        if self._buffer:
            data = self._take(min(self._left, len(self._buffer)))
            self._left -= len(data)
            self._events.append(Body(data))
        return self._left == 0

    def _chunk_size(self) -> bool:
        end = self._buffer.find(b"\r\n", 0, _CHUNK_LINE_BYTES)
        if end < 0:
            if not _CHUNK_BEGUN.fullmatch(self._buffer):
                raise BadRequest(400, "a malformed chunk")
            return False
        line = self._take(end + 2)[:-2]
        if not _CHUNK_SIZE.fullmatch(line) or int(line, 16) > _CHUNK_BYTES_MAX:
            raise BadRequest(400, "a malformed chunk")
        self._left = int(line, 16)
        self._step = self._chunk_data if self._left else self._trailers
        return True

    def _chunk_data(self) -> bool:
        if not self._take_body():
            return False
        self._step = self._chunk_end
        return True

    def _chunk_end(self) -> bool:
        if not b"\r\n".startswith(self._buffer[:2]):
            raise BadRequest(400, "a chunk that does not end where it should")
        if len(self._buffer) < 2:
            return False
        self._take(2)
        self._step = self._chunk_size
        return True

    def _trailers(self) -> bool:
        if self._buffer[:2] == b"\r\n":
            self._take(2)
            return self._ended()
        end = self._find_end()
        if not 0 < end <= HTTP_HEAD_BYTES:
            return self._too_long(end)
        return self._ended(End(parse_trailers(self._take(end))))


class RequestParser(_Parser):
    """What a client sends. It pauses behind CONNECT and a request for a websocket: call `take_rest` or `resume`."""

    def __init__(self) -> None:
        super().__init__()
        self._after: Callable[[], bool] = self._head  # the step behind the request that is under way

    def resume(self) -> list[Event]:
        """It stayed HTTP: the events of what came since."""
        assert self.paused
        self._step = self._head
        return self.feed(b"")

    def _look(self, begun: bytes) -> bool:
        return look_at_request(begun)

    def _begin(self, raw: bytes) -> None:
        head = parse_request(raw)
        self._after = self._pause if head.leaves_http else self._head if head.keep_alive else self._closed
        self._events.append(head)
        if head.length == 0:
            self._ended()
        elif head.length is None:
            self._step = self._chunk_size
        else:
            self._left = head.length
            self._step = self._body

    def _ended(self, end: End = END) -> bool:
        self._events.append(end)
        self._step = self._after
        return True


class ResponseParser(_Parser):
    """What a server sends, to requests that were announced by `expect`. It pauses behind 101 and a CONNECT's 200."""

    def __init__(self) -> None:
        super().__init__()
        self._expected: deque[Head] = deque()
        self._keep_alive = True
        self._interim = 0

    def expect(self, request: Head) -> None:
        """A request was sent on: its answer comes after those that are still to come."""
        self._expected.append(request)

    @property
    def outstanding(self) -> int:
        """Requests whose answers have not ended."""
        return len(self._expected)

    def feed_end(self) -> list[Event]:
        if self.error is None and self._step == self._until_close:
            self._step = self._ended
            return self._run()
        return super().feed_end()

    def _may_end(self) -> bool:
        return super()._may_end() and not self._expected

    def _fail(self, error: BadRequest) -> None:
        super()._fail(error)
        self.error = BadResponse(error.reason)

    def _look(self, begun: bytes) -> bool:
        if not self._expected:
            raise BadRequest(502, "an answer nobody asked for")
        return look_at_response(begun)

    def _begin(self, raw: bytes) -> None:
        if not self._expected:
            raise BadRequest(502, "an answer nobody asked for")
        request = self._expected[0]
        head = parse_response(raw, bodiless=request.method == "HEAD")
        self._keep_alive = head.keep_alive
        if head.interim:
            self._interim += 1
            if self._interim > HTTP_INTERIM_MAX:
                raise BadRequest(502, "too many interim answers")
            self._events.append(head)
        elif head.status == 101 or (request.method == "CONNECT" and head.status < 300):
            if not request.leaves_http or (head.status == 101) != request.websocket:
                raise BadRequest(502, "a change of protocol nobody asked for")
            if head.status == 101 and head.fields.get("upgrade", "").lower() != "websocket":
                raise BadRequest(502, "a change to another protocol than was asked for")
            self._events.append(head)
            self._answered()
            self._step = self._pause
        else:
            self._events.append(head)
            self._begin_body(head)

    def _begin_body(self, head: ResponseHead) -> None:
        if head.length == 0:
            self._ended()
        elif head.length is not None:
            self._left = head.length
            self._step = self._body
        else:
            self._step = self._chunk_size if head.chunked else self._until_close

    def _until_close(self) -> bool:
        if self._buffer:
            self._events.append(Body(self._take(len(self._buffer))))
        return False

    def _ended(self, end: End = END) -> bool:
        self._answered(end)
        self._step = self._head if self._keep_alive else self._closed
        return True

    def _answered(self, end: End = END) -> None:
        self._events.append(end)
        self._expected.popleft()
        self._interim = 0
