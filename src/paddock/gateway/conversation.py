"""What one client says to one server, request by request: bytes in, bytes out, no sockets.

Theory. Both sides are parsed and all that goes on is written anew, so each side gets only what was understood. One
request is under way at a time: what the client sends ahead waits, unparsed and bounded, until the answer has ended.
There is one server connection for a client's, made when the first request may go out, and it ends when either ends.
So a client meets what it would have met without us: a server that closes an idle connection closes the client's too.

Whoever owns the sockets feeds what came, empties `to_client` and `to_server`, and obeys `wants_server`, `done` (say
what is left and close) and `broken` (end both at once: an answer was cut off, and must look cut off).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock.gateway.headwriting import write_response
from paddock.gateway.http1 import (
    BadRequest,
    BadResponse,
    Body,
    End,
    Head,
    RequestParser,
    ResponseHead,
    ResponseParser,
    chunk,
    last_chunk,
)
from paddock.gateway.refusal import Refusal, http_response
from paddock.limits import INSPECTED_UNREAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.gateway.desk import Desk
    from paddock.gateway.exchange import Exchange
    from paddock.gateway.http1 import Event
    from paddock.policy import Host

_PIECE_BYTES: Final = 1024  # a parsed head is some twenty times as large as a small one
_CUT: Final = "the client ended it"


class Conversation:
    """`clock` is the loop's; the desk judges and records."""

    def __init__(self, desk: Desk, host: Host, port: int, clock: Callable[[], float]) -> None:
        self._desk, self._host, self._port, self._clock = desk, host, port, clock
        self._requests = RequestParser()
        self._answers = ResponseParser()
        self._events: deque[Event] = deque()
        self._unread = b""
        self._exchange: Exchange | None = None
        self._answer: ResponseHead | None = None  # its final head has gone to the client
        self._asked = False  # the request is all there
        self._answered = False  # and so is its answer
        self._count = 0  # requests that were sent on
        self._connected = False
        self.to_client: list[bytes] = []
        self.to_server: list[bytes] = []
        self.wants_server = False
        self.tunnel = False  # it has left HTTP
        self.done = False
        self.broken = False

    def __repr__(self) -> str:
        state = "done" if self.done else "tunnel" if self.tunnel else repr(self._exchange)
        return f"<Conversation with {self._host.with_port(self._port)}, {state}>"

    @property
    def hungry(self) -> bool:
        """Whether the client is to be read from."""
        return not self.done and len(self._unread) < INSPECTED_UNREAD_BYTES

    @property
    def idle(self) -> bool:
        return self._exchange is None

    # -- the client ----------------------------------------------------------------------------------------------------

    def feed_client(self, data: bytes) -> None:
        if self.done:
            return
        if self.tunnel:
            self._through(data)
        elif self._unread or self._events or self._requests.due < len(data):
            self._unread += data
            self._advance()
        else:
            self._parse(data)
            self._advance()

    def client_ended(self) -> None:
        """It sends no more. Who waits for an answer and hangs up does not want it, and the server need not make it."""
        if self.tunnel or self._exchange is None:
            self.close("")
        else:
            self.broken = True
            self.close(_CUT)

    def _advance(self) -> None:
        while not self.done and not self.wants_server and not self.tunnel:
            if self._events:
                if self._asked:
                    return  # the next request waits for this one's answer
                self._take(self._events.popleft())
            elif self._asked:
                return
            elif self._requests.error is not None:
                self._malformed(self._requests.error)
            elif not self._unread:
                return
            else:
                size = max(_PIECE_BYTES, self._requests.due)
                piece, self._unread = self._unread[:size], self._unread[size:]
                self._parse(piece)

    def _parse(self, piece: bytes) -> None:
        try:
            self._events += self._requests.feed(piece)
        except BadRequest:
            pass  # it is the parser's error now

    def _resume(self) -> None:
        """What was asked for as a websocket stays HTTP."""
        try:
            self._events += self._requests.resume()
        except BadRequest:
            pass

    def _take(self, event: Event) -> None:
        match event:
            case Head():
                self._begin(event)
            case Body():
                assert self._exchange is not None
                self.to_server.append(self._exchange.outward(event.data))
            case End():
                assert self._exchange is not None
                self.to_server.append(self._exchange.asked())
                self._asked = True
                self._complete()
            case _:
                raise AssertionError(type(event))

    def _begin(self, head: Head) -> None:
        found = self._desk.begin(head, self._host, self._port, self._clock())
        if isinstance(found, Refusal):
            self._refuse(found, head)
            return
        self._exchange = found
        if self._connected:
            self._send_head()
        else:
            self.wants_server = True

    def _send_head(self) -> None:
        assert self._exchange is not None
        self._count += 1
        self._answers.expect(self._exchange.head)
        self.to_server.append(self._exchange.opening())

    def _malformed(self, error: BadRequest | BadResponse) -> None:
        reason = f"the request was refused: {error.reason}"
        if self._answer is not None:
            self.broken = True
            self.close(reason)
        else:
            self._refuse(Refusal(status=error.status, reason=reason, text=f"paddock: {reason}\n"), None)

    def _refuse(self, refusal: Refusal, head: Head | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(complete=False)
            head = exchange.head
        self._desk.refuse(refusal, head, self._host, self._port)
        self._say(refusal, head)
        self.close("")

    def _say(self, refusal: Refusal, head: Head | None) -> None:
        head_only = head is not None and head.method == "HEAD"
        self.to_client.append(http_response(refusal.text, status=refusal.status, head_only=head_only))

    # -- the server ----------------------------------------------------------------------------------------------------

    def connected(self) -> None:
        """There is a server: what waits for it goes on."""
        self._connected = True
        self.wants_server = False
        if not self.done:
            self._send_head()
            self._advance()

    def failed(self, refusal: Refusal, *, denied: bool = False) -> None:
        """There is none. `denied`: by policy, and not by the world."""
        self.wants_server = False
        if denied and not self.done:
            self._refuse(refusal, None)
        elif not self.done:
            self._say(refusal, self._exchange.head if self._exchange else None)
            self.close(refusal.reason)

    def feed_server(self, data: bytes) -> None:
        if self.done:
            return
        if self.tunnel:
            self._returned(data)
            return
        try:
            self._hear(self._answers.feed(data))
        except BadResponse as error:
            self._bad_answer(error.reason)
        else:
            self._heard()

    def _heard(self) -> None:
        if self._answers.error is None:
            self._advance()
        elif not self.done and not self.tunnel:
            self._bad_answer(self._answers.error.reason)

    def server_ended(self) -> None:
        """It sends no more."""
        if self.done:
            return
        if self.tunnel or self._exchange is None:
            self.close("")
            return
        try:
            self._hear(self._answers.feed_end())
        except BadResponse as error:
            if self._answer is None and self._count > 1:
                self.close("the server closed the connection")  # as it does to a client that was a little late
            else:
                self._bad_answer(error.reason)
        else:
            self.close("the server closed the connection")

    def _hear(self, events: list[Event]) -> None:
        body: list[bytes] = []
        for event in events:
            match event:
                case ResponseHead() if event.interim:
                    self._interim(event)
                case ResponseHead():
                    self._answer_begins(event)
                case Body():
                    body.append(event.data)
                case End():
                    self._pass_body(body, last=True)
                    body = []
                    self._answer_ends(event)
                case _:
                    raise AssertionError(type(event))
        self._pass_body(body)

    def _interim(self, head: ResponseHead) -> None:
        assert self._exchange is not None
        if self._exchange.head.version == "HTTP/1.1":  # others know of none
            self.to_client.append(write_response(self._desk.answer(head)))

    def _answer_begins(self, head: ResponseHead) -> None:
        assert self._exchange is not None
        if not self._asked and self._exchange.head.expects_continue:
            head = replace(head, keep_alive=False)  # whether the body still comes is the client's choice, and unknown
        self._answer = head
        self._exchange.answered(head)
        self.to_client.append(write_response(self._desk.answer(head)))

    def _pass_body(self, parts: list[bytes], *, last: bool = False) -> None:
        exchange = self._exchange
        if exchange is None or self._answer is None:
            return
        data = exchange.inward(parts[0] if len(parts) == 1 else b"".join(parts)) if parts else b""
        if last:
            data += exchange.answer_ended()
        if data:
            self.to_client.append(chunk(data) if self._answer.chunked else data)

    def _answer_ends(self, end: End) -> None:
        assert self._answer is not None
        if self._answer.status == 101:
            self._leave_http()
            return
        if self._answer.chunked:
            self.to_client.append(last_chunk(self._desk.answer_end(end)))
        self._answered = True
        self._complete()

    def _leave_http(self) -> None:
        self.tunnel = True
        ahead = self._requests.take_rest() + self._unread
        self._unread = b""
        self._through(ahead)
        self._returned(self._answers.take_rest())

    def _bad_answer(self, reason: str) -> None:
        what = f"the answer of {self._host.text} cannot be passed on: {reason}"
        if self._answer is not None:
            self.broken = True
        elif self._exchange is not None:  # or the client would take it for the answer to its next request
            self._say(Refusal(status=502, reason=what, text=f"paddock: {what}\n"), self._exchange.head)
        self.close(what)

    # -- both ----------------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """No more is parsed; why, if a request is under way and does not end as it should."""
        self.done = True
        exchange, self._exchange = self._exchange, None
        self._unread = b""
        self._events.clear()
        if exchange is not None:
            cut = "" if self.tunnel else reason
            self._desk.ended(exchange, self._host, self._port, self._clock(), reason=cut)

    def _complete(self) -> None:
        """When request and answer are both all there, the next may follow; a server that is done with the connection
        need not hear the rest of a request that it has answered."""
        exchange, answer = self._exchange, self._answer
        if not self._answered or exchange is None or answer is None:
            return
        last = not (answer.keep_alive and exchange.head.keep_alive)
        if not self._asked and not last:
            return
        self._exchange = self._answer = None
        self._asked = self._answered = False
        self._desk.ended(exchange, self._host, self._port, self._clock())
        if last:
            self.close("")
        elif self._requests.paused:
            self._resume()

    def _through(self, data: bytes) -> None:
        if data and self._exchange is not None:
            self._exchange.through(data)
            self.to_server.append(data)

    def _returned(self, data: bytes) -> None:
        if data and self._exchange is not None:
            self.to_client.append(self._exchange.inward(data))
