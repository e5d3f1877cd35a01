"""An inspected connection: TLS ends here on both sides, and a conversation passes between them.

The client gets a leaf of the box's own authority, the server is verified always: by the host's roots, by its name, by
OpenSSL's own idea of what is too weak. There is no way to turn that off, and a box learns which check failed. All of it
runs in callbacks of the poller but for the one task that connects.
"""

from __future__ import annotations

import logging
import ssl
import time
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable
from paddock.gateway.conversation import Conversation
from paddock.gateway.leg import Leg
from paddock.gateway.poller import WRITE
from paddock.gateway.refusal import Refusal
from paddock.gateway.tls import Tls
from paddock.gateway.world import Reached
from paddock.limits import INTAKE_LINGER_S, INTAKE_STALL_S
from paddock.policy import explain

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from paddock.gateway.box import Box
    from paddock.gateway.caller import Caller
    from paddock.gateway.judging import Grant

log = logging.getLogger(__name__)
_GATEWAY_STATUS: Final = {"timeout": 504}


class Inspected:
    """The client's socket belongs to it from now on. `on_end` is called once, when all is closed."""

    __slots__ = (
        "_box",
        "_client",
        "_connecting",
        "_direct",
        "_first",
        "_grant",
        "_greeted",
        "_lingering",
        "_on_end",
        "_poller",
        "_server",
        "_talk",
        "_timer",
        "active",
        "client",
        "closed",
        "reason",
    )  # fmt: skip

    def __init__(
        self, box: Box, caller: Caller, grant: Grant, context: ssl.SSLContext, on_end: Callable[[], None]
    ) -> None:
        self._box = box
        self._poller = box.poller
        self._grant = grant
        self._on_end = on_end
        self.client = caller.sock
        self._client = Leg(box.poller, caller.sock, Tls(context), self._client_ready)
        self._server: Leg | None = None
        self._talk = Conversation(box.desk, grant.host, grant.port, box.poller.loop.time)
        self._first = b""
        self._greeted = False  # the client's handshake is over
        self._connecting = False
        self._lingering = False
        self._timer: asyncio.TimerHandle | None = box.poller.loop.call_later(INTAKE_STALL_S, self._too_slow)
        self.active = box.poller.now
        self.closed = False
        self._direct = False  # the server's socket leads there and not to the user's proxy
        self.reason = ""

    def __repr__(self) -> str:
        return f"<Inspected {'closed' if self.closed else 'open'} {self._talk!r}>"

    @property
    def server(self) -> socket.socket | None:
        return self._server.sock if self._server is not None and self._direct else None

    @property
    def sent(self) -> int:
        return self._server.sent if self._server is not None else 0

    @property
    def received(self) -> int:
        return self._server.received if self._server is not None else 0

    @property
    def half_closed(self) -> bool:
        return self._talk.done

    def start(self, first: bytes) -> None:
        """`first` was read from the client already. Begun in the box's share of the next turn: it costs a signature."""
        self._first = first
        self._client.want(reading=False, soon=True)

    def abort(self) -> None:
        """End both connections at once."""
        self._end(cleanly=False)

    # -- events --------------------------------------------------------------------------------------------------------

    def _client_ready(self, events: int) -> None:
        self._guarded(self._from_client, events)

    def _server_ready(self, events: int) -> None:
        self._guarded(self._from_server, events)

    def _guarded(self, action: Callable[..., None], *args: object) -> None:
        if self.closed:
            return
        try:
            action(*args)
        except OSError as error:
            self._lost(error)
        except Exception:
            log.exception("an inspected connection failed")
            self.abort()

    def _from_client(self, events: int) -> None:
        leg = self._client
        if self._first:
            first, self._first = self._first, b""
            self._hear_client(leg.feed(first))
            return
        if events & WRITE:
            leg.flush()
        if self._lingering:
            self._drop_rest()
            return
        if events & ~WRITE and self._reads_client():
            began = time.monotonic()
            self._hear_client(leg.read())
            leg.took(began)
        else:
            self._settle()

    def _hear_client(self, data: bytes) -> None:
        self.active = self._poller.now
        if not self._greeted and self._client.tls.shaken:
            self._greeted = True
            self._stop_timer()
            self._client.acknowledge()
        if data:
            self._talk.feed_client(data)
        if self._client.ended and not self._talk.done:
            self._talk.client_ended()
        self._settle()

    def _from_server(self, events: int) -> None:
        leg = self._server
        assert leg is not None
        if events & WRITE:
            self._flush_server(leg)
        try:
            if events & ~WRITE and not leg.tls.shaken:
                self._shake_hands(leg)
            elif events & ~WRITE and not self._client.blocked:
                self._hear_server(leg)
        except OSError:
            leg.ended = True  # what it said before was heard
            self._talk.server_ended()
        self._settle()

    def _hear_server(self, leg: Leg) -> None:
        began = time.monotonic()
        self.active = self._poller.now
        data = leg.read()
        if data:
            self._talk.feed_server(data)
        if leg.ended:
            self._talk.server_ended()
        leg.took(began)

    def _lost(self, error: OSError) -> None:
        """The client's side failed, by TLS or below it."""
        if isinstance(error, ssl.SSLError) and not self._client.tls.shaken:
            self.reason = _why_not(error)
            try:
                self.client.send(self._client.tls.alert())
            except OSError:
                pass
            self._end(cleanly=True)
        else:
            self.abort()

    def _too_slow(self) -> None:
        self._timer = None
        self.reason = self.reason or "the client did not go on"
        self.abort()

    # -- what follows from it ------------------------------------------------------------------------------------------

    def _reads_client(self) -> bool:
        return self._talk.hungry and (self._server is None or not self._server.blocked)

    def _settle(self) -> None:
        """Send what is to be sent, and wait for what is to come."""
        if self.closed or self._lingering:
            return
        talk = self._talk
        if talk.to_server:
            self._send_server(b"".join(talk.to_server))
            talk.to_server.clear()
        if talk.to_client:
            data = b"".join(talk.to_client)
            talk.to_client.clear()
            self._client.send(data)
        if talk.broken:
            self.abort()
            return
        if talk.wants_server and not self._connecting:
            self._connecting = True
            self._box.spawn(self._connect())
        if talk.done and not self._client.blocked and not self._has_last_words():
            self._linger()
            return
        self._client.want(reading=self._reads_client())
        if self._server is not None:
            self._server.want(reading=not self._client.blocked and not talk.done)

    @property
    def tunnel(self) -> bool:
        """Whether it has left HTTP, so that no request is judged any more."""
        return self._talk.tunnel

    def _has_last_words(self) -> bool:
        """Of a websocket's client, that the server has not taken yet."""
        return self._talk.tunnel and self._server is not None and self._server.blocked and not self._server.ended

    def _send_server(self, data: bytes) -> None:
        leg = self._server
        if leg is None or not data:
            return
        try:
            leg.send(data)
        except OSError:
            pass  # it may have answered before it went: reading tells

    def _flush_server(self, leg: Leg) -> None:
        try:
            leg.flush()
        except OSError:
            pass  # as above

    def _linger(self) -> None:
        """All is said. What the client still sends is dropped for a moment, or the end of an answer might be lost."""
        if self._server is not None:
            cut = self._server.ended and self._server.tls.shaken and not self._server.tls.ended
            properly = not cut  # an answer that ended with the connection is as sure for the client as it was for us
            self._server.close()
        else:
            properly = True
        self._lingering = True
        self._stop_timer()
        self._client.say_goodbye(properly=properly)
        if self._client.ended:
            self._end(cleanly=True)
            return
        self._timer = self._poller.loop.call_later(INTAKE_LINGER_S, lambda: self._end(cleanly=True))
        self._client.want(reading=True)

    def _drop_rest(self) -> None:
        try:
            if not self.client.recv(self._client.read_bytes):
                self._end(cleanly=True)
        except BlockingIOError:
            pass
        except OSError:
            self._end(cleanly=True)

    def _end(self, *, cleanly: bool) -> None:
        if self.closed:
            return
        self.closed = True
        self._stop_timer()
        for leg in filter(None, (self._client, self._server)):
            if cleanly:
                leg.close()
            else:
                leg.reset()
        self._talk.close(self.reason or "the connection ended")
        on_end, self._on_end = self._on_end, _nothing  # whoever is called holds us: what TLS keeps would wait for gc
        on_end()

    # -- the server ----------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Connect for the request that waits, or tell it why not."""
        grant = self._grant
        try:
            reached = await self._box.connect(grant)
        except Unavailable as error:
            self._fail(error.message, _GATEWAY_STATUS.get(error.code, 502))
            return
        if not isinstance(reached, Reached):
            text = explain.refusal(reached, grant.host.text, grant.port, self._box.net.name)
            rule = str(reached.rule) if reached.rule else ""
            self._talk.failed(Refusal(status=403, reason=reached.reason, text=text, rule=rule), denied=True)
            self._guarded(self._settle)
        elif self.closed:
            reached.sock.close()
        else:
            self._guarded(self._secure, reached)

    def _secure(self, reached: Reached) -> None:
        roots = self._box.world.roots
        if roots is None:
            reached.sock.close()
            self._fail("the gateway has no root certificates, so no server can be verified")
            return
        leg = Leg(self._poller, reached.sock, Tls(roots, self._grant.host), self._server_ready)
        self._server, self._direct = leg, reached.direct
        self._timer = self._poller.loop.call_later(INTAKE_STALL_S, self._server_too_slow)
        try:
            leg.say_hello()
            leg.want(reading=True)
        except OSError as error:
            self._not_secured(error)

    def _shake_hands(self, leg: Leg) -> None:
        try:
            said = leg.read()
            if leg.ended or said:
                what = "it spoke before it was asked" if said else "it closed the connection"
                raise ConnectionResetError(what)
        except OSError as error:
            self._not_secured(error)
            return
        if leg.tls.shaken:
            self._stop_timer()
            self._talk.connected()

    def _not_secured(self, error: OSError) -> None:
        name = self._grant.host.with_port(self._grant.port)
        if isinstance(error, ssl.SSLCertVerificationError):
            self._fail(f"the certificate of {name} was not accepted: {error.verify_message.rstrip('.')}")
        elif isinstance(error, ssl.SSLError):
            self._fail(f"TLS with {name} failed: {_word(error)}")
        else:
            self._fail(f"{name} ended the TLS handshake: {error.strerror or error}")

    def _server_too_slow(self) -> None:
        self._timer = None
        self._fail(f"{self._grant.host.with_port(self._grant.port)} did not finish its TLS handshake", 504)

    def _fail(self, what: str, status: int = 502) -> None:
        """No server could be had for the request that waits."""
        self._stop_timer()
        self._talk.failed(Refusal(status=status, reason=what, text=f"paddock: {what}\n"))
        self._guarded(self._settle)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    """For who is called no more."""


def _why_not(error: ssl.SSLError) -> str:
    """A client that refuses our certificate says so; whoever reads the records learns what to do."""
    if "ALERT" in (error.reason or ""):
        return f"the client refused the box's certificate ({_word(error)}); it may pin its own: see --bypass-host"
    return f"TLS with the client failed: {_word(error)}"


def _word(error: ssl.SSLError) -> str:
    return (error.reason or "unknown").lower().replace("_", " ")
