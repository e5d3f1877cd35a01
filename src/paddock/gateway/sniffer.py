"""A gate for connections of unknown protocol: TLS and HTTP are held to the name, all else passes as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.gateway import web
from paddock.gateway.hello import Hello, HelloPeek, NeedMore, NotTls
from paddock.gateway.opening import Kind, kind_of
from paddock.policy import Host, Verdict

if TYPE_CHECKING:
    from paddock.gateway.box import Box
    from paddock.gateway.caller import Caller
    from paddock.gateway.flow import Flow
    from paddock.gateway.passage import Passage

_LINE_END: Final = b"\r\n"
_TLS_MAJOR: Final = b"\x03"


def tls_problem(found: Hello | NotTls, host: Host, *, strict: bool) -> Verdict | None:
    """Why this is no TLS connection to `host`. Where TLS is no must, what says no name passes."""
    if isinstance(found, NotTls):
        return _no(f"port 443 is for TLS, and this is not: {found.reason}") if strict else None
    if found.ech:
        return _no("the name is encrypted (ECH), so it cannot be compared")
    if found.sni is None:
        return _no("TLS without a server name (SNI)") if strict else None
    try:
        named = Host.parse(found.sni)
    except UserError as error:
        return _no(f"the server name in TLS (SNI): {error.message}")
    if named != host:
        return _no(f"TLS asks for {named.text} on a connection to {host.text}")
    return None


class Sniffer:
    """Decides by the client's first bytes, and is gone then."""

    def __init__(self, box: Box, caller: Caller, passage: Passage[Flow]) -> None:
        self._box = box
        self._caller = caller
        self._passage = passage
        self._held = b""
        self._peek: HelloPeek | None = None

    def __repr__(self) -> str:
        return f"<Sniffer {len(self._held)} bytes, {self._passage!r}>"

    def gate(self, data: bytes) -> bytes:
        if data and not self._held and data[0] in _LINE_END:
            # Servers ignore empty lines before a request (RFC 9112 §2.2): they go on, and decide nothing.
            rest = data.lstrip(_LINE_END)
            return data[: len(data) - len(rest)] + (self.gate(rest) if rest else b"")
        self._held += data
        kind = kind_of(self._held)
        if kind is Kind.TLS:
            return self._tls(data)
        if kind is Kind.HTTP:
            self._caller.first = b""
            session = web.Session(self._box, self._caller, self._passage.grant)
            session.adopt(self._passage)
            return session.gate(self._held)
        if kind is Kind.OTHER or not data:
            return self._pass()
        return b""

    def _pass(self) -> bytes:
        self._passage.flow.outward.gate = None
        return self._held

    def _tls(self, data: bytes) -> bytes:
        if self._peek is None:
            self._peek = HelloPeek()
            data = self._held
        found = self._peek.feed(data)
        if isinstance(found, NeedMore):
            return b"" if data else self._pass()
        problem = tls_problem(found, self._passage.grant.host, strict=False)
        if isinstance(found, NotTls) and self._held[1:2] == _TLS_MAJOR:  # a server may well understand it
            problem = _no(f"TLS whose server name cannot be compared: {found.reason}")
        if problem is None:
            return self._pass()
        self._caller.first = self._held
        self._passage.flow.hand_back(lambda: self._box.spawn(self._refuse(problem), self._caller.sock))
        return b""

    async def _refuse(self, problem: Verdict) -> None:
        grant = self._passage.grant
        await self._box.refuse(self._caller, (grant.host.text, grant.port), "tls", problem)


def _no(reason: str) -> Verdict:
    return Verdict(False, None, reason, final=True)
