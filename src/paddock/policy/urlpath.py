"""The path of a request as every program behind us may read it, or none (RFC 3986 §6.2.2).

Servers differ in what they make of `..`, `%2e`, `//`, `;` and bytes that are no UTF-8. A rule about paths holds only if
they cannot: such a path is refused, never mended. `%2F` alone is in wide use and has two readings; both count.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import unquote_to_bytes

_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9_~!$&'()*+,=:@.-]+)*/?")
_DOTS: Final = re.compile(r"/\.+(?=/|\Z)")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_SLASH: Final = re.compile(r"%2f", re.IGNORECASE)
_KEPT_SLASH: Final = "\0"  # cannot be in a path, so nothing else becomes it
_CHARS_MAX: Final = 4096


class Ambiguous(Exception):
    """Two servers could read this path as two."""


def readings(path: str) -> tuple[str, ...]:
    """The path without its escapes: one reading, or two when `%2F` may be a slash or not. Raises Ambiguous."""
    if len(path) > _CHARS_MAX:
        raise Ambiguous("it is too long")
    if path.startswith("/") and _PLAIN.fullmatch(path) and not _DOTS.search(path):
        return (path,)
    if not path.startswith("/") or "\\" in path or ";" in path or not path.isascii() or not path.isprintable():
        raise Ambiguous("it has characters that servers read differently")
    if not _SLASH.search(path):
        return (_decoded(path),)
    return _decoded(_SLASH.sub("/", path)), _decoded(_SLASH.sub(_KEPT_SLASH, path)).replace(_KEPT_SLASH, "%2F")


def _decoded(path: str) -> str:
    if any(found[1] is None or found[1].upper() in _AMBIGUOUS for found in _ESCAPE.finditer(path)):
        raise Ambiguous("it has escapes that servers read differently")
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise Ambiguous("it is no UTF-8") from None
    if not unicodedata.is_normalized("NFKC", text):
        raise Ambiguous("it has letters with a twin")
    segments = text[1:].split("/")
    if not all(segment.strip(" .") for segment in segments[:-1]) or (segments[-1] and not segments[-1].strip(" .")):
        raise Ambiguous("it has empty, . or .. parts")
    return text


_AMBIGUOUS: Final = frozenset({f"{code:02X}" for code in (*range(0x20), 0x7F, *b"%\\;?#")})
