"""Read tar archives that an adversary made: one pass, bounded memory, one meaning for every byte.

Two readers that disagree about a header are how something is slipped past one of them. So this one knows what images
are made of (ustar, pax and GNU's long names) and refuses the rest, where the standard library guesses: sparse files,
data behind links and directories, global headers that rename everything, repeated keys, signed numbers, an archive
without its end or with something after it.
"""

from __future__ import annotations

import enum
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.limits import ARCHIVE_HEADER_BYTES, ARCHIVE_XATTRS_MAX
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.images.streams import Source

BLOCK_BYTES: Final = 512
_ZEROS: Final = bytes(BLOCK_BYTES)
_CHUNK_BYTES: Final = 1 << 16
_PADDING_BYTES_MAX: Final = 16 << 20  # tapes had blocks of up to a megabyte; compressed, zeros cost nothing to send
_OCTAL: Final = re.compile(rb"[0-7]{1,12}")
_DECIMAL: Final = re.compile(rb"[0-9]{1,19}")
_SECONDS: Final = re.compile(rb"-?[0-9]{1,19}(?:\.[0-9]*)?")
_XATTR: Final = b"SCHILY.xattr."
_CONTENT_ELSEWHERE: Final = (b"GNU.sparse.", b"SCHILY.realsize", b"SCHILY.offset", b"SCHILY.volhdr")


