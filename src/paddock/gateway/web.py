"""Plain HTTP, where every request on a connection is for the host that connection may reach.

Theory. The parser turns what the client sends into heads, bodies and ends, and all that goes on to the server is
written anew from those: it never sees a byte that was not understood. Answers are not looked at, with one exception. So
a request that must not go to the present server (it is for another host, or it is malformed, or it asks for a websocket
on a connection that had other requests) waits until that server has said its last word: we send it nothing more, it
closes when it has answered, and what follows is never mixed into an answer that is still on its way.

The exception is a websocket: whether the connection leaves HTTP depends on the answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from paddock.gateway import http1
from paddock.gateway.caller import HTTP_PORT, Caller, ConnectCaller
from paddock.gateway.headwriting import write_request
from paddock.gateway.http1 import BadRequest, BadResponse, Body, End, Head, RequestParser, ResponseHead, ResponseParser
from paddock.gateway.refusal import http_response
from paddock.limits import INTAKE_FIRST_S, INTAKE_LINGER_S, INTAKE_STALL_S
from paddock.policy import Host, Verdict
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.gateway.box import Box
    from paddock.gateway.flow import Flow
    from paddock.gateway.judging import Grant
    from paddock.gateway.passage import Passage
    from paddock.gateway.records import Decided
    from paddock.gateway.world import Reached

    Connect = Callable[[Box, ConnectCaller, Host, int], Awaitable[None]]

PROTOCOL: Final = "http"
_FORBIDDEN: Final = 403
_PIECE_BYTES: Final = 1024
_LOCALHOST_TOO: Final = frozenset({HOST_ALIAS, "127.0.0.1", "::1"})


class WebCaller(Caller):
    """Someone who speaks HTTP: every answer is one of HTTP."""

    __slots__ = ("head_only",)

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.poller, caller.sock, caller.contexts, caller.first)
        self.address = caller.address
        self.head_only = False

    async def refuse(self, port: int, text: str, status: int = _FORBIDDEN) -> None:
        del port
        await self.finish(http_response(text, status=status, head_only=self.head_only), INTAKE_LINGER_S)


class Session:
    """A client's requests. To `grant`'s host alone; without one, to whatever host each request names (a proxy's way).

    `connect` serves a CONNECT, which only a proxy does.
    """

    def __init__(self, box: Box, caller: Caller, grant: Grant | None, connect: Connect | None = None) -> None:
        self._box = box
        self._caller = WebCaller(caller)
        self._only = grant
        self._connect = connect
        self._parser = RequestParser()
        self._unread = b""  # came, and is parsed when what waits has gone
        self._waiting: deque[http1.Event | BadRequest] = deque()
        self._passage: Passage[Flow] | None = None
        self._current: Head | None = None  # whose body is on its way
        self._sent = 0  # requests to the present server
        self._answers: ResponseParser | None = None

    def __repr__(self) -> str:
        return f"<Session {self._caller!r} {self._passage!r} {len(self._waiting)} waiting>"

    async def run(self, server: tuple[Reached, Decided] | None = None) -> None:
        """Read the first request and take it where it goes: to `server`, when one was reached already."""
        data, self._caller.first = self._caller.first, b""
        patience = INTAKE_FIRST_S
        while True:
            self._feed(data)
            if self._waiting:
                break
            data = await self._caller.read(patience)
            self._caller.first = b""
            if not data:
                self._caller.sock.close()
                if server is not None:
                    server[0].sock.close()
                return
            patience = INTAKE_STALL_S
        await self._advance(server)

    def adopt(self, passage: Passage[Flow]) -> None:
        """Go on with a passage that has begun, as its gate."""
        self._passage = passage
        self._sent = 1 if passage.flow.inward.count else 0
        passage.flow.outward.gate = self.gate

    def gate(self, data: bytes) -> bytes:
        """What of the client's bytes may go to the present server."""
        self._feed(data)
        return self._drain()

    # -- what is sent on -----------------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        self._unread += data
        self._parse()

    def _parse(self) -> None:
        """Not more than is needed for the next event: a parsed request is some twenty times as large as a small one."""
        while self._unread and not self._waiting:
            piece, self._unread = self._unread[:_PIECE_BYTES], self._unread[_PIECE_BYTES:]
            self._take(self._parser.feed, piece)

    def _rest(self) -> bytes:
        """What followed when the connection left HTTP."""
        rest, self._unread = self._parser.take_rest() + self._unread, b""
        return rest

    def _take(self, events: Callable[..., list[http1.Event]], *args: bytes) -> None:
        try:
            self._waiting.extend(events(*args))
        except BadRequest:
            pass  # it is the parser's error now
        if self._parser.error is not None and not any(isinstance(event, BadRequest) for event in self._waiting):
            self._waiting.append(BadRequest(self._parser.error.status, self._parser.error.reason))

    def _drain(self) -> bytes:
        out: list[bytes] = []
        while self._waiting:
            event = self._waiting[0]
            if isinstance(event, BadRequest) or (isinstance(event, Head) and not self._is_for_present(event)):
                assert self._passage is not None
                self._passage.flow.hand_back(self._handed_back)
                break
            self._waiting.popleft()
            out.append(self._written(event))
            self._parse()
        return b"".join(out)

    def _written(self, event: object) -> bytes:
        match event:
            case Head():
                self._current = event
                self._sent += 1
                if event.websocket:
                    self._await_answer(event)
                host, port = self._target(event)
                self._box.desk.plain_sent(event, host, port)
                swapped = self._box.desk.plain(event, host, port)
                return write_request(event, path=swapped.path, headers=swapped.headers)
            case Body():
                assert self._current is not None
                return http1.chunk(event.data) if self._current.length is None else event.data
            case End():
                assert self._current is not None
                return http1.last_chunk(event) if self._current.length is None else b""
            case _:
                raise AssertionError(event)

    def _is_for_present(self, head: Head) -> bool:
        if self._passage is None or head.form == "authority" or (head.websocket and self._sent):
            return False
        grant = self._passage.grant
        if self._problem(head) is not None or self._target(head) != (grant.host, grant.port):
            return False
        return self._box.desk.plain_refusal(head, *self._target(head)) is None

    def _target(self, head: Head) -> tuple[Host, int]:
        only = self._only
        if only is not None:
            own = only.host.text == LOCALHOST and head.host.text in _LOCALHOST_TOO
            return only.host if own else head.host, only.port if head.port is None else head.port
        return head.host, HTTP_PORT if head.port is None else head.port

    def _problem(self, head: Head) -> Verdict | None:
        """Why a request of this connection must not be, whatever policy says of its host."""
        only = self._only
        if only is not None and head.form == "authority":
            return _no("CONNECT is for the proxy at gateway.paddock:3128")
        if only is not None and self._target(head) != (only.host, only.port):
            connected = only.host.with_port(only.port)
            return _no(f"the request is for {head.host.text} and came on a connection to {connected}")
        return self._box.desk.plain_problem(head, *self._target(head))

    # -- websockets ----------------------------------------------------------------------------------------------------

    def _await_answer(self, head: Head) -> None:
        assert self._passage is not None
        self._answers = ResponseParser()
        self._answers.expect(head)
        self._passage.flow.inward.gate = self._answered

    def _answered(self, data: bytes) -> bytes:
        """Looks at what the server sends until it is known whether the connection leaves HTTP."""
        assert self._passage is not None
        assert self._answers is not None
        flow = self._passage.flow
        try:
            events = self._answers.feed(data)
        except BadResponse:
            flow.abort()
            return b""
        for event in events:
            if isinstance(event, ResponseHead) and not event.interim:
                flow.inward.gate = None
                if event.status == 101:
                    flow.outward.gate = None
                    flow.send_on(self._rest())
                else:
                    self._take(self._parser.resume)
                    flow.send_on(self._drain())
                break
        return data

    # -- from server to server -----------------------------------------------------------------------------------------

    def _handed_back(self) -> None:
        self._passage = None
        self._box.spawn(self._advance(None), self._caller.sock)

    async def _advance(self, server: tuple[Reached, Decided] | None) -> None:
        """Take what waits first to where it belongs."""
        event = self._waiting[0]
        if isinstance(event, BadRequest):
            _drop(server)
            await self._caller.refuse(0, f"paddock: the request was refused: {event.reason}\n", status=event.status)
            return
        assert isinstance(event, Head)
        self._caller.head_only = event.method == "HEAD"
        problem = self._problem(event) or (_no(_NOT_A_PROXY_REQUEST) if self._is_misplaced(event) else None)
        if problem is not None:
            _drop(server)
            await self._box.refuse(self._caller, (event.host.text, self._target(event)[1]), PROTOCOL, problem)
            return
        refusal = self._box.desk.plain_refusal(event, *self._target(event))
        if refusal is not None:
            _drop(server)
            self._box.desk.refuse(refusal, event, *self._target(event), PROTOCOL)
            await self._caller.refuse(0, refusal.text, status=refusal.status)
            return
        if event.form == "authority":
            await self._tunnel(event)
            return
        grant = await self._leave(event)
        if grant is None:
            _drop(server)
            return
        server = server or await self._box.reach(self._caller, grant, PROTOCOL)
        if server is not None:
            self._begin(grant, *server)

    def _begin(self, grant: Grant, reached: Reached, decided: Decided) -> None:
        self._passage = self._box.relay(self._caller, grant, reached, decided, seen=True)
        self._sent = 0
        flow = self._passage.flow
        first = self._drain()
        flow.start(first, self.gate, passed=True)

    def _is_misplaced(self, head: Head) -> bool:
        return self._only is None and head.form in {"origin", "asterisk"}

    async def _leave(self, head: Head) -> Grant | None:
        if self._only is not None:
            return self._only
        host, port = self._target(head)
        leave = await self._box.judge.judge(host, port, PROTOCOL)
        if isinstance(leave, Verdict):
            await self._box.refuse(self._caller, (host.text, port), PROTOCOL, leave)
            return None
        return leave

    async def _tunnel(self, head: Head) -> None:
        assert self._connect is not None
        caller = ConnectCaller(self._caller.poller, self._caller.sock, self._caller.contexts, self._rest())
        await self._connect(self._box, caller, head.host, self._target(head)[1])


_NOT_A_PROXY_REQUEST: Final = "this is a proxy: it wants CONNECT or a whole URL"


def _no(reason: str) -> Verdict:
    return Verdict(False, None, reason, final=True)


def _drop(server: tuple[Reached, Decided] | None) -> None:
    if server is not None:
        server[0].sock.close()
