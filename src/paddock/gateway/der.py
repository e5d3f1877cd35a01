"""As much of DER (X.690) as a certificate needs: values written, and our own certificates read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import Unavailable

if TYPE_CHECKING:
    from datetime import datetime

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OID, UTF8_STRING = 0x01, 0x02, 0x03, 0x04, 0x06, 0x0C
UTC_TIME, GENERALIZED_TIME, SEQUENCE, SET = 0x17, 0x18, 0x30, 0x31
_TAG_NUMBER = 0x1F
_LENGTH_OCTETS = 3  # 16 MiB: no certificate is longer


def value(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([tag]) + _length(len(body)) + body


def sequence(*parts: bytes) -> bytes:
    return value(SEQUENCE, *parts)


def integer(number: int) -> bytes:
    """A number that is not negative; DER wants the fewest octets that keep the sign."""
    return value(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def bits(data: bytes, unused: int = 0) -> bytes:
    return value(BIT_STRING, bytes([unused]), data)


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    return value(OID, *map(_base128, (40 * first + second, *rest)))


def time(moment: datetime) -> bytes:
    """RFC 5280 4.1.2.5: two digits of the year until 2049, four from then on."""
    if moment.year < 2050:
        return value(UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return value(GENERALIZED_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def read(data: bytes) -> tuple[int, bytes, bytes]:
    """The first value of `data`: its tag, its content, and what follows it; Unavailable when it is not DER."""
    if len(data) < 2 or data[0] & _TAG_NUMBER == _TAG_NUMBER:
        raise _bad()
    start, length = 2, data[1]
    if length & 0x80:
        octets = length & 0x7F
        start += octets
        length = int.from_bytes(data[2:start], "big")
        if not 1 <= octets <= _LENGTH_OCTETS or len(data) < start or _length(length) != data[1:start]:
            raise _bad()
    end = start + length
    if len(data) < end:
        raise _bad()
    return data[0], data[start:end], data[end:]


def children(data: bytes) -> list[bytes]:
    """The values inside one SEQUENCE, each with its own tag and length."""
    tag, rest, after = read(data)
    if tag != SEQUENCE or after:
        raise _bad()
    found = []
    while rest:
        following = read(rest)[2]
        found.append(rest[: len(rest) - len(following)])
        rest = following
    return found


def _length(length: int) -> bytes:
    if length < 0x80:
        return bytes([length])
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(octets)]) + octets


def _base128(number: int) -> bytes:
    octets = [number & 0x7F]
    while number := number >> 7:
        octets.append(0x80 | number & 0x7F)
    return bytes(reversed(octets))


def _bad() -> Unavailable:
    return Unavailable("a certificate is not DER", code="certificate")
