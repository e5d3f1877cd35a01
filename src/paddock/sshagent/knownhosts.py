"""The keys by which the user knows a host: lines of known_hosts, hashed names and patterns included.

Authorities are not followed: a host that is known by a certificate alone is not known here. A revoked key is nobody's.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SSH_PORT = 22
_HASHED = "|1|"
_PLAIN = re.compile(r"[A-Za-z0-9*?!.:\[\]_%-]+")


def name_of(host: str, port: int) -> str:
    return host.lower() if port == _SSH_PORT else f"[{host.lower()}]:{port}"


def keys_of(texts: Iterable[str], host: str, port: int) -> frozenset[bytes]:
    name = name_of(host, port)
    known, revoked = set(), set()
    for text in texts:
        for marker, names, key in _lines(text):
            if marker == "@revoked":
                revoked.add(key)
            elif not marker and _is_for(names, name):
                known.add(key)
    return frozenset(known - revoked)


def written(host: str, port: int, keys: Iterable[bytes]) -> str:
    """Lines for the ssh of a box."""
    name = name_of(host, port)
    return "".join(f"{name} {_kind(key)} {base64.b64encode(key).decode()}\n" for key in sorted(keys))


def _lines(text: str) -> Iterator[tuple[str, str, bytes]]:
    for line in text.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#"):
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        if _kind(key) == words[1]:
            yield marker, words[0], key


def _kind(key: bytes) -> str:
    """What a key says it is; certificates are not keys."""
    size = int.from_bytes(key[:4], "big")
    name = key[4 : 4 + size].decode("latin-1")
    return name if len(key) > 4 + size and "-cert-" not in name and name.isprintable() else ""


def _is_for(names: str, name: str) -> bool:
    if names.startswith(_HASHED):
        return _is_hash_of(names, name)
    found = False
    for pattern in names.lower().split(","):
        if not _PLAIN.fullmatch(pattern):
            return False
        negative = pattern.startswith("!")
        if _matches(pattern.removeprefix("!"), name):
            if negative:
                return False
            found = True
    return found


def _matches(pattern: str, name: str) -> bool:
    """* and ? as in ssh; a bracket is a bracket."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(names: str, name: str) -> bool:
    try:
        salt, wanted = (base64.b64decode(part, validate=True) for part in names.removeprefix(_HASHED).split("|"))
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), wanted)
