"""A lock between processes: flock on a file that is never deleted.

The kernel drops it when its holder dies, however it dies, so there is no stale lock to break and no live one to steal.
The file's text names the holder for messages and decides nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from paddock.errors import Unavailable
from paddock.limits import DAEMON_START_TIMEOUT_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_RETRY_S = 0.02
_TEXT_BYTES = 32


class FileLock:
    """As a context manager it waits up to `wait_s` seconds, then raises Unavailable naming the holder."""

    def __init__(self, path: str, *, wait_s: float = DAEMON_START_TIMEOUT_S) -> None:
        self.path = path
        self.wait_s = wait_s
        self._fd: int | None = None

    def __repr__(self) -> str:
        return f"<FileLock {self.path} {'held' if self.held else 'free'}>"

    @property
    def held(self) -> bool:
        return self._fd is not None

    def try_acquire(self) -> bool:
        """Whether this call took the lock; False also if this object holds it already."""
        if self.held:
            return False
        fd = self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(fd)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError as error:
            os.close(fd)
            raise _broken(self.path, error) from error
        self._fd = fd
        return True

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def holder(self) -> str:
        """`process 123`, or `another process` when the file does not say; meaningful while the lock is taken."""
        fd = self._open()
        try:
            text = os.pread(fd, _TEXT_BYTES, 0)
        finally:
            os.close(fd)
        return f"process {int(text)}" if text.strip().isdigit() else "another process"

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self.wait_s
        while not self.try_acquire():
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{self.path} is locked by {self.holder()}",
                    hint="wait for it to finish, or end that process",
                    code="locked",
                )
            time.sleep(_RETRY_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise _broken(self.path, error) from error


def _sign(fd: int) -> None:
    with contextlib.suppress(OSError):  # a full disk is no reason to go unlocked
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)


def _broken(path: str, error: OSError) -> Unavailable:
    return Unavailable(f"cannot lock {path!r}: {error.strerror}", hint="check its directory", code="lock")
