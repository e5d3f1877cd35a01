"""Notices what changes below a directory: files written, made, renamed, removed, with other permissions.

Each directory has an inotify watch, which costs nothing until it is asked. What the kernel says waits in its queue, and
when that runs over, or directories were moved about, all is looked through again for what has a newer change time.
That is also how it begins: what changed before there was a watch is found by its time. There may be more directories
than we may watch; those nearest to the top are watched then.

Others write to the tree meanwhile. Every directory is opened beneath the root, without following a link.
"""

from __future__ import annotations

import collections
import ctypes
import os
import re
import struct
import threading
import time
from dataclasses import dataclass

from paddock.fs.beneath import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

# inotify(7): attrib, close_write, moved_from, moved_to, create, delete, delete_self, move_self; only directories
_MASK = 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x01000000
_MOVED_FROM, _ARRIVED, _SELF, _OVERFLOW, _IGNORED, _IS_DIR = 0x40, 0x80 | 0x100, 0x400 | 0x800, 0x4000, 0x8000, 1 << 30
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_READS_MAX = 64  # someone may write faster than we read
_MOVES_MAX = 64  # directories moved between two looks; beyond that all is looked through again
_TICKS_NS = 10_000_000  # inodes are stamped by a clock that lags behind this much
_WALK_S = 5.0
_TEMPORARY = re.compile(r"\.paddock-[0-9a-f]+-\d+$")  # of an apply that is under way
KEPT = 256  # names that are told; of more it is told that there are more


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    paths: tuple[str, ...] = ()
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.paths) or self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a walk found: what changed since a time, and what belongs to somebody else."""

    altered: Altered
    foreign: tuple[str, ...] = ()


class Tree:
    """`look` at it first, then ask `changed` from time to time. Names in `skipped` are not entered, at any depth."""

    def __init__(self, root: str, *, watches_max: int, skipped: frozenset[str] = frozenset()) -> None:
        self._root = _opened(root)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watches_max = watches_max
        self._skipped = skipped
        self._places: dict[int, str] = {}  # by watch
        self._lock = threading.Lock()
        self._looked_ns = 0
        self.is_whole = False  # whether nothing can change unnoticed

    def __repr__(self) -> str:
        return f"<Tree {len(self._places)} directories watched{'' if self.is_whole else ', not all'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            for fd in (self._fd, self._root):
                if fd >= 0:
                    os.close(fd)
            self._fd = self._root = -1
            self.is_whole = False

    def look(self, since_ns: int, ids: tuple[int, int] | None = None) -> Look:
        """Watch everything, and find what changed since then and what belongs to others than these ids."""
        with self._lock:
            self._looked_ns = _now_ns()
            return self._walk(since_ns, ids)

    def changed(self) -> Altered:
        """What changed since this was last asked."""
        with self._lock:
            since_ns, self._looked_ns = self._looked_ns, _now_ns()
            found = self._drain()
            return found if found is not None else self._walk(since_ns - _TICKS_NS, None).altered

    # -- events --------------------------------------------------------------------------------------------------------

    def _drain(self) -> Altered | None:
        """None if what happened is not known."""
        found = _Names()
        arrived: dict[str, None] = {}
        moves = 0
        for wd, mask, name in self._events():
            place = self._places.get(wd)
            if mask & _OVERFLOW or (mask & _SELF and place == ""):
                return None
            if mask & _IGNORED:
                self._places.pop(wd, None)
            if place is None or name in self._skipped or _TEMPORARY.match(name):
                continue
            path = _joined(place, name)
            found.add(path)
            if mask & _IS_DIR and mask & _MOVED_FROM:
                moves += 1
                self._leave(path)
            elif mask & _IS_DIR and mask & _ARRIVED and name:
                arrived[path] = None
        if moves > _MOVES_MAX:
            return None
        for path in arrived:
            self._enter(path)
        return found.told()

    def _events(self) -> list[tuple[int, int, str]]:
        found = []
        for _ in range(_READS_MAX if self._fd >= 0 else 0):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                wd, mask, _, size = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                found.append((wd, mask, os.fsdecode(data[at : at + size].rstrip(b"\0"))))
                at += size
        return found

    def _leave(self, place: str) -> None:
        """A directory went elsewhere with all that is in it; if that is here, it is watched there anew."""
        below = f"{place}/"
        for wd in [wd for wd, path in self._places.items() if path == place or path.startswith(below)]:
            self._libc.inotify_rm_watch(self._fd, wd)
            del self._places[wd]

    # -- looking -------------------------------------------------------------------------------------------------------

    def _walk(self, since_ns: int, ids: tuple[int, int] | None) -> Look:
        walk = _Walk(self, since_ns, ids)
        self.is_whole = walk.run("") and self._fd >= 0
        return Look(altered=walk.altered.told(), foreign=walk.foreign.told().paths)

    def _enter(self, place: str) -> None:
        """A directory that came: watched from now on. That it came is told, and stands for all that is in it."""
        self.is_whole = _Walk(self, _now_ns(), None).run(place) and self.is_whole

    def open(self, place: str) -> int:
        return open_beneath(self._root, place or ".", os.O_RDONLY | os.O_DIRECTORY, one_mount=True)

    def watch(self, fd: int, place: str) -> bool:
        if self._fd < 0 or len(self._places) >= self._watches_max:
            return False
        wd = self._libc.inotify_add_watch(self._fd, os.fsencode(f"/proc/self/fd/{fd}"), _MASK)
        if wd >= 0:
            self._places[wd] = place
        return bool(wd >= 0)

    def enters(self, name: str) -> bool:
        return name not in self._skipped


class _Walk:
    def __init__(self, tree: Tree, since_ns: int, ids: tuple[int, int] | None) -> None:
        self._tree = tree
        self._since_ns = since_ns
        self._ids = ids
        self._deadline = time.monotonic() + _WALK_S
        self.altered = _Names()
        self.foreign = _Names()

    def run(self, place: str) -> bool:
        """Whether everything below is watched now."""
        waiting = collections.deque([place])
        while waiting:
            if time.monotonic() > self._deadline:
                return False
            if not self._directory(waiting.popleft(), waiting):
                return False
        return True

    def _directory(self, place: str, waiting: collections.deque[str]) -> bool:
        try:
            fd = self._tree.open(place)
        except OSError:  # gone, closed to us, or something is mounted there
            return True
        try:
            is_watched = self._tree.watch(fd, place)  # before we look: what changes afterwards makes an event
            self._compare(place, os.fstat(fd))
            with os.scandir(fd) as entries:
                for entry in entries:
                    path = _joined(place, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [path] if self._tree.enters(entry.name) else []
                    elif not _TEMPORARY.match(entry.name):
                        self._compare(path, entry.stat(follow_symlinks=False))
        except OSError:  # it went while we looked, and that makes an event
            return True
        finally:
            os.close(fd)
        return is_watched

    def _compare(self, path: str, status: os.stat_result) -> None:
        if status.st_ctime_ns >= self._since_ns:
            self.altered.add(path)
        if self._ids and (status.st_uid, status.st_gid) != self._ids:
            self.foreign.add(path)


class _Names:
    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._more = False

    def add(self, path: str) -> None:
        if len(self._names) < KEPT or path in self._names:
            self._names[path or "."] = None
        else:
            self._more = True

    def told(self) -> Altered:
        return Altered(paths=tuple(self._names), more=self._more)


def _opened(path: str) -> int:
    """By its real path: others may write to directories above it."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(top, path.strip("/") or ".", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(top)


def watches_max(most: int) -> int:
    """How many directories we may watch: editors of the same user want their share."""
    try:
        with open("/proc/sys/fs/inotify/max_user_watches", encoding="ascii") as file:
            return min(most, int(file.read()) // 4)
    except (OSError, ValueError):
        return most


def _joined(place: str, name: str) -> str:
    return f"{place}/{name}" if place and name else place or name


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME)
