"""Tar archives made by hand: any header can be wrong in any way, which no library would write."""

from __future__ import annotations

import io

BLOCK = 512
END = bytes(2 * BLOCK)


def header(
    name: bytes,
    kind: bytes = b"0",
    *,
    size: int | bytes = 0,
    mode: int | bytes = 0o644,
    uid: int | bytes = 0,
    gid: int | bytes = 0,
    mtime: int | bytes = 0,
    target: bytes = b"",
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    device: tuple[int, int] = (0, 0),
) -> bytes:
    fields = [
        name.ljust(100, b"\0"),
        *(_number(value, width) for value, width in ((mode, 8), (uid, 8), (gid, 8), (size, 12), (mtime, 12))),
        b" " * 8,
        kind,
        target.ljust(100, b"\0"),
        magic.ljust(8, b"\0"),
        bytes(64),
        *(_number(value, 8) for value in device),
        prefix.ljust(155, b"\0"),
    ]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    assert len(block) == BLOCK
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _number(value: int | bytes, width: int) -> bytes:
    text = value if isinstance(value, bytes) else b"%0*o" % (width - 1, value)
    return text.ljust(width, b"\0")


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def file(name: bytes, data: bytes = b"", **fields: object) -> bytes:
    return header(name, size=len(data), **fields) + padded(data)  # type: ignore[arg-type]  # passed on as given


def directory(name: bytes, mode: int = 0o755) -> bytes:
    return header(name, b"5", mode=mode)


def symlink(name: bytes, target: bytes) -> bytes:
    return header(name, b"2", target=target)


def hardlink(name: bytes, target: bytes) -> bytes:
    return header(name, b"1", target=target)


def pax(records: list[tuple[bytes, bytes]], kind: bytes = b"x") -> bytes:
    data = b"".join(record(key, value) for key, value in records)
    return header(b"pax", kind, size=len(data)) + padded(data)


def record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + len(str(len(rest)))
    if len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


def gnu_long(kind: bytes, text: bytes) -> bytes:
    return header(b"././@LongLink", kind, size=len(text) + 1, magic=b"ustar  \0") + padded(text + b"\0")


def archive(*entries: bytes) -> bytes:
    return b"".join(entries) + END


def source(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)
