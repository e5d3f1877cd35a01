"""DNS as a client of the host's nameserver sees it: a question out, and out of any bytes its answer or nothing.

Whatever does not answer exactly this question is no answer: a spoofed packet must not end the wait for the real one.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

from paddock.gateway.dns import AAAA, IN, A, Rcode
from paddock.limits import RESOLVE_ADDRESSES_MAX
from paddock.policy import Address

_CNAME: Final = 5
_HEADER = struct.Struct("!6H")
_QUESTION = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")
_QR, _OPCODE, _TC, _RD = 0x8000, 0x7800, 0x0200, 0x0100
_NAME_BYTES: Final = 255
_CHAIN: Final = 16  # aliases that are followed
_TTL_MAX_S: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a nameserver said; `rcode` beyond NOERROR and NXDOMAIN is its failure, not the name's."""

    rcode: int
    truncated: bool
    addresses: tuple[Address, ...] = ()
    ttl_s: int = 0


def question(ident: int, name: str, qtype: int) -> bytes:
    """A question for the addresses of a canonical name."""
    return _HEADER.pack(ident, _RD, 1, 0, 0, 0) + _asked(name, qtype)


def _asked(name: str, qtype: int) -> bytes:
    labels = [label.encode("ascii") for label in name.split(".")]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0" + _QUESTION.pack(qtype, IN)


def read_answer(data: bytes, ident: int, name: str, qtype: int) -> Answer | None:
    """The answer to this question, or None for anything else and for what is malformed."""
    asked = _asked(name, qtype)
    end = _HEADER.size + len(asked)
    if len(data) < end:
        return None
    got, flags, questions, answers, *_ = _HEADER.unpack_from(data)
    same = got == ident and questions == 1 and data[_HEADER.size : end].lower() == asked.lower()
    if not same or not flags & _QR or flags & _OPCODE:
        return None
    rcode = flags & 0xF
    if flags & _TC or rcode != Rcode.NOERROR:
        return Answer(rcode=rcode, truncated=bool(flags & _TC))
    try:
        records = _records(data, end, answers)
        return _follow(records, name.encode("ascii"), qtype)
    except _Malformed:
        return None


class _Malformed(Exception):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    owner: bytes
    kind: int
    ttl_s: int
    address: Address | None = None
    target: bytes = b""


def _records(data: bytes, at: int, count: int) -> list[_Record]:
    found: list[_Record] = []
    for _ in range(count):
        owner, at = _name(data, at)
        if len(data) < at + _RECORD.size:
            raise _Malformed
        kind, klass, ttl_s, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        end = at + length
        if len(data) < end:
            raise _Malformed
        ttl_s = ttl_s if ttl_s <= _TTL_MAX_S else 0  # RFC 2181 §8
        if klass == IN and kind in {A, AAAA}:
            found.append(_Record(owner=owner, kind=kind, ttl_s=ttl_s, address=_address(kind, data[at:end])))
        elif klass == IN and kind == _CNAME:
            target, stop = _name(data, at)
            if stop != end:
                raise _Malformed
            found.append(_Record(owner=owner, kind=kind, ttl_s=ttl_s, target=target))
        at = end
    return found


def _address(kind: int, raw: bytes) -> Address:
    if len(raw) != (4 if kind == A else 16):
        raise _Malformed
    return ipaddress.IPv4Address(raw) if kind == A else ipaddress.IPv6Address(raw)


def _name(data: bytes, at: int) -> tuple[bytes, int]:
    """(lower-case name, where it ends). Pointers lead backwards only, so they come to an end (RFC 1035 §4.1.4)."""
    labels: list[bytes] = []
    size = 1
    end = -1
    limit = at
    while True:
        if at >= len(data):
            raise _Malformed
        length = data[at]
        if length >= 0xC0:
            if at + 1 >= len(data):
                raise _Malformed
            target = (length & 0x3F) << 8 | data[at + 1]
            end = end if end >= 0 else at + 2
            if target >= limit:
                raise _Malformed
            at = limit = target
            continue
        if length > 63 or at + 1 + length > len(data):
            raise _Malformed
        at += 1 + length
        if length == 0:
            return b".".join(labels), end if end >= 0 else at
        label = data[at - length : at]
        size += 1 + length
        if size > _NAME_BYTES or b"." in label:
            raise _Malformed
        labels.append(label.lower())


def _follow(records: list[_Record], name: bytes, qtype: int) -> Answer:
    """The addresses at the end of the chain of aliases that begins with `name`; the rest is not asked for."""
    aliases = {record.owner: record for record in records if record.kind == _CNAME}
    owners = {record.owner for record in records if record.kind == qtype}
    ttl_s = _TTL_MAX_S
    for _ in range(_CHAIN):
        if name in owners or name not in aliases:
            break
        ttl_s = min(ttl_s, aliases[name].ttl_s)
        name = aliases[name].target
    else:
        return Answer(rcode=Rcode.SERVFAIL, truncated=False)
    last = [record for record in records if record.kind == qtype and record.owner == name]
    addresses = tuple(dict.fromkeys(record.address for record in last if record.address is not None))
    ttl_s = min([ttl_s, *(record.ttl_s for record in last)]) if last else 0
    return Answer(rcode=Rcode.NOERROR, truncated=False, addresses=addresses[:RESOLVE_ADDRESSES_MAX], ttl_s=ttl_s)
