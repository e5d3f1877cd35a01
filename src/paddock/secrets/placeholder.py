"""What a box holds in place of a secret: as long as the real thing and beginning like it, and worth nothing.

Theory. A placeholder is letters, digits, hyphens and underscores, so that no quoting of JSON, of a URL or of a shell
changes it, and has at least 128 random bits, so that no box guesses another's. It is swapped where the client put it:
in the plain, or inside the base64 of Basic authentication (RFC 7617). Encoded in another way it is not found, and goes
out as the worthless word it is.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
import string
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Random = Callable[[int], bytes]

BITS_LEAST = 128
LETTERS = string.ascii_letters + string.digits
URLSAFE = LETTERS + "-_"
HEX = string.digits + "abcdef"

_PLAIN = re.compile(r"[A-Za-z0-9_-]*")
_BASIC = re.compile(rb"[Bb][Aa][Ss][Ii][Cc] +([A-Za-z0-9+/]+={0,2})[ \t]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`random_chars` of `alphabet` between what every real one begins and ends with."""

    prefix: str = ""
    random_chars: int = 40
    alphabet: str = LETTERS
    suffix: str = ""

    def __post_init__(self) -> None:
        if not _PLAIN.fullmatch(self.prefix + self.alphabet + self.suffix):
            raise ValueError("a placeholder consists of letters, digits, hyphens and underscores")
        if self.random_chars * math.log2(len(set(self.alphabet))) < BITS_LEAST:
            raise ValueError(f"a placeholder has at least {BITS_LEAST} random bits")


def make(shape: Shape, random: Random = os.urandom) -> str:
    """A new one; `random(n)` gives n random bytes."""
    letters = shape.alphabet
    usable = 256 - 256 % len(letters)  # bytes above would make the first letters likelier
    chosen: list[str] = []
    while len(chosen) < shape.random_chars:
        chosen += [letters[byte % len(letters)] for byte in random(shape.random_chars) if byte < usable]
    return shape.prefix + "".join(chosen[: shape.random_chars]) + shape.suffix


def find(value: bytes, placeholders: Iterable[str]) -> frozenset[str]:
    """Those that stand in a header's value, in the plain or inside Basic; linear in the value for each."""
    inside = basic(value) or b""
    return frozenset(text for text in placeholders if (word := text.encode()) in value or word in inside)


def basic(value: bytes) -> bytes | None:
    """The `user:password` of a Basic authorization, None if it is none or no canonical base64."""
    match = _BASIC.fullmatch(value)
    if match is None:
        return None
    try:
        plain = base64.b64decode(match[1], validate=True)
    except binascii.Error:
        return None
    return plain if base64.b64encode(plain) == match[1] else None
