"""What the files take that processes hold open: memory and disk that no name shows.

The kernel lists a process's descriptors (`/proc/PID/fd`) to the id that it runs as, and to no other. The caller of a
box with subordinate ids is another one, but made the user namespace that those are in, and so may take a descriptor out
of the process (pidfd_getfd). Taken are only those on mounts where that costs nothing: a file of a network file system
or of FUSE is closed when its server says so. fdinfo, which is open to us, says which mount a descriptor is on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import socket
import stat
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.engines.process import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_ONE_THREAD: Final = os.O_EXCL  # PIDFD_THREAD, since Linux 6.9
_FDS_PER_BOX: Final = limits.OPEN_FILES  # one process with every descriptor open is read whole; a swarm of them is not
_TAKING_S: Final = 0.25  # per box: what the kernel writes into fdinfo can be made long (epoll, inotify)
_AT_ONCE: Final = frozenset({"overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "tmpfs"})
_MOUNT: Final = b"mnt_id:"
_RESET: Final = struct.pack("ii", 1, 0)


def held(views: list[str], counts: Callable[[str], bool], *, with_memory: bool = True) -> int:
    """Bytes of all that is open in these (`/proc/PID`, `/proc/PID/task/TID`) and counts by its name, each file once.

    Without memory a memfd does not count, whatever it is called.
    """
    look = _Look(counts, frozenset() if with_memory else frozenset({_memory().device}))
    for view in views:
        look.add(view)
    return sum(look.sizes.values())


class _Look:
    def __init__(self, counts: Callable[[str], bool], besides: frozenset[int]) -> None:
        self.sizes: dict[tuple[int, int], int] = {}
        self._counts = counts
        self._besides = besides
        self._budget = _FDS_PER_BOX
        self._taking = _FDS_PER_BOX  # apart: one process that lists very many must not hide another one's
        self._left_s = _TAKING_S
        self._mounts: set[int] = set()  # of all processes: one that changed its root does not see all of its own

    def add(self, view: str) -> None:
        names = _list(f"{view}/fd")[: self._budget]
        self._budget -= len(names)
        for name in names:
            self._count(f"{view}/fd/{name}")
        if not names and self._left_s > 0:
            began = time.monotonic()
            self._take(view, began + self._left_s)
            self._left_s -= time.monotonic() - began

    def _count(self, path: str) -> None:
        # Nothing else is touched: stat of a file on a dead network file system would hang the watch.
        try:
            if self._counts(os.readlink(path)):
                status = os.stat(path)
                if status.st_dev not in self._besides:
                    self.sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
        except OSError:
            return

    def _take(self, view: str, deadline: float) -> None:
        """The same where they are not listed to us."""
        try:
            process = os.pidfd_open(int(os.path.basename(view)), _ONE_THREAD if "/task/" in view else 0)
        except OSError:
            return  # gone, or a thread where the kernel has no descriptors of those
        try:
            names = _list(f"{view}/fdinfo")[: self._taking]
            self._taking -= len(names)
            if names:
                self._mounts |= _mounts(view)
            for name in names:
                if time.monotonic() > deadline:
                    _log.warning("%s has more open than there is time to look at", view)
                    return
                if _mount(_read(f"{view}/fdinfo/{name}")) in self._mounts:
                    self._take_one(process, int(name))
        finally:
            os.close(process)

    def _take_one(self, process: int, number: int) -> None:
        try:
            fd = kernel.take_descriptor(process, number)
        except OSError:
            return  # closed by now, or to us
        try:
            self._count(f"/proc/self/fd/{fd}")
            if stat.S_ISSOCK(os.fstat(fd).st_mode):  # put there meanwhile: to close it may take as long as it says
                with socket.socket(fileno=os.dup(fd)) as sock, contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            os.close(fd)


def _mounts(view: str) -> set[int]:
    """Those of a process whose files can be taken, and the kernel's own that all memfds are on.

    A box names the places of its mounts, with any byte but a newline.
    """
    found = {_memory().mount}
    for line in _read(f"{view}/mountinfo").split(b"\n"):
        first, _, rest = line.partition(b" - ")
        number = first.split(b" ", 1)[0]
        if number.isdigit() and rest.split(b" ", 1)[0].decode("ascii", "replace") in _AT_ONCE:
            found.add(int(number))
    return found


@dataclass(frozen=True, slots=True)
class _Memory:
    mount: int
    device: int


@functools.cache
def _memory() -> _Memory:
    """What all memfds are on; OSError if there is no descriptor to find it out with."""
    fd = os.memfd_create("mount", os.MFD_CLOEXEC)
    try:
        mount = _mount(_read(f"/proc/self/fdinfo/{fd}"))
        if mount < 0:
            raise OSError(errno.EIO, "the kernel does not say on which mount a descriptor is")
        return _Memory(mount, os.fstat(fd).st_dev)
    finally:
        os.close(fd)


def _mount(info: bytes) -> int:
    """Of a descriptor, by its fdinfo; -1 if that does not say."""
    for line in info.split(b"\n"):
        number = line.removeprefix(_MOUNT).strip()
        if line.startswith(_MOUNT) and number.isdigit():
            return int(number)
    return -1


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str) -> bytes:
    """Empty if it is closed to us, or its process has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
