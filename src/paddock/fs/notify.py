"""Notices that a file of ours changed, whatever way its editor writes: in place, by rename, or by making it at last.

The directories are watched, not the files: a file that is replaced takes its watch with it. What an event says is not
believed; it only makes us look. Where inotify is not to be had, or does not speak (a home on a network), the caller
looks from time to time.
"""

from __future__ import annotations

import ctypes
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    Signature = tuple[int, ...] | None

# inotify(7): close_write, attrib, moved_from, moved_to, create, delete; and only directories
_MASK = 0x8 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x01000000
_READ_BYTES = 65536


class Files:
    """`fileno()` turns readable when something happened near the files; `changed()` says which are not as they were."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._seen: dict[str, Signature] = {}
        for path in paths:
            self._seen[path] = signature(path)
        self._attend()

    def __repr__(self) -> str:
        return f"<Files {len(self._seen)} watched{'' if self._fd >= 0 else ' without inotify'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """-1 where there is no inotify."""
        return self._fd

    def is_quiet(self) -> bool:
        """Whether nothing can have changed since we last looked, as far as inotify tells."""
        if self._fd < 0:
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def changed(self) -> list[str]:
        self._drain()
        self._attend()  # before we look: what changes afterwards makes an event
        now = {path: signature(path) for path in self._seen}
        found = [path for path, before in self._seen.items() if before != now[path]]
        self._seen = now
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _drain(self) -> None:
        try:
            while self._fd >= 0 and os.read(self._fd, _READ_BYTES):
                pass
        except BlockingIOError:
            return

    def _attend(self) -> None:
        """Watching a directory again changes nothing; one that has appeared meanwhile is watched from now on."""
        if self._fd < 0:
            return
        for path in self._seen:
            for place in {path, os.path.realpath(path)}:
                self._libc.inotify_add_watch(self._fd, os.fsencode(_nearest(place)), _MASK)


def signature(path: str) -> Signature:
    """Changes whenever the file's content may have; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _nearest(path: str) -> str:
    """The closest directory above it that exists."""
    place = os.path.dirname(path)
    while not os.path.isdir(place) and place != "/":
        place = os.path.dirname(place)
    return place
