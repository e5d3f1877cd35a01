"""The file verbs of init: read, write, list, stat, make, move, remove, watch.

They run with the box's own rights and see what its commands see; nothing here has to defend against links.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from paddock.engines.guest.wire import DATA_BYTES, FILE, HIGH_BYTES, MESSAGE_BYTES, READABLE, Refused, frame, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.engines.guest.wire import Connection, Request


LIST_BATCH = 256
_OFFSET_MAX = (1 << 62) - 1
ENTRIES_MAX = 1_000_000
_ENTRY_BYTES = 256  # what an entry takes in a message beside its names; a character of these takes up to six
_OPEN = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # neither a FIFO nor a terminal may take hold of init
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """inotify on one directory, or on a tree, as a stream of change messages."""

    _EVENTS = ((0x2, "write"), (0x4, "chmod"), (0x40, "rename"), (0x80, "rename"), (0x100, "create"), (0x200, "remove"))
    _ISDIR, _CREATE = 0x40000000, 0x100

    def __init__(self, client: Connection, path: str, *, recursive: bool) -> None:
        self._client = client
        self._recursive = recursive
        self._paths: dict[int, str] = {}
        self._lost = False
        self._fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise Refused("io", "no inotify instance is left in this box", ctypes.get_errno())
        try:
            self._add(path)
        except BaseException:
            os.close(self._fd)
            raise
        client.init.loop.want(self._fd, READABLE, self._ready)

    def close(self) -> None:
        self._client.init.loop.forget(self._fd)
        os.close(self._fd)

    def _add(self, path: str) -> None:
        pending = self._add_one(path)
        while pending:
            try:
                pending += self._add_one(pending.pop())
            except OSError as error:
                if error.errno == errno.ENOSPC:  # no watch is left: say so rather than miss changes
                    raise

    def _add_one(self, path: str) -> list[str]:
        """Watch one directory; returns those in it that are to be watched too."""
        mask = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x01000000 | 0x02000000  # …|ONLYDIR|DONT_FOLLOW
        number = _libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if number < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._paths[number] = path
        if not self._recursive:
            return []
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]

    def _ready(self, _events: int) -> None:
        data = os.read(self._fd, DATA_BYTES)
        offset = 0
        while offset < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, offset)
            name = data[offset + 16 : offset + 16 + length].rstrip(b"\0")
            offset += 16 + length
            self._event(number, mask, os.fsdecode(name))

    def _event(self, number: int, mask: int, name: str) -> None:
        if mask & 0x4000:
            self._overflow()
            return
        base = self._paths.get(number)
        if base is None:
            return
        if mask & 0x8000:
            del self._paths[number]
            return
        path = f"{base}/{name}" if name else base
        if self._recursive and mask & self._ISDIR and mask & (self._CREATE | 0x80):
            try:
                self._add(path)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    self._overflow()  # otherwise it is gone again already
        for bit, word in self._EVENTS:
            if mask & bit:
                self._tell({"event": "change", "kind": word, "path": _text(path)})
                return

    def _tell(self, change: Request) -> None:
        if self._client.pending <= HIGH_BYTES:
            self._lost = False
            self._client.send(message(change))
        elif not self._lost:  # a client that does not read loses events rather than our memory, and is told so once
            self._lost = True
            self._overflow()

    def _overflow(self) -> None:
        self._client.send(message({"event": "overflow"}))


def _raw(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise Refused("bad-path", "a path must be absolute")
    return path


def _path(request: Request) -> str:
    return _raw(str(request["path"]))


def _text(path: str) -> str:
    """Names that are not UTF-8 travel as surrogate escapes; JSON carries them as \\udcXX."""
    return path


_KINDS = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "symlink"))


def _attributes(path: str, found: os.stat_result) -> Request:
    kind = next((word for test, word in _KINDS if test(found.st_mode)), "other")
    entry: Request = {
        "path": _text(path),
        "kind": kind,
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "mtime": found.st_mtime,
        "uid": found.st_uid,
        "gid": found.st_gid,
    }
    if kind == "symlink":
        entry["link"] = _text(os.readlink(path))
    return entry


def _entry(path: str, *, follow: bool) -> Request:
    return _attributes(path, os.stat(path, follow_symlinks=follow))


def _read_frames(fd: int, offset: int, length: int | None) -> Iterator[bytes]:
    try:
        yield b""  # from here on, dropping the generator closes the file
        left = length if length is not None else 1 << 62
        while left > 0:
            data = os.pread(fd, min(DATA_BYTES, left), offset)
            if not data:
                break
            offset += len(data)
            left -= len(data)
            yield frame(FILE, data)
        yield frame(FILE, b"")
    finally:
        os.close(fd)


def _list_frames(path: str, depth: int) -> Iterator[bytes]:
    batch: list[Request] = []
    pending = [(path, depth)]
    total = size = 0
    while pending:
        directory, left = pending.pop()
        try:
            if total >= ENTRIES_MAX:
                raise OSError(errno.E2BIG, f"more than {ENTRIES_MAX} entries")
            with os.scandir(directory) as entries:
                names = sorted(entries, key=_name)
        except OSError as error:
            if directory == path:
                raise
            yield _unread(directory, error)
            continue
        below = []
        for entry in names:
            total += 1
            try:
                found = _entry(entry.path, follow=False)
            except FileNotFoundError:
                continue  # gone meanwhile
            except OSError as error:
                yield _unread(entry.path, error)
                continue
            if left > 1 and entry.is_dir(follow_symlinks=False):
                below.append((entry.path, left - 1))
            cost = _ENTRY_BYTES + 6 * (len(entry.path) + len(found.get("link", "")))
            if len(batch) >= LIST_BATCH or size + cost > MESSAGE_BYTES // 2:
                yield message({"event": "entries", "entries": batch})
                batch, size = [], 0
            batch.append(found)
            size += cost
        pending += reversed(below)
    yield message({"event": "entries", "entries": batch})
    yield message({"event": "done"})


def _unread(path: str, error: OSError) -> bytes:
    """Said beside the entries: who copies a tree must know that something is missing."""
    return message({"event": "entries", "entries": [], "unread": [_text(path), error.strerror]})


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _remove_frames(path: str, *, recursive: bool) -> Iterator[bytes]:
    """Removes in slices, so that a huge tree does not stop the box's other work."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif not recursive:
        os.rmdir(path)
    else:
        for count, _ in enumerate(_empty(path)):
            if count % 1024 == 1023:
                yield b""
        os.rmdir(path)
    yield message({"event": "done"})


