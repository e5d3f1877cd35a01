"""The submodules that a repository's index names, read from its bytes.

For each of them the host's `git status` starts a git of its own inside that directory, which obeys the configuration
it finds there: these are the places a box must not be able to fill (gitformat-index(5)).
"""

from __future__ import annotations

import os
import re

_HEADER_BYTES = 12
_GITLINK = (0o160000).to_bytes(4, "big")
_MODE_AT = 24
_STAT_BYTES = 40
_EXTENDED = 0x4000
_NAME_MASK = 0x0FFF
_OID_BYTES = {"sha1": 20, "sha256": 32}


def gitlinks(data: bytes, object_format: str = "sha1") -> tuple[str, ...]:
    """The paths of all gitlinks of an index file; of bytes that are none, or of an unknown version, nothing."""
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or version not in {2, 3, 4}:
        return ()
    oid_bytes = _OID_BYTES[object_format]
    names = _compressed(data, oid_bytes) if version == 4 else _plain(data, oid_bytes)
    return tuple(dict.fromkeys(os.fsdecode(name) for name in names if _is_inside(name)))


def names(data: bytes, path: str) -> bool:
    """Whether an index has a file at or below `path`, as far as a look at its bytes tells; version 4 shortens names."""
    for start in re.finditer(re.escape(os.fsencode(path)) + rb"(?:/|\0)", data):
        end = data.find(b"\0", start.start())
        flags = int.from_bytes(data[start.start() - 2 : start.start()], "big")
        if min(end - start.start(), _NAME_MASK) == flags & _NAME_MASK:
            return True
    return False


def _plain(data: bytes, oid_bytes: int) -> list[bytes]:
    """Looks for the mode instead of walking 50,000 entries; a false find is no submodule, and harmless."""
    found = []
    at = data.find(_GITLINK, _HEADER_BYTES + _MODE_AT)
    while at >= 0:
        start = at - _MODE_AT
        if (start - _HEADER_BYTES) % 8 == 0:
            flags_at = start + _STAT_BYTES + oid_bytes
            flags = int.from_bytes(data[flags_at : flags_at + 2], "big")
            name_at = flags_at + (4 if flags & _EXTENDED else 2)
            name = data[name_at : data.find(b"\0", name_at)]
            if min(len(name), _NAME_MASK) == flags & _NAME_MASK:
                found.append(name)
        at = data.find(_GITLINK, at + 1)
    return found


def _compressed(data: bytes, oid_bytes: int) -> list[bytes]:
    """Version 4: each name is a cut of the one before and an addition."""
    found = []
    at = _HEADER_BYTES
    name = b""
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags_at = at + _STAT_BYTES + oid_bytes
        if flags_at + 4 >= len(data):
            break
        name_at = flags_at + (4 if data[flags_at] & (_EXTENDED >> 8) else 2)
        cut, name_at = _variable(data, name_at)
        end = data.find(b"\0", name_at)
        if end < 0 or cut > len(name):
            break
        name = name[: len(name) - cut] + data[name_at:end]
        if data[at + _MODE_AT : at + _MODE_AT + 4] == _GITLINK:
            found.append(name)
        at = end + 1
    return found


def _variable(data: bytes, at: int) -> tuple[int, int]:
    """A number as in offset deltas of packs, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _is_inside(name: bytes) -> bool:
    parts = name.split(b"/")
    return bool(name) and not {b"", b".", b"..", b".git"} & set(parts)
