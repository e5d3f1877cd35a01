"""What a COPY or a WORKDIR needs to know of the root below it, and what a RUN's root must be rid of.

Runs with the ids of boxes (apart.py), by which files of the layers are whose the image says. No link is followed on
the host.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import stat
from typing import TYPE_CHECKING, Final

from paddock import codec, fs
from paddock.engines.guest import accounts
from paddock.engines.process import mounting
from paddock.errors import Unavailable, UserError
from paddock.images import lookup, marks, pack
from paddock.images.context import Context, Target
from paddock.images.dockerignore import Dockerignore
from paddock.images.instructions import Copy
from paddock.images.ownership import IDS, Ownership
from paddock.images.pack import Dress
from paddock.images.sources import Layered
from paddock.images.streams import write_all
from paddock.limits import BUILD_COPY_BYTES, BUILD_COPY_ENTRIES, DISK_FLOOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Where a box has something of ours mounted: below that there are only the places for it (engines/container/root.py).
_STUBS: Final = ("dev", "proc", "sys", "run", "etc/resolv.conf", "etc/hosts", mounting.EMPTY_FILE, mounting.EMPTY_DIR)
_NOT_OURS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # a command put something else there
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY
_DIRECTORY_MODE: Final = 0o755
_LOOK_BYTES: Final = 16 << 20  # between two looks at how much space is left


class Roomy:
    """Writes to a file, by `write` if it is given, as long as the host has the space that it needs itself."""

    def __init__(self, fd: int, write: Callable[[bytes], object] | None = None) -> None:
        self._fd = fd
        self._write = write or functools.partial(write_all, fd)
        self._bytes = self._checked = 0

    def write(self, data: bytes, /) -> None:
        self._bytes += len(data)
        if self._bytes > self._checked:
            self._checked = self._bytes + _LOOK_BYTES
            self._require_room()
        self._write(data)

    def _require_room(self) -> None:
        """A hole of a workspace takes no space there; here it would."""
        status = os.fstatvfs(self._fd)
        if status.f_bavail * status.f_frsize < DISK_FLOOR_BYTES + _LOOK_BYTES:
            raise Unavailable("no space left for what is copied", hint="free some space, then again", code="disk")


class Sink:
    """Writes an archive to a file, as far as one COPY may go; asks `proceed` now and then, which may raise."""

    def __init__(self, fd: int, proceed: Callable[[], None]) -> None:
        self._file = Roomy(fd)
        self._proceed = proceed
        self._bytes = self._writes = 0

    def write(self, data: bytes, /) -> None:
        self._bytes += len(data)
        self._writes += 1
        if self._bytes > BUILD_COPY_BYTES or self._writes > 4 * BUILD_COPY_ENTRIES:
            hint = "name what is needed, or leave the rest out by .dockerignore"
            raise UserError("it has too many files, or too large ones", hint=hint, code="too-large")
        self._proceed()
        self._file.write(data)


def find(trees: Sequence[str], path: str, chown: str = "") -> Target:
    """Where an absolute path of the root leads, through its own links; UserError for an owner that is nobody."""
    place = lookup.place(trees, path)
    return Target(
        path=place.path,
        is_directory=place.is_directory or path.endswith("/"),
        parents=tuple((name, _dress(status)) for name, status in place.directories),
        owner=_owner(trees, chown) if chown else (0, 0),
    )


def _dress(status: os.stat_result) -> Dress:
    owner = (status.st_uid, status.st_gid)
    return Dress(mode=stat.S_IMODE(status.st_mode), owner=owner, mtime=max(int(status.st_mtime), 0))


def _owner(trees: Sequence[str], words: str) -> tuple[int, int]:
    passwd, group = (lookup.read(trees, path, accounts.FILE_BYTES) for path in ("etc/passwd", "etc/group"))
    try:
        account = accounts.find(words, passwd, group)
    except accounts.Unknown as error:
        raise UserError(f"no files can be of {words[:80]!r}: {error}", code="dockerfile") from error
    is_nobody = account.name.isdigit() and ":" not in words  # a number that is no user is its own group
    return account.uid, account.uid if is_nobody else account.gid


def write_directories(fd: int, target: Target, owner: tuple[int, int]) -> None:
    """The archive of a WORKDIR: what is there stays as it is, what is missing is `owner`'s."""
    sink = Sink(fd, lambda: None)
    there = {path for path, _ in target.parents}
    for path, dress in target.parents:
        pack.put_directory(sink, path, dress)
    names = target.path.split("/") if target.path else []
    for depth in range(1, len(names) + 1):
        path = "/".join(names[:depth])
        if path not in there:
            pack.put_directory(sink, path, Dress(mode=_DIRECTORY_MODE, owner=owner))
    pack.write_end(sink)


