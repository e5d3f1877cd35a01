"""A command's frames on disk, bounded, written by init and read by the host as hostile bytes."""

from __future__ import annotations

import os

from paddock.engines.guest.wire import message


class Journal:
    """A command's frames on disk, in two files that take turns: the older half goes when the newer is full."""

    def __init__(self, fds: list[int], half_bytes: int) -> None:
        self._fds = fds
        self._half = half_bytes
        self._sizes = [0, 0]
        self._current = 0
        self._sequence = 0
        self._dropped = 0
        self._begin(0)

    def write(self, data: bytes) -> None:
        if self._sizes[self._current] + len(data) > self._half:
            try:
                self._begin(1 - self._current)
            except OSError:  # a failing disk loses frames; it does not end the command
                self._dropped += len(data)
                return
        self._append(data)

    def close(self) -> None:
        for fd in self._fds:
            try:
                os.fdatasync(fd)
            except OSError:
                pass  # a full disk: what was written stays
            os.close(fd)

    def _begin(self, half: int) -> None:
        os.ftruncate(self._fds[half], 0)
        os.lseek(self._fds[half], 0, os.SEEK_SET)
        self._dropped += self._sizes[half]
        self._sequence += half != self._current
        self._current, self._sizes[half] = half, 0
        self._append(message({"event": "segment", "sequence": self._sequence, "dropped": self._dropped}))

    def _append(self, data: bytes) -> None:
        fd = self._fds[self._current]
        try:
            written = os.write(fd, data)
        except OSError:
            self._dropped += len(data)
            return
        if written < len(data):  # a torn frame would hide all that follows it
            os.ftruncate(fd, self._sizes[self._current])
            os.lseek(fd, self._sizes[self._current], os.SEEK_SET)
            self._dropped += len(data)
        else:
            self._sizes[self._current] += written
