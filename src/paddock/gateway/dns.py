"""DNS as the server of a box sees it: one question in, one short answer out (RFC 1035, 6891, 7766, 8914).

A box asks for addresses and gets them from us, never from the world, so all that is written here is a header, the
question as it was asked, at most one address and an OPT record.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.limits import DNS_QUERY_BYTES, DNS_UDP_BYTES
from paddock.policy import Host
from paddock.text import neutralise

if TYPE_CHECKING:
    from ipaddress import IPv4Address

A: Final = 1
AAAA: Final = 28
IN: Final = 1
_OPT: Final = 41
_HEADER = struct.Struct("!6H")
_QUESTION = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")  # type, class, ttl, length
_EDE: Final = 15
_EDE_TEXT_BYTES: Final = 120
_QR, _OPCODE, _AA, _TC, _RD, _RA, _CD = 0x8000, 0x7800, 0x0400, 0x0200, 0x0100, 0x0080, 0x0010
_PLAIN_UDP_BYTES: Final = 512
_NAME_BYTES: Final = 255


class Rcode(enum.IntEnum):
    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class Ede(enum.IntEnum):
    """Why, for those who read it (RFC 8914 §4)."""

    OTHER = 0
    PROHIBITED = 18
    NOT_SUPPORTED = 21
    NETWORK_ERROR = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One well-formed question. `host` is None when the name is no host name; `name` is fit for a log."""

    id: int
    flags: int
    question: bytes  # as it was asked, so that mixed case comes back as it went out
    name: str
    host: Host | None
    qtype: int
    qclass: int
    edns: bool = False
    udp_bytes: int = _PLAIN_UDP_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class BadQuery:
    """Not a question we can read. `response` is what to send, or empty for what deserves no answer."""

    reason: str
    response: bytes = b""


def parse_query(data: bytes) -> Query | BadQuery:
    if len(data) < _HEADER.size:
        return BadQuery(reason="too short")
    ident, flags, *counts = _HEADER.unpack_from(data)
    if flags & _QR:  # answering an answer would start a loop
        return BadQuery(reason="not a query")
    if flags & _OPCODE:
        return _bad("not a plain query", ident, flags, Rcode.NOTIMP)
    if len(data) > DNS_QUERY_BYTES:
        return _bad("too long", ident, flags)
    if counts[:3] != [1, 0, 0] or counts[3] > 1:
        return _bad("not one question", ident, flags)
    labels = _labels(data)
    if labels is None:
        return _bad("a malformed name", ident, flags)
    start = _HEADER.size + sum(len(label) + 1 for label in labels) + 1
    end = start + _QUESTION.size
    if len(data) < end:
        return _bad("cut short", ident, flags)
    edns = None
    if counts[3]:
        edns = _edns(data, end)
        if edns is None:
            return _bad("malformed EDNS", ident, flags)
    elif len(data) != end:
        return _bad("bytes after the question", ident, flags)
    qtype, qclass = _QUESTION.unpack_from(data, start)
    query = Query(
        id=ident,
        flags=flags,
        question=data[_HEADER.size : end],
        name=neutralise(b".".join(labels) or b".", _NAME_BYTES),
        host=_host(labels),
        qtype=qtype,
        qclass=qclass,
        edns=edns is not None,
        udp_bytes=max(_PLAIN_UDP_BYTES, min(edns[0], DNS_UDP_BYTES)) if edns else _PLAIN_UDP_BYTES,
    )
    if edns and edns[1]:
        return BadQuery(reason="EDNS of another version", response=_respond(query, Rcode.BADVERS))
    return query


def _labels(data: bytes) -> list[bytes] | None:
    """The name at the head of the question. A pointer there could only lead backwards, into the header."""
    labels: list[bytes] = []
    at = _HEADER.size
    while at < len(data) and at - _HEADER.size < _NAME_BYTES:
        length = data[at]
        if length == 0:
            return labels
        if length > 63 or at + 1 + length > len(data):
            return None
        labels.append(data[at + 1 : at + 1 + length])
        at += 1 + length
    return None


def _host(labels: list[bytes]) -> Host | None:
    if any(b"." in label for label in labels):  # such a label would read as two
        return None
    try:
        host = Host.parse(b".".join(labels).decode("ascii"))
    except (UserError, UnicodeDecodeError):
        return None
    return host if host.address is None else None  # 192.0.2.1 is an address and no name


