"""ADD of an archive: what is in it, below a directory of the root, as the archive of a layer.

The archive is read as any that an adversary made (tar.py, names.py), and what comes of it is unpacked as one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock.images import pack
from paddock.images.names import WHITEOUT, place_of, place_of_target
from paddock.images.pack import Dress
from paddock.images.tar import Kind, Reader, refused
from paddock.limits import BUILD_COPY_BYTES, BUILD_COPY_ENTRIES

if TYPE_CHECKING:
    from paddock.images.context import Target
    from paddock.images.pack import Sink
    from paddock.images.streams import Source
    from paddock.images.tar import Member

_CHUNK_BYTES: Final = 1 << 16


def write(source: Source, target: Target, sink: Sink, *, is_owned: bool) -> None:
    """`is_owned`: all of it belongs to the target's owner, and not to whom the archive says."""
    reader = Reader(source, entries_max=BUILD_COPY_ENTRIES, bytes_max=BUILD_COPY_BYTES)
    directories = {path for path, _ in target.parents}
    for path, dress in target.parents:
        pack.put_directory(sink, path, dress)
    for member in reader:
        place = place_of(member)
        if any(part.startswith(WHITEOUT) for part in place.parts):
            raise refused("a name that means a removed file in an image", member.name)
        name = f"{target.path}/{place.path}".strip("/")
        dress = _dress(member, target, is_owned=is_owned)
        if member.kind is Kind.DIRECTORY:
            if name and name not in directories:
                directories.add(name)
                pack.put_directory(sink, name, dress)
        elif member.kind is Kind.FILE:
            pack.put_header(sink, name, member.size, dress)
            _copy(reader, sink, member.size)
        elif member.kind is Kind.SYMLINK:
            pack.put_link(sink, name, member.target, dress)
        elif member.kind is Kind.HARDLINK:
            pack.put_hardlink(sink, name, f"{target.path}/{place_of_target(member).path}".strip("/"), dress)
        else:
            raise refused(f"a {member.kind.value}", member.name)


def _dress(member: Member, target: Target, *, is_owned: bool) -> Dress:
    mode = member.mode & 0o7777 if target.mode is None else target.mode
    return Dress(mode=mode, owner=target.owner if is_owned else (member.uid, member.gid), mtime=max(member.mtime, 0))


def _copy(reader: Reader, sink: Sink, size: int) -> None:
    while data := reader.read(_CHUNK_BYTES):
        sink.write(data)
    pack.put_padding(sink, size)
