"""The directories of a workspace, walked at every start and end of a live box, and what is remembered of them.

Theory. A box can make a repository at any depth, so nothing less than the whole tree will do; but to read the names of
20,000 files costs more than all else in a start. A directory whose change time is what it was when its names were read
has the same names still: the kernel sets it at every link, unlink and rename, from a clock that no box can set, and no
call sets it back (utimensat, which sets the other times, sets this one to now). So of a directory that is known one
stat is enough. Names that were read right after a change may be followed by another change with the same stamp (git
calls such an index racily clean); they are not remembered. Nor is anything on a file system whose stamps are not our
kernel's own or can be lost, and everything is forgotten when the clock was set back.

Only names are remembered. Whoever is interested in a file looks at it each time.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

from paddock import fs, limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Visit = Callable[["Place"], Sequence[str] | None]
    Mark = Callable[[str, list[str]], list[str]]  # of the names in a directory those that somebody wants to see

# They keep a change time of their own on disk; FAT, for one, gives a file's time of writing, which anyone sets.
_STAMPED = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "tmpfs"})
SETTLED_NS = 2_000_000_000  # an ext4 with small inodes counts in seconds
_SLEW_NS = 1_000_000_000  # less than that: a clock set back by less gives no stamp that is remembered
_LISTING_BYTES, _NAME_BYTES = 350, 60  # of a directory, and of each name or path beside its characters
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY


class Listing(NamedTuple):
    """What is known of a directory."""

    stamp: tuple[int, int, int, int]  # of the directory, taken before its names were read
    below: tuple[str, ...]  # the directories in it, as paths relative to the workspace
    marked: tuple[str, ...]  # names
    entries: int  # of any kind
    cost_bytes: int  # to remember it, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory of a walk in which something is marked. `fd` is open as long as it is looked at."""

    path: str  # relative to the workspace; empty for the workspace
    fd: int
    listing: Listing


_Known = dict[str, Listing]


class Memory:
    """Of the workspaces that were walked last. All it holds is true at any time, so any thread may use it."""

    def __init__(self, mark: Mark, *, bytes_max: int = limits.TREE_MEMORY_BYTES, settled_ns: int = SETTLED_NS) -> None:
        self.mark = mark
        self.settled_ns = settled_ns  # how long ago a directory must have changed to be remembered
        self.bytes_max = bytes_max
        self._known: OrderedDict[str, tuple[_Known, int]] = OrderedDict()
        self._lead_ns = _lead_ns()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Memory of {sum(len(known) for known, _ in self._known.values())} directories>"

    def recall(self, workspace: str) -> _Known:
        with self._lock:
            lead_ns = _lead_ns()
            if lead_ns < self._lead_ns - _SLEW_NS:
                self._known.clear()
                self._lead_ns = lead_ns
            self._lead_ns = max(lead_ns, self._lead_ns)
            return self._known[workspace][0] if workspace in self._known else {}

    def keep(self, workspace: str, known: _Known, cost_bytes: int) -> None:
        with self._lock:
            self._known[workspace] = (known, cost_bytes)
            self._known.move_to_end(workspace)
            while sum(cost for _, cost in self._known.values()) > self.bytes_max:
                self._known.popitem(last=False)