def _edns(data: bytes, start: int) -> tuple[int, int] | None:
    """(UDP size, version) of the OPT record, which must be the rest of the message."""
    if len(data) < start + 1 + _RECORD.size or data[start] != 0:
        return None
    kind, size, ttl, length = _RECORD.unpack_from(data, start + 1)
    at = start + 1 + _RECORD.size
    if kind != _OPT or at + length != len(data):
        return None
    while at < len(data):
        if len(data) - at < _QUESTION.size:
            return None
        at += _QUESTION.size + _QUESTION.unpack_from(data, at)[1]
    return (size, ttl >> 16 & 0xFF) if at == len(data) else None


# -- answers -----------------------------------------------------------------------------------------------------------
def answer_address(query: Query, address: IPv4Address, ttl_s: int, *, tcp: bool = False) -> bytes:
    """The one address of the name that was asked for."""
    record = b"\xc0\x0c" + _RECORD.pack(A, IN, ttl_s, 4) + address.packed
    return _respond(query, Rcode.NOERROR, answer=record, tcp=tcp)


def nodata(query: Query, *, tcp: bool = False) -> bytes:
    """The name exists and has nothing of this type."""
    return _respond(query, Rcode.NOERROR, tcp=tcp)


def refused(query: Query, ede: Ede = Ede.PROHIBITED, text: str = "", *, tcp: bool = False) -> bytes:
    return _respond(query, Rcode.REFUSED, ede=(ede, text), tcp=tcp)


def servfail(query: Query, ede: Ede = Ede.NETWORK_ERROR, text: str = "", *, tcp: bool = False) -> bytes:
    return _respond(query, Rcode.SERVFAIL, ede=(ede, text), tcp=tcp)


def _bad(reason: str, ident: int, flags: int, rcode: Rcode = Rcode.FORMERR) -> BadQuery:
    """An answer without the question, which could not be read."""
    response = _HEADER.pack(ident, _QR | flags & (_OPCODE | _RD) | rcode, 0, 0, 0, 0)
    return BadQuery(reason=reason, response=response)


def _respond(
    query: Query, rcode: Rcode, *, answer: bytes = b"", ede: tuple[Ede, str] | None = None, tcp: bool = False
) -> bytes:
    flags = _QR | _RA | query.flags & (_RD | _CD) | rcode & 0xF
    extra = b""
    if query.edns:
        option = b""
        if ede is not None:
            text = neutralise(ede[1], _EDE_TEXT_BYTES).encode("ascii", "replace")
            option = struct.pack("!HHH", _EDE, 2 + len(text), ede[0]) + text
        extra = b"\x00" + _RECORD.pack(_OPT, DNS_UDP_BYTES, rcode >> 4 << 24, len(option)) + option
    limit = _RECORD_LIMIT_TCP if tcp else query.udp_bytes
    if _HEADER.size + len(query.question) + len(answer) + len(extra) > limit:
        flags, answer, extra = flags | _TC, b"", b""
    counts = (1, int(bool(answer)), 0, int(bool(extra)))
    return _HEADER.pack(query.id, flags, *counts) + query.question + answer + extra


# -- over TCP ----------------------------------------------------------------------------------------------------------
_RECORD_LIMIT_TCP: Final = 65535


def frame(message: bytes) -> bytes:
    return len(message).to_bytes(2) + message


class TcpQueries:
    """Messages out of a stream; UserError code="bad-dns" for one that is longer than any question."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._failed = False

    def __repr__(self) -> str:
        return f"<TcpQueries {'failed' if self._failed else f'{len(self._buffer)} bytes pending'}>"

    def feed(self, data: bytes) -> list[bytes]:
        """The messages completed by `data`. Those before a bad one are still delivered: the next feed raises."""
        found: list[bytes] = []
        buffer = self._buffer
        if not self._failed:
            buffer += data
        while len(buffer) >= 2:
            length = int.from_bytes(buffer[:2])
            if not _HEADER.size <= length <= DNS_QUERY_BYTES:
                self._failed = True
                buffer.clear()
            if len(buffer) < 2 + length:
                break
            found.append(bytes(buffer[2 : 2 + length]))
            del buffer[: 2 + length]
        if self._failed and not found:
            raise UserError("a DNS message of impossible length", code="bad-dns")
        return found
