"""Hears of names that appear in directories: made, linked, or renamed to. One watch serves all who ask for a directory.

Whoever can write to such a directory decides how much is said: what is read at a time is bounded, and a buffer in which
none of the wanted names occurs is not taken apart.
"""

from __future__ import annotations

import ctypes
import os
import struct

from paddock.fs.beneath import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# inotify(7): create, moved_to; and only directories
_MASK = 0x100 | 0x80 | 0x01000000
_READ_BYTES = 65536
_EVENT = struct.Struct("=iIII")
_LOST = struct.pack("=iI", -1, 0x4000)  # the queue was full; an event of no directory


class Arrivals:
    """`fileno()` turns readable when something appeared; `read()` says what."""

    def __init__(self, directories_max: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._max = directories_max
        self._watches: dict[str, int] = {}
        self._directories: dict[int, set[str]] = {}  # one directory may have two paths
        self._names: dict[str, set[str]] = {}  # wanted, by directory
        self._wanted: set[bytes] | None = None  # all of them

    def __repr__(self) -> str:
        return f"<Arrivals in {len(self._watches)} directories{'' if self._fd >= 0 else ' without inotify'}>"

    def fileno(self) -> int:
        """-1 where there is no inotify."""
        return self._fd

    def attend(self, directory: str, names: set[str]) -> bool:
        """Hear of these names in it, from now on and until it is called again; False if that is not to be had.

        The path may mean another directory than it did the last time.
        """
        self._names[directory], self._wanted = names, None
        watch = self._add(directory)
        before = self._watches.get(directory, -1)
        if watch != before:
            self._drop(directory)
            if watch >= 0:
                self._watches[directory] = watch
                self._directories.setdefault(watch, set()).add(directory)
        return watch >= 0

    def forget(self, directory: str) -> None:
        self._names.pop(directory, None)
        self._wanted = None
        self._drop(directory)

    def read(self) -> set[str] | None:
        """The paths of wanted names that appeared; None if some of what happened was lost."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except OSError:
            return set()
        if _LOST in data:
            return None
        if self._wanted is None:
            self._wanted = {os.fsencode(name) + b"\0" for names in self._names.values() for name in names}
        if not any(name in data for name in self._wanted):
            return set()
        return {
            f"{directory}/{name}"
            for watch, name in _events(data)
            for directory in self._directories.get(watch, ())
            if name in self._names[directory]
        }

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _add(self, directory: str) -> int:
        if self._fd < 0 or (directory not in self._watches and len(self._watches) >= self._max):
            return -1
        top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = open_beneath(top, directory.strip("/") or ".", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            return -1
        finally:
            os.close(top)
        try:
            watch: int = self._libc.inotify_add_watch(self._fd, f"/proc/self/fd/{fd}".encode(), _MASK)
        finally:
            os.close(fd)
        return watch

    def _drop(self, directory: str) -> None:
        watch = self._watches.pop(directory, None)
        if watch is None:
            return
        paths = self._directories.get(watch, set())
        paths.discard(directory)
        if not paths:
            self._directories.pop(watch, None)
            self._libc.inotify_rm_watch(self._fd, watch)


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at + _EVENT.size <= len(data):
        watch, _, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield watch, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
