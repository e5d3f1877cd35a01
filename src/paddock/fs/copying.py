"""Copy a tree that a box wrote: all of it, as it is, and nothing that it points to.

Nobody writes to the source meanwhile. It is walked beneath its root without following a link; what comes out has no
set-id bits. Content is shared where the file system can do that, and copied elsewhere; holes stay holes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat

from paddock.errors import Unavailable, UserError
from paddock.fs.beneath import open_beneath, opened_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_LISTABLE: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES: Final = 1 << 20
_PATH_BYTES: Final = 4000  # below PATH_MAX: boxes nest directories without end
_PATHS_BYTES: Final = 512 << 20  # of directories, held until all is copied
_PATH_HEAD_BYTES: Final = 100  # what one takes besides its text
_SHARE: Final = 0x40049409  # FICLONE, ioctl_ficlonerange(2)
_ATTRIBUTES: Final = "user."
_NONE: Final = "\0"  # the beginning of no name
_NO_ATTRIBUTES: Final = frozenset({errno.EOPNOTSUPP, errno.ENODATA, errno.EPERM, errno.EACCES})


def copy_tree(source: str, target: str, *, strictly: bool = False) -> None:
    """Make `target`, which must not exist, from the directory `source`. What an error leaves there is the caller's.

    `strictly` no link is followed on the way to `source` either, which is absolute: behind one is another directory.
    """
    try:
        _Copy(source, target, strictly=strictly).run()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            hint = "remove the directories that lie so deep in each other"
            raise UserError(f"{source} has too long a path in it", hint=hint, code="too-deep") from error
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some disk space; nothing was changed" if full else "run `paddock doctor`"
        raise Unavailable(
            f"cannot copy {source}: {error.strerror}", hint=hint, code="disk" if full else "os"
        ) from error


class _Copy:
    def __init__(self, source: str, target: str, *, strictly: bool) -> None:
        self._source, self._target = source, target
        self._strictly = strictly
        self._made: list[str] = []
        self._room_bytes = _PATHS_BYTES

    def run(self) -> None:
        root = self._opened()
        try:
            os.mkdir(self._target, 0o700)
            copy = os.open(self._target, _LISTABLE | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self._all(root, copy)
            finally:
                os.close(copy)
        finally:
            os.close(root)

    def _opened(self) -> int:
        if not self._strictly:
            return os.open(self._source, _LISTABLE | os.O_NOFOLLOW | os.O_CLOEXEC)
        top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_beneath(top, self._source.lstrip("/"), _LISTABLE)
        finally:
            os.close(top)

    def _all(self, root: int, copy: int) -> None:
        entries = Entries(copy)
        waiting = ["."]
        while waiting:
            path = waiting.pop()
            if len(os.fsencode(path)) > _PATH_BYTES:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            self._made.append(path)
            with opened_beneath(root, path, _LISTABLE) as at, opened_beneath(copy, path, _LISTABLE) as to:
                for name in os.listdir(at):
                    if _is_made(entries, at, to, name, path):
                        waiting.append(self._held(f"{path}/{name}"))
        for path in reversed(self._made):  # last: a directory may be closed, and what is put into it sets its times
            with opened_beneath(root, path, _LISTABLE) as at, opened_beneath(copy, path, _LISTABLE) as to:
                copy_facts(at, to, os.fstat(at))

    def _held(self, path: str) -> str:
        """A box makes a million of the longest there can be, and our memory is not its own."""
        self._room_bytes -= len(path) + _PATH_HEAD_BYTES
        if self._room_bytes < 0:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return path


class Entries:
    """Copies what is no directory, one by one, into a tree; a file of several names stays one.

    The tree is known by a descriptor: it may lie where a box can put a link in its place, and what that leads to would
    get one more name.
    """

    def __init__(self, root: int, *, without: str = _NONE) -> None:
        self._root = root  # the caller's
        self._without = without  # as copy_facts has it
        self._links: dict[tuple[int, int], str] = {}  # files of more than one name, and the one that is there

    def copy(self, at: int, to: int, name: str, path: str, status: os.stat_result) -> None:
        """From one open directory to another, which is that of `path` in the tree."""
        match stat.S_IFMT(status.st_mode):
            case stat.S_IFREG:
                self._file(at, to, name, path, status)
            case stat.S_IFLNK:
                os.symlink(os.readlink(name, dir_fd=at), name, dir_fd=to)
                _own(to, name, status)
            case stat.S_IFIFO:
                os.mkfifo(name, status.st_mode & 0o777, dir_fd=to)
                _own(to, name, status)
            case stat.S_IFCHR if status.st_rdev == 0:  # what an overlay hides a file with
                os.mknod(name, stat.S_IFCHR, 0, dir_fd=to)
                _own(to, name, status)
            case _:
                pass  # a socket means nothing without its process, and boxes make no devices

    def _file(self, at: int, to: int, name: str, path: str, status: os.stat_result) -> None:
        known = self._links.get((status.st_dev, status.st_ino))
        if known is not None:
            above, _, last = known.rpartition("/")
            with opened_beneath(self._root, above or ".", _LISTABLE) as there:
                os.link(last, name, src_dir_fd=there, dst_dir_fd=to, follow_symlinks=False)
            return
        with opened_beneath(at, name, os.O_RDONLY) as source:
            copy = os.open(name, _NEW, 0o600, dir_fd=to)
            try:
                _content(source, copy, status.st_size)
                copy_facts(source, copy, status, without=self._without)
            finally:
                os.close(copy)
        if status.st_nlink > 1:
            self._links[status.st_dev, status.st_ino] = path


def _is_made(entries: Entries, at: int, to: int, name: str, path: str) -> bool:
    """Whether it is a directory, which is made and waits for what is in it."""
    status = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        os.mkdir(name, 0o700, dir_fd=to)
        return True
    entries.copy(at, to, name, f"{path}/{name}", status)
    return False


def _content(source: int, copy: int, size: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(copy, _SHARE, source)
        return
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # a hole to the end
        end = os.lseek(source, begin, os.SEEK_HOLE)
        os.lseek(source, begin, os.SEEK_SET)
        os.lseek(copy, begin, os.SEEK_SET)
        while begin < end:
            begin += os.sendfile(copy, source, None, min(_PIECE_BYTES, end - begin)) or end
    os.ftruncate(copy, size)


def copy_facts(source: int, copy: int, status: os.stat_result, *, without: str = _NONE) -> None:
    """Its marks, owner, permissions and times; in this order, because each may undo the one before.

    Marks that begin with `without` are left out.
    """
    for name in _names(source):
        if name.startswith(_ATTRIBUTES) and not name.startswith(without):
            os.setxattr(copy, name, os.getxattr(source, name))
    made = os.fstat(copy)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(copy, status.st_uid, status.st_gid)
    os.fchmod(copy, status.st_mode & 0o1777)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _names(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTES:
            return []
        raise


def _own(at: int, name: str, status: os.stat_result) -> None:
    made = os.stat(name, dir_fd=at, follow_symlinks=False)
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        os.chown(name, status.st_uid, status.st_gid, dir_fd=at, follow_symlinks=False)
    os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=at, follow_symlinks=False)