class Walk:
    """Every directory below a workspace once, the upper ones first. Links are not followed."""

    def __init__(
        self,
        workspace: str,
        memory: Memory,
        *,
        entries_max: int = limits.NESTED_ENTRIES,
        seconds_max: float = limits.NESTED_S,
    ) -> None:
        self.complete = True  # False: a bound was reached, or a directory is closed to us
        self._workspace = workspace
        self._memory = memory
        self._left = entries_max
        self._deadline = time.monotonic() + seconds_max
        self._known = memory.recall(workspace)
        self._fresh: _Known = {}
        self._fresh_bytes = 0
        self._waiting_chars = 0  # a box chooses how long paths are, and how many
        self._settled_ns = time.time_ns() - memory.settled_ns
        self._device = -1  # of what may be remembered
        self._seen: set[tuple[int, int]] = set()

    def __repr__(self) -> str:
        return f"<Walk of {self._workspace}, {len(self._seen)} directories seen>"

    def run(self, root: int, visit: Visit) -> None:
        """`root` is the workspace, open. `visit` says which directories of a place to enter, or None to end it all."""
        if fs.file_system(root) in _STAMPED:
            self._device = os.fstat(root).st_dev
        waiting = deque([""])
        while waiting:
            path = waiting.popleft()
            self._waiting_chars -= len(path)
            below: Sequence[str] | None = self._unchanged(root, path)
            if below is None:
                below = self._enter(root, path, visit)
            if below is None or self._left < 0 or time.monotonic() > self._deadline:
                self.complete = False
                return
            waiting.extend(below)
            self._waiting_chars += sum(map(len, below))
        self._memory.keep(self._workspace, self._fresh, self._fresh_bytes)

    def _unchanged(self, root: int, path: str) -> tuple[str, ...] | None:
        """What lies below a directory that is as it is known and that nobody needs open; this is what most are."""
        known = self._known.get(path)
        if known is None or known.marked:
            return None
        try:
            # Should a link come into the way at this moment, then this is another inode, or a directory that is known
            # and could as well have been moved here at this moment.
            status = os.stat(path or ".", dir_fd=root, follow_symlinks=False)
        except OSError:
            return None  # the path may only be too long for one call
        if known.stamp != _stamp(status):
            return None
        self._remember(path, known)
        return known.below if self._is_first(known) else ()

    def _enter(self, root: int, path: str, visit: Visit) -> Sequence[str] | None:
        try:
            fd = fs.open_beneath(root, path or ".", _LISTABLE)
        except OSError as error:
            if fs.is_scarcity(error):
                raise
            self.complete &= isinstance(error, (FileNotFoundError, NotADirectoryError))
            return ()
        try:
            listing = self._listing(fd, path)
            if not self._is_first(listing):
                return ()
            return visit(Place(path=path, fd=fd, listing=listing)) if listing.marked else listing.below
        finally:
            os.close(fd)

    def _listing(self, fd: int, path: str) -> Listing:
        status = os.fstat(fd)
        listing = self._known.get(path)
        if listing is None or listing.stamp != _stamp(status):
            listing = self._read(fd, path, _stamp(status))
            if status.st_dev != self._device or status.st_ctime_ns >= self._settled_ns:
                return listing
        self._remember(path, listing)
        return listing

    def _remember(self, path: str, listing: Listing) -> None:
        if self._fresh_bytes <= self._memory.bytes_max:
            self._fresh[path] = listing
            self._fresh_bytes += listing.cost_bytes

    def _read(self, fd: int, path: str, stamp: tuple[int, int, int, int]) -> Listing:
        with os.scandir(fd) as found:
            entries = list(itertools.islice(found, self._left + 1))
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        chars = sum(map(len, names)) + len(names) * (len(path) + 1)
        if self._waiting_chars + chars > limits.NESTED_CHARS:
            self._left = -1
            names, chars = [], 0
        marked = self._memory.mark(path, [entry.name for entry in entries])
        return Listing(
            stamp=stamp,
            below=tuple([f"{path}/{name}" for name in names] if path else names),
            marked=tuple(marked),
            entries=len(entries),
            cost_bytes=_LISTING_BYTES + _NAME_BYTES * (len(names) + len(marked)) + chars + sum(map(len, marked)),
        )

    def _is_first(self, listing: Listing) -> bool:
        """False for a directory that was moved about while we walk, or is mounted twice."""
        identity = listing.stamp[:2]
        if identity in self._seen:
            return False
        self._seen.add(identity)
        self._left -= listing.entries
        return True


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns


def _lead_ns() -> int:
    """How far the clock that stamps files is ahead of one that nobody sets."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
