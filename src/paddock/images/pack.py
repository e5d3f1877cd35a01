"""Write the tree of a layer as a tar archive, the same bytes for the same tree.

What hides files of lower layers becomes `.wh.` entries again. FIFOs, sockets and devices are left out, as unpacking
would leave them out. A name that already begins like such an entry would come back as something else, so it is refused.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from paddock.errors import UserError
from paddock.images import marks, tree
from paddock.images.names import OPAQUE, WHITEOUT
from paddock.images.tar import BLOCK_BYTES
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from paddock.images.ownership import Ownership

_CHUNK_BYTES: Final = 1 << 20
_OCTAL_MAX: Final = 8**11 - 1  # of a size or a time
_ID_MAX: Final = 8**7 - 1
_END: Final = bytes(2 * BLOCK_BYTES)


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


def pack(root: int, sink: Sink, ownership: Ownership, without: Container[str] = ()) -> None:
    """Write everything below the directory `root`, itself included, but for these paths."""
    first: dict[int, str] = {}
    for entry in tree.entries(root):
        if entry.path not in without:
            _write(entry, sink, ownership, first)
    sink.write(_END)


def write_file(sink: Sink, name: str, data: bytes) -> None:
    """One small file, for archives whose entries are not those of a layer."""
    sink.write(_header(name, b"0", size=len(data)) + _padded(data))


def write_directory(sink: Sink, name: str) -> None:
    sink.write(_header(f"{name}/", b"5", mode=0o755))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dress:
    """What an entry of a layer has beside its content."""

    mode: int
    owner: tuple[int, int] = (0, 0)
    mtime: int = 0


def put_directory(sink: Sink, name: str, dress: Dress) -> None:
    sink.write(_header(f"{name}/", b"5", mode=dress.mode, owner=dress.owner, mtime=dress.mtime))


def put_link(sink: Sink, name: str, target: str, dress: Dress) -> None:
    sink.write(_header(name, b"2", mode=0o777, owner=dress.owner, mtime=dress.mtime, target=target))


def put_hardlink(sink: Sink, name: str, target: str, dress: Dress) -> None:
    sink.write(_header(name, b"1", mode=dress.mode, owner=dress.owner, mtime=dress.mtime, target=target))


def put_header(sink: Sink, name: str, size: int, dress: Dress) -> None:
    """Of a file whose content, and its padding, the caller writes."""
    sink.write(_header(name, b"0", mode=dress.mode, owner=dress.owner, mtime=dress.mtime, size=size))


def put_padding(sink: Sink, size: int) -> None:
    sink.write(bytes(-size % BLOCK_BYTES))


def put_text(sink: Sink, name: str, data: bytes, dress: Dress) -> None:
    put_header(sink, name, len(data), dress)
    sink.write(_padded(data))


def write_open_file(sink: Sink, name: str, fd: int) -> None:
    """One file with all that a descriptor has, read from its beginning."""
    size = os.fstat(fd).st_size
    write_sized(sink, name, size, lambda: copy(fd, size, name, sink))


def write_sized(sink: Sink, name: str, size: int, write: Callable[[], None]) -> None:
    """One file whose content is written by the caller, exactly as much of it."""
    sink.write(_header(name, b"0", size=size))
    write()
    put_padding(sink, size)


def write_end(sink: Sink) -> None:
    sink.write(_END)


def _write(entry: tree.Entry, sink: Sink, ownership: Ownership, first: dict[int, str]) -> None:
    status = entry.status
    if entry.path and entry.name.startswith(WHITEOUT):
        raise UserError(
            f"{neutralise(entry.path)!r} has a name that means a removed file in an image",
            hint="rename it, then again",
            code="reserved-name",
        )
    if marks.is_whiteout(status):
        above, slash, name = entry.path.rpartition("/")
        sink.write(_header(f"{above}{slash}{WHITEOUT}{name}", b"0"))
    elif stat.S_ISDIR(status.st_mode):
        _write_directory(entry, sink, ownership)
    elif stat.S_ISLNK(status.st_mode):
        sink.write(_dressed(entry, b"2", ownership, target=entry.link()))
    elif stat.S_ISREG(status.st_mode):
        if status.st_nlink > 1 and first.setdefault(status.st_ino, entry.path) != entry.path:
            sink.write(_dressed(entry, b"1", ownership, target=first[status.st_ino]))
        else:
            _write_content(entry, sink, ownership)


def _write_directory(entry: tree.Entry, sink: Sink, ownership: Ownership) -> None:
    fd = entry.open()
    try:
        _require_own(fd, entry)
        name = f"{entry.path}/" if entry.path else "./"
        sink.write(_dressed(entry, b"5", ownership, name=name, xattrs=tree.attributes(fd)))
        if marks.is_opaque(fd):
            sink.write(_header(f"{entry.path}/{OPAQUE}".lstrip("/"), b"0"))
    finally:
        os.close(fd)


def _write_content(entry: tree.Entry, sink: Sink, ownership: Ownership) -> None:
    fd = entry.open()
    try:
        _require_own(fd, entry)
        size = os.fstat(fd).st_size
        sink.write(_dressed(entry, b"0", ownership, size=size, xattrs=tree.attributes(fd)))
        copy(fd, size, entry.path, sink)
        put_padding(sink, size)
    finally:
        os.close(fd)


def _require_own(fd: int, entry: tree.Entry) -> None:
    if marks.is_foreign(fd):
        raise UserError(f"the content of {neutralise(entry.path)!r} is in another layer", code="foreign-layer")


def copy(fd: int, size: int, name: str, *sinks: Sink) -> None:
    """So much of a file, from its beginning; UserError if it has become shorter."""
    at = 0
    while at < size:
        data = os.pread(fd, min(_CHUNK_BYTES, size - at), at)
        if not data:
            raise UserError(f"{neutralise(name)!r} changed while it was read", code="changed")
        for sink in sinks:
            sink.write(data)
        at += len(data)


def _dressed(
    entry: tree.Entry,
    kind: bytes,
    ownership: Ownership,
    *,
    name: str = "",
    target: str = "",
    size: int = 0,
    xattrs: dict[str, bytes] | None = None,
) -> bytes:
    return _header(
        name or entry.path,
        kind,
        mode=0o777 if kind == b"2" else stat.S_IMODE(entry.status.st_mode),
        owner=ownership.shown(entry.status),
        mtime=max(int(entry.status.st_mtime), 0),
        size=size,
        target=target,
        xattrs=xattrs,
    )


def _header(
    name: str,
    kind: bytes,
    *,
    mode: int = 0o644,
    owner: tuple[int, int] = (0, 0),
    mtime: int = 0,
    size: int = 0,
    target: str = "",
    xattrs: dict[str, bytes] | None = None,
) -> bytes:
    raw, link = os.fsencode(name), os.fsencode(target)
    records = {f"SCHILY.xattr.{key}".encode("utf-8", "surrogateescape"): value for key, value in (xattrs or {}).items()}
    long = b""
    for kind_of_long, key, text in ((b"L", b"path", raw), (b"K", b"linkpath", link)):
        if len(text) <= 100:
            continue
        if _is_utf8(text):
            records[key] = text
        else:  # a pax header is UTF-8 by definition; GNU's has any bytes
            long += _block(b"././@LongLink", kind_of_long, size=len(text) + 1, magic=b"ustar  \0") + _padded(
                text + b"\0"
            )
    for key, number, most in ((b"size", size, _OCTAL_MAX), (b"uid", owner[0], _ID_MAX), (b"gid", owner[1], _ID_MAX)):
        if number > most:
            records[key] = b"%d" % number
    body = b"".join(_record(key, value) for key, value in sorted(records.items()))
    pax = _block(b"PaxHeader", b"x", size=len(body)) + _padded(body) if body else b""
    ids = tuple(min(number, _ID_MAX) for number in owner)
    return (
        pax
        + long
        + _block(
            raw[:100],
            kind,
            mode=mode,
            ids=ids,
            mtime=min(mtime, _OCTAL_MAX),
            size=min(size, _OCTAL_MAX),
            target=link[:100],
        )
    )


def _block(
    name: bytes,
    kind: bytes,
    *,
    size: int = 0,
    mode: int = 0o644,
    ids: tuple[int, ...] = (0, 0),
    mtime: int = 0,
    target: bytes = b"",
    magic: bytes = b"ustar\x0000",
) -> bytes:
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode, *ids, size, mtime)
    block = name.ljust(100, b"\0") + numbers + b" " * 8 + kind + target.ljust(100, b"\0") + magic
    block = block.ljust(BLOCK_BYTES, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest) + len(str(len(rest)))
    if len(str(size)) + len(rest) > size:
        size += 1
    return b"%d" % size + rest


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK_BYTES)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
