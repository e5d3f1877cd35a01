"""Who is using layers at this moment: what is leased is neither pruned nor swept.

A build or a restore needs layers before any row of the store names them, and may die at any point. Its lease is a file
locked by its process: the kernel lets go of it when the process ends, however it ends, and then what was staged under
it is rubbish. The file lists the layers, and has the name of the directory in which the process stages new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from paddock import fs
from paddock.images.streams import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT_BYTES = 1 << 20


class Lease:
    """Leave the context when the store's rows name the layers, or nobody wants them."""

    def __init__(self, directory: str, staging: str) -> None:
        """Called with the store locked, so that nobody takes the lease for a dead one."""
        self.name = os.urandom(16).hex()
        self.staging = f"{staging}/{self.name}"
        self._path = f"{directory}/{self.name}"
        os.mkdir(self.staging, 0o700)  # first: alone it is swept, and a lease without it would be held for good
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __repr__(self) -> str:
        return f"<Lease {self.name} {'held' if self._fd >= 0 else 'over'}>"

    def add(self, layer: str) -> None:
        """Called with the store locked: a layer that was not pruned by now will not be."""
        end = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            write_all(self._fd, f"{layer}\n".encode("ascii"))
        except OSError:
            os.ftruncate(self._fd, end)  # half a name would spoil the next
            raise

    def close(self) -> None:
        if self._fd < 0:
            return
        try:
            fs.remove_tree(self.staging)  # what cannot go now is swept by the next prune
        finally:
            os.unlink(self._path)
            os.close(self._fd)
            self._fd = -1


def leased(directory: str, staging: str, trash: str) -> set[str]:
    """All layers in use by somebody alive; what dead ones staged goes to the trash. Called with the store locked."""
    found: set[str] = set()
    alive: set[str] = set()
    for name in os.listdir(directory):
        layers = _read(f"{directory}/{name}")
        if layers is None:
            with contextlib.suppress(FileNotFoundError):  # who closes a lease does not wait for the store
                os.unlink(f"{directory}/{name}")
        else:
            alive.add(name)
            found |= layers
    for name in set(os.listdir(staging)) - alive:
        fs.discard_tree(f"{staging}/{name}", trash)
    return found


def _read(path: str) -> set[str] | None:
    """What a lease lists; None if it is over, or its process is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return set(_lines(fd))
        return None
    finally:
        os.close(fd)


def _lines(fd: int) -> Iterator[str]:
    text = b""
    while data := os.pread(fd, _TEXT_BYTES, len(text)):
        text += data
    yield from text.decode("ascii").split()
