"""Whether a file of the workspace is still what the box started from.

Theory. An overlay copies a file up when it is first written, so the upper layer holds the new content and nothing of
the old. Recording 50,000 files when a box opens would cost more than the box. But the kernel keeps a record for us: the
change time of an inode is set by every write, chmod, link and rename, and no call sets it back. So a file whose change
time lies before the moment the overlay was mounted is what the box saw, and any other is in doubt, and doubt is a
conflict: also when the box copied the file up after the host's edit, because its agent may have read it before.

Each mount begins an epoch, and so does each command that begins after we told that the workspace changed, if nothing
ran in the box then: whatever runs later can only have seen what was there at that moment. Entries that lie in the upper
by then belong to an earlier epoch and stay there: `held`. One that stands for a whole tree holds all that is in it.

What we put into the workspace ourselves is `pinned`: the box had it first. A pin is needed until the next epoch, and
longer only for what the box has changed again since.

The comparison is worth as much as the clock. A clock that was set back, or the clock of another machine (network file
systems, FUSE), proves nothing: then every file is in doubt. Two clocks are compared to notice the former: nobody sets
CLOCK_BOOTTIME. Times are of the coarse clock that the kernel stamps inodes with, so that nothing written after the
reading has an earlier stamp; what was written within two ticks (8 ms) before it is in doubt too.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace

from paddock import codec
from paddock.errors import Unavailable, UserError
from paddock.fs import file_system, write_atomic
from paddock.limits import HISTORY_BYTES, REVIEW_PATH_BYTES, REVIEW_PINS_MAX
from paddock.workspace import overlay
from paddock.workspace.entries import Entry, Seen, look, open_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_FILE = "history.json"
_COARSE = 5  # CLOCK_REALTIME_COARSE, which the time module does not name
_SLEW_NS = 2_000_000_000  # a clock that is disciplined drifts a little against the other; one set back jumps
_TICK_S = 0.001
# File systems whose inodes this kernel stamps with its own clock. The others are in doubt.
_LOCAL = frozenset({
    "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "tmpfs", "ramfs", "zfs", "jfs", "reiserfs", "nilfs2",
    "overlay", "exfat", "vfat", "ntfs3", "hfsplus", "udf", "erofs",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A moment at which the overlay was mounted, by both clocks."""

    wall_ns: int
    boot_ns: int
    boot_id: str
    local: bool  # whether the workspace's inodes are stamped with our clock


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    epochs: tuple[Epoch, ...] = ()
    held: dict[str, str]  # path of the upper -> number of its epoch; all others belong to the last
    pinned: dict[str, str]  # path -> the stamp of an entry that we know to be what the box started from

    def doubt(self, path: str, old: Seen, now: Epoch) -> str:
        """Why the workspace's entry may not be what the box started from; empty if it is."""
        if old.entry in {Entry.NOTHING, Entry.DIR}:
            return ""  # names are compared when they are taken, and a directory is what is in it
        if self.pinned.get(path) == _stamp(old):
            return ""
        epoch = self._epoch(path)
        if epoch is None:
            return "it is not known when the box was opened"
        if not epoch.local:
            return "its file system does not tell our time, so it may have changed since the box was opened"
        if _set_back(epoch, now):
            return "the clock was set back since the box was opened"
        if old.ctime_ns >= epoch.wall_ns:
            return "it changed on the host since the box was opened"
        return ""

    def _epoch(self, path: str) -> Epoch | None:
        return self.epochs[self.number(path)] if self.epochs else None

    def number(self, path: str) -> int:
        """The epoch that an entry of the upper belongs to: that of what it lies in, if it is older."""
        return min(
            (int(self.held[place]) for place in _lineage(path) if place in self.held), default=len(self.epochs) - 1
        )


def load(directory: str) -> History:
    try:
        with open(os.path.join(directory, _FILE), "rb") as file:
            return codec.from_wire(History, json.load(file))
    except FileNotFoundError:
        return History(held={}, pinned={})
    except (ValueError, UserError):
        return History(held={}, pinned={})  # cut off by a crash of the machine: all is in doubt
    except OSError as error:
        raise Unavailable(f"cannot read {_FILE} of the box: {error.strerror}", code="review-state") from error


def begin(directory: str, upper: int, base: int, at: Epoch | None = None) -> None:
    """Begin an epoch: to be called right before the overlay is mounted, each time.

    A box that runs begins one `at` the moment before it looked again, if no process was in it right after that.
    """
    epoch = at or now(base)
    before = load(directory)
    if not before.epochs:  # nothing is known of entries that are there already, so they began before all time
        before = replace(before, epochs=(replace(epoch, wall_ns=0),))
    entries = entries_of(upper, base)
    if entries is None:  # too many to tell apart: all of them stay in the first epoch
        _write(directory, replace(before, epochs=before.epochs[:1], held={}))
        return
    held = {path: before.number(path) for path in entries}
    used = sorted(set(held.values()))
    renumbered = {number: str(place) for place, number in enumerate(used)}
    after = History(
        epochs=(*(before.epochs[number] for number in used), epoch),
        held={path: renumbered[number] for path, number in held.items()},
        pinned={},
    )
    _write(directory, replace(after, pinned=_still_needed(before.pinned, after, base)))


