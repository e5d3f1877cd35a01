"""The store of layers: directories that never change, shared by templates, checkpoints and boxes.

    sha256/HEX/{record,tree}    unpacked from an archive; HEX is the sum of that archive, uncompressed
    squashed/HEX/{record,tree}  the same where all files have one owner (ownership.py): another tree of the same archive
    mapped/HEX/{record,tree}    the same where the caller stands for another than root; HEX is the sum of both
    frozen/HEX/{record,tree}    what was a box's upper directory; HEX is random, since a sum would take as long as it is
                                large, and a checkpoint takes none

A layer appears by one rename: of the whole directory, on disk before, or of an upper to its name `tree`. Whatever dies
before that leaves the store as it was. Nobody counts references: what the rows of the database name, and what a living
process leases, stays; the rest can be pruned.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NewType

from paddock import codec, fs
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images import archive, tree
from paddock.images.leases import Lease, leased
from paddock.images.streams import Hashed
from paddock.images.tar import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from paddock.images.ownership import Ownership
    from paddock.images.streams import Source

LayerId = NewType("LayerId", str)
_ID: Final = re.compile(r"(?:sha256|squashed|mapped):[0-9a-f]{64}|frozen:[0-9a-f]{32}")
_KINDS: Final = ("sha256", "squashed", "mapped", "frozen")
_FROZEN: Final = "frozen:"
_RECORD_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a layer without looking through it."""

    id: LayerId
    created_at: str
    ids: int  # of how many owners it has files; 0 if all are one (ownership.py)
    entries: int = 0  # of a frozen one nothing is counted
    size_bytes: int = 0
    tree_digest: str = ""


class Verdict(enum.Enum):
    SOUND = "sound"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"  # a frozen layer has no sum


class Layers:
    def __init__(self, root: str) -> None:
        """`root` is made if it is missing, private to the user."""
        self.root = root
        self._leases, self._staging, self._trash = (f"{root}/{name}" for name in ("leases", "staging", "trash"))
        for name in (*_KINDS, "leases", "staging", "trash"):
            fs.make_private_dir(f"{root}/{name}")

    def __repr__(self) -> str:
        return f"<Layers {self.root}>"

    # -- looking -------------------------------------------------------------------------------------------------------

    def tree(self, layer: LayerId) -> str:
        """The directory to mount; Unavailable if there is no such layer."""
        path = f"{self._place(layer)}/tree"
        if fs.is_missing(path):
            raise _missing(layer)
        return path

    def has(self, layer: LayerId) -> bool:
        return not fs.is_missing(f"{self._place(layer)}/tree")

    def record(self, layer: LayerId) -> Record:
        try:
            with open(f"{self._place(layer)}/record", "rb") as file:
                found = codec.from_wire(Record, json.loads(file.read(_RECORD_BYTES)))
        except FileNotFoundError:
            raise _missing(layer) from None
        except (OSError, ValueError, PaddockError) as error:
            raise Unavailable(f"the record of layer {layer} is damaged: {error}", code="layer") from error
        if found.id != layer:
            raise Unavailable(f"the record of layer {layer} is that of {found.id}", code="layer")
        return found

    def whole(self) -> list[LayerId]:
        """Every layer that is whole."""
        return [layer for layer in self._places() if self.has(layer)]

    def verify(self, layer: LayerId) -> Verdict:
        """Read all of a layer again and compare it with what was unpacked."""
        wanted = self.record(layer).tree_digest
        if not wanted:
            return Verdict.UNKNOWN
        with _translated(layer), fs.opened_directory(self.tree(layer)) as fd:
            return Verdict.SOUND if tree.digest(fd) == wanted else Verdict.DAMAGED

    # -- adding --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lease(self) -> Iterator[Lease]:
        """What is added or kept under it stays at least as long."""
        with self._locked(), _translated(""):
            lease = Lease(self._leases, self._staging)
        try:
            yield lease
        finally:
            lease.close()

    def keep(self, lease: Lease, layer: LayerId) -> bool:
        """Whether there is such a layer, which then stays while the lease lasts."""
        with self._locked(), _translated(layer):
            if not self.has(layer):
                return False
            lease.add(layer)
            return True

    def require(self, lease: Lease, chain: Iterable[str]) -> None:
        """The same of all that a chain is made of; Unavailable if one of them is gone."""
        for layer in map(LayerId, chain):
            if not self.keep(lease, layer):
                raise _missing(layer)

    def add(self, lease: Lease, source: Source, ownership: Ownership, expected: str = "") -> Record:
        """Unpack an uncompressed layer and publish it; refused if its sum is not the `expected` one."""
        staged = f"{lease.staging}/{os.urandom(8).hex()}"
        hashed = Hashed(source)
        with _translated(expected):
            os.mkdir(staged, 0o700)
            os.mkdir(f"{staged}/tree", 0o700)
            with fs.opened_directory(f"{staged}/tree") as fd:
                unpacked = archive.unpack(hashed, fd, ownership)
                if expected and hashed.digest != expected:
                    raise refused(f"a layer has the sum {hashed.digest}, and should have {expected}")
                record = Record(
                    id=layer_of(hashed.digest, ownership),
                    created_at=_now(),
                    ids=ownership.ids,
                    entries=unpacked.entries,
                    size_bytes=unpacked.size_bytes,
                    tree_digest=tree.digest(fd),
                )
                _write_record(staged, record)
                fs.sync_file_systems([fd])  # the rename must not be on disk before what it publishes
        return self._publish(lease, staged, record)

    def _publish(self, lease: Lease, staged: str, record: Record) -> Record:
        place = self._place(record.id)
        with self._locked(), _translated(record.id):
            lease.add(record.id)
            with contextlib.suppress(FileExistsError):  # somebody was faster, with the same bytes
                _rename_new(staged, place)
            fs.sync_directory(os.path.dirname(place))
        return self.record(record.id)

    def freeze(
        self, lease: Lease, upper: str, layer: LayerId, ids: int, move: Callable[[str, str], None] | None = None
    ) -> Record:
        """Make an upper directory a layer, in the time of a rename; no process may have it mounted or open.

        The caller chose the id by `new_frozen_id` and wrote it down: after a crash either `upper` is where it was and
        there is no such layer, or the layer is there, whole.
        """
        if not is_frozen(layer):
            raise UserError(f"{layer} is no name for a frozen layer", code="layer")
        record = Record(id=layer, created_at=_now(), ids=ids)
        staged = f"{lease.staging}/{os.urandom(8).hex()}"
        place = self._place(layer)
        with _translated(layer):
            os.mkdir(staged, 0o700)
            _write_record(staged, record)
            with self._locked():
                lease.add(layer)
                _rename_new(staged, place)
            fs.sync_directory(os.path.dirname(place))
            try:
                (move or rename_tree)(upper, f"{place}/tree")
            except BaseException:
                if not self.has(layer):  # who moves it may have done so and failed then: it is all that the box did
                    fs.remove_tree(place)  # so that the name is free again
                raise
            fs.sync_directory(place)
            fs.sync_directory(os.path.dirname(upper))
        return record

    def thaw(self, layer: LayerId, upper: str, move: Callable[[str, str], None] | None = None) -> None:
        """Undo a freeze of which nobody was told."""
        place = self._place(layer)
        with _translated(layer):
            (move or rename_tree)(f"{place}/tree", upper)
            fs.sync_directory(os.path.dirname(upper))  # before anybody forgets that there was such a layer
            fs.sync_directory(place)
            fs.remove_tree(place)

    # -- removing ------------------------------------------------------------------------------------------------------

    def prune(self, references: Callable[[], Collection[str]]) -> list[LayerId]:
        """Remove what nobody uses. `references` is asked with the store locked: what it names then stays."""
        gone = self.discard(references)
        self.sweep()
        return gone

    def discard(self, references: Callable[[], Collection[str]]) -> list[LayerId]:
        """Move what nobody uses out of the way, which takes a moment; the files are still there."""
        with self._locked():
            stays = leased(self._leases, self._staging, self._trash) | {*references()}
            gone = [layer for layer in self._places() if layer not in stays]
            for layer in gone:
                fs.discard_tree(self._place(layer), self._trash)
        return gone

    def sweep(self, remove: Callable[[str], None] = fs.remove_tree) -> None:
        """Remove what was discarded, also what a crash left."""
        for name in os.listdir(self._trash):
            remove(f"{self._trash}/{name}")

    # -- places --------------------------------------------------------------------------------------------------------

    def _place(self, layer: LayerId) -> str:
        if not _ID.fullmatch(layer):
            raise UserError(f"{layer[:80]!r} is no layer", code="layer")
        kind, _, name = layer.partition(":")
        return f"{self.root}/{kind}/{name}"

    def _places(self) -> list[LayerId]:
        """Every layer by its name, whole or not."""
        names = (f"{kind}:{name}" for kind in _KINDS for name in sorted(os.listdir(f"{self.root}/{kind}")))
        return [LayerId(name) for name in names if _ID.fullmatch(name)]

    def _locked(self) -> fs.FileLock:
        return fs.FileLock(f"{self.root}/lock")