def write_copy(trees: Sequence[str], copy: str, target: str, place: str) -> None:
    """The archive of a COPY of another stage, as a new file; `copy` and `target` are JSON."""
    with created(place) as fd:
        taken = codec.from_wire(Copy, json.loads(copy))
        Context(Layered(trees), Dockerignore()).write(taken, read_target(target), Sink(fd, lambda: None))


class _Seen(Ownership):
    """The ids of files as a box has them in which ours stands for another than root."""

    def shown(self, status: os.stat_result) -> tuple[int, int]:
        return _swapped(status.st_uid, self.uid), _swapped(status.st_gid, self.gid)


def _swapped(number: int, owner: int) -> int:
    return {0: owner, owner: 0}.get(number, number)


def write_layer(tree: str, place: str, uid: int, gid: int) -> None:
    """The archive of a layer, as a new file."""
    with created(place) as fd, _opened(tree) as root:
        pack.pack(root, Sink(fd, lambda: None), _Seen(ids=IDS, uid=uid, gid=gid))


@contextlib.contextmanager
def created(place: str) -> Iterator[int]:
    """A new file, to write an archive to."""
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, fs.LISTABLE)
    try:
        yield fd
    finally:
        os.close(fd)


def tidy(upper: str, places: Sequence[str] = ()) -> None:
    """Remove from what a box changed the places that we mounted on: no command of it could reach what is there.

    `places` are those of the user's directories, of which nothing but their names is there.
    """
    with _opened(upper) as root:
        for place in places:
            _remove_empty(root, place.strip("/"))
        for path in _STUBS:
            above, _, name = path.rpartition("/")
            try:
                _remove(root, above, name)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise


def _remove_empty(root: int, path: str) -> None:
    """An empty directory, then those around it that have nothing else; not one that hides what is below it."""
    while path:
        try:
            with fs.opened_beneath(root, path, _DIRECTORY) as fd:
                if marks.is_opaque(fd) or os.listdir(fd):
                    return
            path, _, name = path.rpartition("/")
            with fs.opened_beneath(root, path or ".", _DIRECTORY) as fd:
                os.rmdir(name, dir_fd=fd)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            return


def _remove(root: int, above: str, name: str) -> None:
    with fs.opened_beneath(root, above or ".", _DIRECTORY) as fd:
        if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            fs.remove_tree(f"/proc/self/fd/{fd}/{name}")
        else:
            os.unlink(name, dir_fd=fd)


# -- between two processes ---------------------------------------------------------------------------------------------


def target_text(target: Target) -> str:
    rows = [[path, dress.mode, *dress.owner, dress.mtime] for path, dress in target.parents]
    return json.dumps([target.path, target.is_directory, rows, *target.owner, target.mode])


def read_target(text: str) -> Target:
    path, is_directory, rows, uid, gid, mode = json.loads(text)
    parents = tuple((name, Dress(mode=bits, owner=(user, group), mtime=at)) for name, bits, user, group, at in rows)
    return Target(path=path, is_directory=is_directory, parents=parents, owner=(uid, gid), mode=mode)
