"""The one way a host name or address gets into the program: canonical, or refused.

Theory. A policy that reads a name differently from whoever resolves it is no policy: a NUL cuts the name for one of the
two, `127.1` is a name for one and loopback for the other, a full-width dot separates labels for one of them. So nothing
is mapped that two programs could map differently. What is accepted is
- a name of ASCII letters, digits, hyphens and underscores, at most 253 characters in labels of at most 63, made
  lower-case, one trailing dot dropped (RFC 1034 3.1: the same absolute name); `xn--` labels must be what the IDNA
  encoder would have written, and other scripts are written in that form only;
- an IPv4 address as four plain decimal numbers, an IPv6 address in any RFC 4291 spelling, bracketed or bare, written as
  in RFC 5952; an IPv4-mapped one is the IPv4 address, for that is where the kernel sends it.
A last label that some resolver reads as a number (`0x7f.1`, `2130706433`) makes the whole text an address or nothing.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from paddock.errors import UserError
from paddock.text import neutralise

Address = IPv4Address | IPv6Address

NAME_CHARS = 253  # RFC 1035 2.3.4, in text form
PORT_MAX = 65535

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")  # what inet_aton or a URL parser takes for an address
_IPV4 = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_IPV6 = re.compile(r"[0-9a-f:.]{2,45}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True, init=False)
class Host:
    """A canonical name or address; there is no other constructor, so whoever holds one need not check it."""

    text: str
    address: Address | None = field(compare=False)

    def __init__(self, text: str) -> None:
        canonical, address = _read(text)
        object.__setattr__(self, "text", canonical)
        object.__setattr__(self, "address", address)

    @classmethod
    def parse(cls, text: str) -> Host:
        """Raises UserError `bad-host`."""
        return cls(text)

    @classmethod
    def of(cls, address: Address) -> Host:
        return cls(str(address))

    def __str__(self) -> str:
        return self.text

    def with_port(self, port: int) -> str:
        """As it stands in a URL, a rule or a log."""
        return f"[{self.text}]:{port}" if isinstance(self.address, IPv6Address) else f"{self.text}:{port}"


def parse_port(text: str) -> int:
    """1 to 65535 in plain decimal without a sign, zeros or blanks; raises UserError `bad-port`."""
    if not _PORT.fullmatch(text) or (port := int(text)) > PORT_MAX:
        shown = neutralise(text, _SHOWN_CHARS)
        raise UserError(f"'{shown}' is not a port", hint=f"use a number from 1 to {PORT_MAX}", code="bad-port")
    return port


def parse_authority(text: str, default_port: int | None = None) -> tuple[Host, int]:
    """`example.com:443` or `[::1]:80`; without a default the port must be there."""
    if text.startswith("["):
        inner, closed, rest = text[1:].partition("]")
        if not closed or ":" not in inner or (rest and not rest.startswith(":")):
            raise _refused(text)
        head, colon, port = inner, rest[:1], rest[1:]
    else:
        head, colon, port = text.partition(":")
    host = Host(head)
    if colon:
        return host, parse_port(port)
    if default_port is None:
        raise UserError(f"{host.text} has no port", hint="write host:port", code="bad-port")
    return host, default_port


def _read(text: str) -> tuple[str, Address | None]:
    if len(text) > NAME_CHARS + 1 or not text.isascii():
        raise _refused(text)
    lower = text.lower()  # ASCII only by now: no locale, no look-alikes
    if ":" in lower:
        return _ipv6(text, lower)
    if _NUMBER.fullmatch(lower):
        if not _IPV4.fullmatch(lower):
            raise _refused(text)
        return _written(text, lower)
    name = lower.removesuffix(".")
    if len(name) > NAME_CHARS or not _NAME.fullmatch(name) or _NUMBER.fullmatch(name):
        raise _refused(text)
    if "xn--" in name and not all(map(_is_written_label, name.split("."))):
        raise _refused(text)
    return name, None


def _ipv6(text: str, lower: str) -> tuple[str, Address]:
    if lower.startswith("[") and lower.endswith("]"):
        lower = lower[1:-1]
    if not _IPV6.fullmatch(lower):  # no zone: it would name an interface of the host
        raise _refused(text)
    return _written(text, lower)


def _written(text: str, literal: str) -> tuple[str, Address]:
    try:
        address = ipaddress.ip_address(literal)
    except ValueError:
        raise _refused(text) from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address), address


def _is_written_label(label: str) -> bool:
    """Whether a label is plain, or an `xn--` form that stands for letters and for nothing that another form could."""
    if not label.startswith("xn--"):
        return True
    import unicodedata  # 1 MiB of tables that most names never need

    try:
        letters = label[4:].encode("ascii").decode("punycode")
        again = letters.encode("punycode").decode("ascii")
    except (UnicodeError, ValueError, OverflowError):
        return False
    return (
        again == label[4:]
        and not letters.isascii()
        and letters.isprintable()  # no soft hyphen, joiner, control or surrogate
        and letters == letters.lower()
        and unicodedata.is_normalized("NFKC", letters)  # no circled, full-width or composed twin
        and not unicodedata.category(letters[0]).startswith("M")
    )


def _refused(text: str) -> UserError:
    return UserError(
        f"'{neutralise(text, _SHOWN_CHARS)}' is not a host",
        hint="use a plain name, an IPv4 address as four numbers or an IPv6 address; other scripts in their xn-- form",
        code="bad-host",
    )
