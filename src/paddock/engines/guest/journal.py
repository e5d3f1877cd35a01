"""A command's frames on disk, bounded, written by init and read by the host as hostile bytes."""

from __future__ import annotations

import os

from paddock.engines.guest.wire import message

AWAY_BYTES = 256 * 1024  # that are kept while it has no files


class Journal:
    """A command's frames on disk, in two files that take turns: the older half goes when the newer is full."""

    def __init__(self, fds: list[int], half_bytes: int) -> None:
        self._fds = fds
        self._half = half_bytes
        self._sizes = [0, 0]
        self._current = 0
        self._sequence = 0
        self._dropped = 0
        self._head = b""  # of the current half: whether a file is the one that it was
        self._waiting: list[bytes] = []
        self._is_over = False
        self._begin(0)

    @property
    def is_away(self) -> bool:
        return not self._fds

    def write(self, data: bytes) -> None:
        if self.is_away:
            if sum(map(len, self._waiting)) + len(data) <= AWAY_BYTES:
                self._waiting.append(data)
            else:
                self._dropped += len(data)
            return
        if self._sizes[self._current] + len(data) > self._half:
            try:
                self._begin(1 - self._current)
            except OSError:  # a failing disk loses frames; it does not end the command
                self._dropped += len(data)
                return
        self._append(data)

    def close(self) -> None:
        self._is_over = True
        self.let_go()

    def let_go(self) -> None:
        """Of its files, for a while: a box that is saved holds nothing of the host's."""
        fds, self._fds = self._fds, []
        for fd in fds:
            try:
                os.fdatasync(fd)
            except OSError:
                pass  # a full disk: what was written stays
            os.close(fd)

    def take(self, fds: list[int]) -> None:
        """Its files again. What they got since it let go of them is of another time, into which it did not go on."""
        self._fds = fds
        try:
            self._go_back()
        except OSError:
            self.close()
            return
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.write(data)
        if self._is_over:
            self.close()

    def _go_back(self) -> None:
        other = 1 - self._current
        if os.fstat(self._fds[other]).st_size != self._sizes[other]:
            self._dropped += self._sizes[other]
            self._sizes[other] = 0
            os.ftruncate(self._fds[other], 0)
        fd, size = self._fds[self._current], self._sizes[self._current]
        if os.fstat(fd).st_size < size or os.pread(fd, len(self._head), 0) != self._head:
            self._begin(self._current)
        else:
            os.ftruncate(fd, size)
            os.lseek(fd, size, os.SEEK_SET)

    def _begin(self, half: int) -> None:
        os.ftruncate(self._fds[half], 0)
        os.lseek(self._fds[half], 0, os.SEEK_SET)
        self._dropped += self._sizes[half]
        self._sequence += half != self._current
        self._current, self._sizes[half] = half, 0
        self._head = message({"event": "segment", "sequence": self._sequence, "dropped": self._dropped})
        self._append(self._head)

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
