"""The box's end of a connection, and how it is told yes or no in its own protocol.

Whoever connects directly has been connected already: it is told no by what its first bytes are, a 403 over HTTP, the
same inside TLS, a reset otherwise. Whoever came by the explicit proxy waits for an answer of the proxy's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable, UserError
from paddock.gateway import socks
from paddock.gateway.flow import reset
from paddock.gateway.hello import Hello
from paddock.gateway.opening import Kind, Opening
from paddock.gateway.refusal import ACCESS_DENIED_ALERT, TlsRefusal, http_response
from paddock.limits import INTAKE_FIRST_S, INTAKE_LINGER_S, INTAKE_SNIFF_S, INTAKE_STALL_S
from paddock.policy import Host

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable
    from ipaddress import IPv4Address

    from paddock.gateway.poller import Poller

    Contexts = Callable[[Host], ssl.SSLContext]

TLS_PORT: Final = 443
HTTP_PORT: Final = 80
FORBIDDEN: Final = 403
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_GATEWAY_STATUS: Final = {"timeout": 504}
_SOCKS_CODES: Final = {
    "refused": socks.Code.REFUSED,
    "unreachable": socks.Code.NETWORK_UNREACHABLE,
    "resolve": socks.Code.HOST_UNREACHABLE,
    "timeout": socks.Code.HOST_UNREACHABLE,
}


class Caller(Opening):
    """Someone who connected directly. `contexts` makes a TLS server of a name, to refuse in."""

    __slots__ = ("address", "contexts")

    waits = False  # does not speak before it was told yes

    def __init__(self, poller: Poller, sock: socket.socket, contexts: Contexts, first: bytes = b"") -> None:
        super().__init__(poller, sock, first)
        self.contexts = contexts
        self.address: IPv4Address | None = None  # the box's own name for the host, if it came by one

    def reset(self) -> None:
        reset(self.sock)

    async def admit(self) -> None:
        """Connected: whoever waits for that is told."""

    def admitted(self) -> Caller:
        """The same end of the same connection, from now on like any other."""
        caller = Caller(self.poller, self.sock, self.contexts, self.first)
        caller.address = self.address
        return caller

    async def refuse(self, port: int, text: str, status: int = FORBIDDEN) -> None:
        """Deliver the text if there is a way, and close."""
        patience = INTAKE_FIRST_S if port in {HTTP_PORT, TLS_PORT} else INTAKE_SNIFF_S
        match await self.kind(patience):
            case Kind.HTTP:
                head_only = self.first.startswith(b"HEAD ")
                await self.finish(http_response(text, status=status, head_only=head_only), INTAKE_LINGER_S)
            case Kind.TLS:
                await self._refuse_tls(text, status)
            case Kind.OTHER:
                self.reset()

    async def fail(self, port: int, error: Unavailable) -> None:
        """Allowed, and yet it could not be reached."""
        text = f"paddock: {error.message}\n"
        await self.refuse(port, text, status=_GATEWAY_STATUS.get(error.code, 502))

    async def _refuse_tls(self, text: str, status: int) -> None:
        context = await self._context()
        if context is None:
            await self.finish(ACCESS_DENIED_ALERT, INTAKE_LINGER_S)
            return
        refusal = TlsRefusal(context, text, status=status)
        async with asyncio.timeout(INTAKE_STALL_S):
            out = refusal.feed(self.first)
            while not refusal.done:
                if out:
                    await self.send(out)
                self.first = b""
                out = refusal.feed(await self.read(INTAKE_STALL_S))
        await self.finish(out, INTAKE_LINGER_S)

    async def _context(self) -> ssl.SSLContext | None:
        """A server of the name the client asks for, if it can be had."""
        hello = await self.hello(INTAKE_STALL_S)
        if not isinstance(hello, Hello) or hello.sni is None:
            return None
        try:
            return self.contexts(Host.parse(hello.sni))
        except (UserError, Unavailable):
            return None


class ConnectCaller(Caller):
    """Someone who said CONNECT to the explicit proxy."""

    __slots__ = ()
    waits = True

    async def admit(self) -> None:
        await self.send(_ESTABLISHED)

    async def refuse(self, port: int, text: str, status: int = FORBIDDEN) -> None:
        del port
        await self.finish(http_response(text, status=status), INTAKE_LINGER_S)


class SocksCaller(Caller):
    """Someone who came by SOCKS5."""

    __slots__ = ()
    waits = True

    async def admit(self) -> None:
        await self.send(socks.reply(socks.Code.SUCCEEDED))

    async def refuse(self, port: int, text: str, status: int = FORBIDDEN) -> None:
        del port, text, status
        await self.finish(socks.reply(socks.Code.NOT_ALLOWED), INTAKE_LINGER_S)

    async def fail(self, port: int, error: Unavailable) -> None:
        del port
        code = _SOCKS_CODES.get(error.code, socks.Code.FAILURE)
        await self.finish(socks.reply(code), INTAKE_LINGER_S)