def _write(directory: str, history: History) -> None:
    """Not synced, which would cost a start more than all else: a lost history means doubt, never a wrong answer."""
    place = os.path.join(directory, _FILE)
    with open(f"{place}.new", "wb") as file:
        file.write(_text(history))
    os.rename(f"{place}.new", place)


def _still_needed(pinned: dict[str, str], history: History, base: int) -> dict[str, str]:
    """Pins without which what they are about would be in doubt."""
    found = {}
    for path, stamp in pinned.items():
        there = look(base, path)
        if _stamp(there) == stamp and history.doubt(path, there, history.epochs[-1]):
            found[path] = stamp
    return found


def forget(directory: str, paths: Collection[str]) -> None:
    """What the box had at and below these paths was discarded: what it makes there next is of the last epoch."""
    before = load(directory)
    gone = set(paths)
    held = {path: number for path, number in before.held.items() if gone.isdisjoint(("", *_lineage(path)))}
    if held != before.held:
        _save(directory, replace(before, held=held))


def pin(directory: str, known: dict[str, Seen]) -> None:
    """Remember entries of the workspace that we put there ourselves in place of what a box had started from."""
    before = load(directory)
    stamps = {path: _stamp(entry) for path, entry in known.items() if entry.entry in {Entry.FILE, Entry.SYMLINK}}
    older = [(path, stamp) for path, stamp in before.pinned.items() if path not in stamps]
    newest: dict[str, str] = {}
    left_bytes = HISTORY_BYTES
    for path, stamp in reversed([*older, *stamps.items()][-REVIEW_PINS_MAX:]):
        left_bytes -= len(path)
        if left_bytes < 0:
            break
        newest[path] = stamp
    # Without its pin a file is in doubt, no more.
    _save(directory, replace(before, pinned=dict(reversed(newest.items()))))


def _save(directory: str, history: History) -> None:
    write_atomic(os.path.join(directory, _FILE), _text(history))


def _text(history: History) -> bytes:
    return json.dumps(codec.to_wire(history)).encode("ascii")


def _stamp(entry: Seen) -> str:
    return f"{entry.inode}:{entry.size}:{entry.mtime_ns}:{entry.ctime_ns}"


def now(base: int) -> Epoch:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return Epoch(
        wall_ns=coarse_ns(),
        boot_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        boot_id=boot_id,
        local=file_system(base) in _LOCAL,
    )


def coarse_ns() -> int:
    """The time that inodes are stamped with, or a little less."""
    return time.clock_gettime_ns(_COARSE)


def await_tick() -> None:
    """Until the clock that stamps inodes has moved on: what was written before then lies before the next epoch."""
    start = time.clock_gettime_ns(time.CLOCK_REALTIME)  # newer kernels stamp some inodes with the fine clock
    while coarse_ns() <= start:
        time.sleep(_TICK_S)


def entries_of(upper: int, base: int) -> list[str] | None:
    """The paths of the upper that stand for something else than the workspace has; no directories that are merged.

    What lies in a directory that the workspace does not have, or that hides the workspace's, is not listed: the cost
    follows what the box changed of the project, not what it installed there. None if they are too many: the daemon
    calls this, and a box chooses how many there are and how long each is.
    """
    found: list[str] = []
    waiting = [""]
    left_bytes = HISTORY_BYTES
    while waiting:
        path = waiting.pop()
        left_bytes -= len(path)
        if left_bytes < 0 or len(path) > REVIEW_PATH_BYTES:
            return None
        try:
            at = open_directory(upper, path)
        except OSError:
            found.append(path)  # closed: all that is in it belongs to this epoch
            continue
        try:
            if path and (overlay.is_opaque(at) or look(base, path).entry is not Entry.DIR):
                found.append(path)
                continue
            with os.scandir(at) as entries:
                for entry in entries:
                    place = f"{path}/{entry.name}" if path else entry.name
                    left_bytes -= len(place)
                    if left_bytes < 0:
                        return None
                    (waiting if entry.is_dir(follow_symlinks=False) else found).append(place)
        finally:
            os.close(at)
    return found


def _lineage(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _set_back(epoch: Epoch, now: Epoch) -> bool:
    if epoch.boot_id == now.boot_id:
        return (now.wall_ns - now.boot_ns) - (epoch.wall_ns - epoch.boot_ns) < -_SLEW_NS
    return now.wall_ns < epoch.wall_ns