def layer_of(digest: str, ownership: Ownership) -> LayerId:
    """The layer that an archive of this sum becomes."""
    if ownership.is_squashed:
        return LayerId(digest.replace("sha256:", "squashed:", 1))
    if ownership.uid or ownership.gid:
        both = f"{digest} {ownership.uid}:{ownership.gid}".encode()
        return LayerId(f"mapped:{hashlib.sha256(both).hexdigest()}")
    return LayerId(digest)


def new_frozen_id() -> LayerId:
    return LayerId(f"{_FROZEN}{os.urandom(16).hex()}")


def is_frozen(layer: str) -> bool:
    """Whether it was the upper directory of a box, and no archive."""
    return layer.startswith(_FROZEN)


def _write_record(directory: str, record: Record) -> None:
    fs.write_atomic(f"{directory}/record", json.dumps(codec.to_wire(record)).encode())


def _rename_new(old: str, new: str) -> None:
    with fs.opened_directory(os.path.dirname(old)) as old_dir, fs.opened_directory(os.path.dirname(new)) as new_dir:
        fs.rename_new(old_dir, os.path.basename(old), new_dir, os.path.basename(new))


def rename_tree(old: str, new: str) -> None:
    """Give a directory another parent, for which it must be writable: a box may have closed the root of its upper."""
    try:
        os.rename(old, new)
    except PermissionError:
        with fs.opened_directory(old) as fd:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            os.fchmod(fd, mode | stat.S_IRWXU)
            os.rename(old, new)
            os.fchmod(fd, mode)


@contextlib.contextmanager
def _translated(layer: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "free some space and try again" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
        message = f"{f'the layer {layer}' if layer else 'a layer'} cannot be kept or read: {error.strerror}"
        raise Unavailable(message, hint=hint, code="layer") from error


def _missing(layer: LayerId) -> Unavailable:
    return Unavailable(f"there is no layer {layer}", hint="build or load the template again", code="no-layer")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