def _empty(path: str) -> Iterator[None]:
    """Removes what is in a directory, a name at a time, with one descriptor and no long paths however deep it is."""
    here = os.open(path, _DIRECTORY)
    try:
        stack = [("", _identity(here), _children(here))]
        while True:
            name, _, children = stack[-1]
            if children:
                child, is_dir = children.pop()
                if is_dir:
                    here = _step(here, child)
                    stack.append((child, _identity(here), _children(here)))
                else:
                    os.unlink(child, dir_fd=here)
            elif len(stack) > 1:
                stack.pop()
                here = _step(here, "..")
                if _identity(here) != stack[-1][1]:
                    raise OSError(errno.EBUSY, "the tree was moved while it was removed")
                os.rmdir(name, dir_fd=here)
            else:
                return
            yield
    finally:
        os.close(here)


def _step(here: int, name: str) -> int:
    there = os.open(name, _DIRECTORY, dir_fd=here)
    os.close(here)
    return there


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _children(fd: int) -> list[tuple[str, bool]]:
    with os.scandir(fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _stat(client: Connection, request: Request) -> None:
    client.send(message({"event": "entry", "entry": _entry(_path(request), follow=bool(request.get("follow")))}))


def _read(client: Connection, request: Request) -> None:
    offset, length = int(request.get("offset", 0)), request.get("length")
    if not 0 <= offset <= _OFFSET_MAX or (length is not None and not 0 <= int(length) <= _OFFSET_MAX):
        raise Refused("bad-range", "offset and length are out of range")
    fd = os.open(_path(request), os.O_RDONLY | _OPEN)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise Refused("not-a-file", "not a regular file")
    client.source = _read_frames(fd, offset, None if length is None else int(length))
    next(client.source)
    client.send(message({"event": "entry", "entry": _attributes(_path(request), found)}))


def _write(client: Connection, request: Request) -> None:
    path = _path(request)
    if request.get("parents"):
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | _OPEN
    flags |= os.O_APPEND if request.get("append") else 0
    flags |= os.O_EXCL if request.get("exclusive") else 0
    fd = os.open(path, flags, int(request.get("mode", 0o644)) & 0o777)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused("not-a-file", "not a regular file")
    if not request.get("append"):
        os.ftruncate(fd, 0)
    client.sink = fd
    client.send(message({"event": "ready"}))


def _list_dir(client: Connection, request: Request) -> None:
    path = _path(request)
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    client.source = _list_frames(path, max(1, int(request.get("depth", 1))))
    client.update()


def _make_dir(client: Connection, request: Request) -> None:
    mode = int(request.get("mode", 0o755)) & 0o777
    if request.get("parents"):
        os.makedirs(_path(request), mode, exist_ok=True)
    else:
        os.mkdir(_path(request), mode)
    client.send(message({"event": "entry", "entry": _entry(_path(request), follow=False)}))


def _symlink(client: Connection, request: Request) -> None:
    os.symlink(str(request["to"]), _path(request))
    client.send(message({"event": "done"}))


def _move(client: Connection, request: Request) -> None:
    os.rename(_path(request), _raw(str(request["to"])))
    client.send(message({"event": "done"}))


def _remove(client: Connection, request: Request) -> None:
    client.source = _remove_frames(_path(request), recursive=bool(request.get("recursive")))
    client.update()


def _watch(client: Connection, request: Request) -> None:
    client.watch = Watch(client, _path(request), recursive=bool(request.get("recursive")))
    client.send(message({"event": "watching"}))


VERBS: dict[str, Callable[[Connection, Request], None]] = {
    "stat": _stat,
    "read": _read,
    "write": _write,
    "list_dir": _list_dir,
    "make_dir": _make_dir,
    "symlink": _symlink,
    "move": _move,
    "remove": _remove,
    "watch": _watch,
}