class Kind(enum.Enum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"
    CHAR = "character device"
    BLOCK = "block device"
    FIFO = "fifo"


_KINDS: Final = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.HARDLINK,
    b"2": Kind.SYMLINK,
    b"3": Kind.CHAR,
    b"4": Kind.BLOCK,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry as the archive has it: well-formed, and nothing more is known of it."""

    name: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    target: str = ""  # of links
    xattrs: tuple[tuple[str, bytes], ...] = ()

    @property
    def held_bytes(self) -> int:
        """With its attributes, which take space as data does."""
        return self.size + sum(len(name) + len(value) for name, value in self.xattrs)


def refused(what: str, name: str | bytes = "") -> UserError:
    """The error for an archive that is not taken; `name` is the entry, as hostile as the rest."""
    where = f" at {neutralise(name)!r}" if name else ""
    return UserError(
        f"the archive is refused{where}: {what}",
        hint="nothing of it was kept; make it anew with docker save, podman save or skopeo",
        code="bad-archive",
    )


class Reader:
    """Iterate for the members; `read` gives the data of the one that came last, what is not read is skipped."""

    def __init__(self, source: Source, *, entries_max: int, bytes_max: int, entry_bytes: int = 0) -> None:
        """An entry counts for `entry_bytes` at least: an empty file takes space, too."""
        self._source = source
        self._entry_bytes = entry_bytes
        self._entries_left = entries_max
        self._bytes_left = bytes_max
        self._data_left = 0
        self._padding = 0
        self.position = 0  # in the archive: after a member is given, where its data begins

    def __repr__(self) -> str:
        return f"<Reader at byte {self.position}>"

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        """Up to `size` bytes of the current member; empty at its end."""
        wanted = min(size, self._data_left)
        if not wanted:
            return b""
        data = self._take(wanted)
        self._data_left -= len(data)
        return data

    def __iter__(self) -> Iterator[Member]:
        extended = _Extended()
        while (block := self._next_block()) is not None:
            header = _Header(block)
            if extended.takes(header.type):
                extended.add(header.type, self._small(header))
                continue
            if header.type == b"g":
                self._count()
                _check_global(self._small(header))
                continue
            member = header.member(extended)
            extended = _Extended()
            self._begin(member)
            yield member
        if extended.is_begun:
            raise refused("a header for an entry that does not follow")
        self._require_end()

    def _count(self) -> None:
        self._entries_left -= 1
        if self._entries_left < 0:
            raise refused("it has too many entries")

    def _begin(self, member: Member) -> None:
        self._count()
        self._bytes_left -= max(member.held_bytes, self._entry_bytes)
        if self._bytes_left < 0:
            raise refused("it would take too much space", member.name)
        self._expect(member.size)

    def _expect(self, size: int) -> None:
        self._data_left = size
        self._padding = -size % BLOCK_BYTES

    def _next_block(self) -> bytes | None:
        """The next header; None at the mark of the end."""
        self._pass_data()
        self._exactly(self._padding)
        self._padding = 0
        block = self._exactly(BLOCK_BYTES)
        return None if block == _ZEROS else block

    def _pass_data(self) -> None:
        skip = getattr(self._source, "skip", None)
        # The last byte is read, so that an archive which ends before it is found out.
        if skip is not None and self._data_left > 1:
            skip(self._data_left - 1)
            self.position += self._data_left - 1
            self._data_left = 1
        while self.read():
            pass

    def _small(self, header: _Header) -> bytes:
        """The data of a header that describes the next entry."""
        size = header.number("size")
        if size > ARCHIVE_HEADER_BYTES:
            raise refused("a header is too long")
        data = self._exactly(size)
        self._exactly(-size % BLOCK_BYTES)
        return data

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self._take(size))
            size -= len(parts[-1])
        return b"".join(parts)

    def _take(self, size: int) -> bytes:
        data = self._source.read(size)
        if not data:
            raise refused("it ends too early")
        self.position += len(data)
        return data

    def _require_end(self) -> None:
        left = _PADDING_BYTES_MAX
        while data := self._source.read(_CHUNK_BYTES):
            left -= len(data)
            if left < 0 or data.count(0) != len(data):
                raise refused("something follows its end")


class _Extended:
    """What headers before an entry say about it: pax records, and GNU's long names."""

    def __init__(self) -> None:
        self._long: dict[bytes, bytes] = {}
        self.records: dict[bytes, bytes] = {}
        self.is_begun = False

    def takes(self, kind: bytes) -> bool:
        return kind in {b"x", b"L", b"K"}

    def add(self, kind: bytes, data: bytes) -> None:
        self.is_begun = True
        if kind in self._long:
            raise refused("two headers of one kind for one entry")
        self._long[kind] = data
        if kind == b"x":
            self.records = _records(data)

    def text(self, key: bytes, kind: bytes) -> bytes | None:
        """A name from here; None if the entry's own header has it."""
        long = self._long.get(kind)
        if long is not None:
            if key in self.records:
                raise refused("two long names for one entry")
            return long.removesuffix(b"\0")
        return self.records.get(key)

    def number(self, key: bytes) -> int | None:
        value = self.records.get(key)
        if value is None:
            return None
        if not _DECIMAL.fullmatch(value):
            raise refused(f"{key.decode('ascii')} is no number")
        return int(value)

    def xattrs(self) -> tuple[tuple[str, bytes], ...]:
        found = tuple(
            (os.fsdecode(key.removeprefix(_XATTR)), value)
            for key, value in self.records.items()
            if key.startswith(_XATTR)
        )
        if len(found) > ARCHIVE_XATTRS_MAX:
            raise refused("an entry has too many extended attributes")
        return found


class _Header:
    _FIELDS: Final = {"mode": (100, 108), "uid": (108, 116), "gid": (116, 124), "size": (124, 136), "mtime": (136, 148)}

    def __init__(self, block: bytes) -> None:
        self._block = block
        if sum(block) - sum(block[148:156]) + 8 * 0x20 != _number(block[148:156]):
            raise refused("a header has the wrong sum")
        self.type = block[156:157]

    def number(self, field: str) -> int:
        start, end = self._FIELDS[field]
        return _number(self._block[start:end])

    def member(self, extended: _Extended) -> Member:
        name = _text(extended.text(b"path", b"L"), self._name())
        kind = _KINDS.get(self.type)
        if kind is None:
            raise refused(f"it is of the unknown type {self.type!r}", name)
        if kind is Kind.FILE and name.endswith(b"/") and not self._is_ustar():
            kind = Kind.DIRECTORY  # as archives older than ustar say it
        size = extended.number(b"size")
        size = self.number("size") if size is None else size
        if size and kind is not Kind.FILE:
            raise refused(f"a {kind.value} with data", name)
        target = _text(extended.text(b"linkpath", b"K"), _cut(self._block[157:257]))
        uid, gid = extended.number(b"uid"), extended.number(b"gid")
        return Member(
            name=os.fsdecode(name),
            kind=kind,
            mode=self.number("mode") & 0o7777,
            uid=self.number("uid") if uid is None else uid,
            gid=self.number("gid") if gid is None else gid,
            size=size,
            mtime=self._mtime(extended),
            target=os.fsdecode(target) if kind in {Kind.SYMLINK, Kind.HARDLINK} else "",
            xattrs=extended.xattrs(),
        )

    def _is_ustar(self) -> bool:
        return self._block[257:262] == b"ustar"

    def _name(self) -> bytes:
        name, prefix = _cut(self._block[:100]), _cut(self._block[345:500])
        # "ustar\0" is POSIX; in GNU's own form other things are where the prefix would be.
        return prefix + b"/" + name if self._block[257:263] == b"ustar\0" and prefix else name

    def _mtime(self, extended: _Extended) -> int:
        given = extended.records.get(b"mtime")
        if given is None:
            return self.number("mtime")
        if not _SECONDS.fullmatch(given):
            raise refused("mtime is no number")
        return int(given.partition(b".")[0])


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise refused("a number is negative")
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = _cut(field).strip(b" ")
    if digits and not _OCTAL.fullmatch(digits):
        raise refused("a header has no number where one belongs")
    return int(digits or b"0", 8)


def _cut(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(long: bytes | None, short: bytes) -> bytes:
    text = short if long is None else long
    if b"\0" in text:
        raise refused("a name has a zero byte", text)
    return text


def _records(data: bytes) -> dict[bytes, bytes]:
    """The records of a pax header, `LENGTH KEY=VALUE\\n`, each key once."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        digits, _, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if _DECIMAL.fullmatch(digits) else 0
        record = data[at + len(digits) + 1 : at + length]
        key, equals, value = record[:-1].partition(b"=")
        if at + length > len(data) or record[-1:] != b"\n" or not equals or not key:
            raise refused("a pax header is malformed")
        if key in found:
            raise refused("a pax header says one thing twice")
        if key.startswith(_CONTENT_ELSEWHERE):
            raise refused("sparse files are not taken")
        found[key] = value
        at += length
    return found


def _check_global(data: bytes) -> None:
    if set(_records(data)) - {b"comment"}:
        raise refused("a global header speaks for all entries")
