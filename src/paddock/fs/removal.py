"""Remove whole trees that an agent wrote, or move them out of the way."""

from __future__ import annotations

import contextlib
import errno
import os

from paddock.errors import Unavailable
from paddock.fs.walk import PLACE, Cursor, Moved, open_up

_NAMES_HELD = 50_000  # names of directories in memory at once, over all levels
_RETRIES = 256  # directories that filled again while they were emptied, per removal
_RESTARTS = 16  # walks that lost their way because someone moved a directory
_FAILURES_MAX = 100
_SHOWN_MAX = 3  # failures named in the message
_SHOWN_CHARS = 200


def remove_tree(path: str) -> None:
    """Remove a file, a link or a whole directory; a missing one is fine.

    What cannot go does not keep the rest (up to a hundred such); Unavailable names what is left.
    """
    parent, name = _split(path)
    try:
        base = os.open(parent, PLACE & ~os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_removed(path, [(path, error)]) from error
    try:
        removal = _Removal(base, parent)
        removal.run(name)
    finally:
        os.close(base)
    if removal.failures:
        raise _not_removed(path, removal.failures)


def discard_tree(path: str, trash: str) -> str:
    """Move `path` into the directory `trash` in one step and return its place there; remove_tree does the rest.

    Both must be on one file system. A missing path is fine: what is returned is missing too.
    """
    place = os.path.join(trash, os.urandom(16).hex())
    try:
        move_tree(path, place)
    except FileNotFoundError:
        if not os.path.isdir(trash):
            raise Unavailable(f"cannot move {path!r} away: there is no {trash!r}", code="not-removed") from None
    except OSError as error:
        raise Unavailable(f"cannot move {path!r} to {trash!r}: {error.strerror}", code="not-removed") from error
    return place


def move_tree(path: str, place: str) -> None:
    """Rename what an agent wrote to another directory of the same file system, whatever its mode; or OSError."""
    try:
        os.rename(path, place)
    except PermissionError:  # a directory must be writable to get another parent
        fd = os.open(path, PLACE)
        try:
            open_up(fd)
        finally:
            os.close(fd)
        os.rename(path, place)


class _Removal:
    def __init__(self, base: int, parent: str) -> None:
        self._base = base
        self._parent = parent
        self._held = 0
        self._retries = _RETRIES
        self.failures: list[tuple[str, OSError]] = []

    def run(self, name: str) -> None:
        for _ in range(_RESTARTS):
            self.failures.clear()
            self._held = 0
            with contextlib.suppress(Moved), Cursor(self._base, open_up=True) as cursor:
                cursor.level.listed = True  # of the directory around the tree only the one name is ours
                self._wait(cursor, name)
                self._walk(cursor)
                return
        moving = OSError(errno.EBUSY, "it is moved about while it is removed")
        self.failures = [(os.path.join(self._parent, name), moving)]

    def _walk(self, cursor: Cursor) -> None:
        while len(self.failures) < _FAILURES_MAX:
            if not cursor.level.listed and not cursor.level.waiting:
                self._list(cursor)
            if cursor.level.waiting:
                self._held -= 1
                self._down(cursor, cursor.level.waiting.pop())
            elif len(cursor.levels) > 1:
                self._up(cursor)
            else:
                return

    def _list(self, cursor: Cursor) -> None:
        level = cursor.level
        level.listed = True
        try:
            with os.scandir(cursor.fd) as entries:
                for entry in entries:
                    if entry.name in level.stuck:
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        self._unlink(cursor, entry.name)
                    else:
                        self._wait(cursor, entry.name)
                        level.listed = self._held < _NAMES_HELD
                    if not level.listed or len(self.failures) >= _FAILURES_MAX:
                        return
        except OSError as error:
            self._fail(cursor, "", error)

    def _wait(self, cursor: Cursor, name: str) -> None:
        self._held += 1
        cursor.level.waiting.append(name)

    def _unlink(self, cursor: Cursor, name: str) -> None:
        try:
            os.unlink(name, dir_fd=cursor.fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._again_or_fail(cursor, name, error, again=error.errno == errno.EISDIR)

    def _down(self, cursor: Cursor, name: str) -> None:
        try:
            cursor.down(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.ELOOP}:
                self._unlink(cursor, name)
            else:
                self._fail(cursor, name, error)

    def _up(self, cursor: Cursor) -> None:
        left = cursor.up()
        try:
            os.rmdir(left.name, dir_fd=cursor.fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if left.stuck:
                cursor.level.stuck.add(left.name)  # what keeps it has been named
                return
            refilled = error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
            self._again_or_fail(cursor, left.name, error, again=refilled)

    def _again_or_fail(self, cursor: Cursor, name: str, error: OSError, *, again: bool) -> None:
        if again and self._retries > 0:
            self._retries -= 1
            self._wait(cursor, name)
        else:
            self._fail(cursor, name, error)

    def _fail(self, cursor: Cursor, name: str, error: OSError) -> None:
        cursor.level.stuck.add(name)
        names = [level.name for level in cursor.levels[1:]]
        self.failures.append((os.path.join(self._parent, *names, name), error))


def _split(path: str) -> tuple[str, str]:
    parent, name = os.path.split(path.rstrip("/"))
    if not name or name in {".", ".."}:
        raise Unavailable(f"cannot remove {path!r}", hint="name a file or directory inside another", code="not-removed")
    return parent or ".", name


def _not_removed(path: str, failures: list[tuple[str, OSError]]) -> Unavailable:
    shown = [f"{_short(place)} ({error.strerror})" for place, error in failures[:_SHOWN_MAX]]
    more = len(failures) - len(shown)
    if more:
        shown.append(f"and {more} more")
    return Unavailable(
        f"could not remove all of {path!r}: {', '.join(shown)}",
        hint="unmount what is mounted there, look at owners and at `lsattr -d`, then remove it again",
        code="not-removed",
    )


def _short(place: str) -> str:
    if len(place) > _SHOWN_CHARS:
        place = place[: _SHOWN_CHARS // 2] + "..." + place[-_SHOWN_CHARS // 2 :]
    return repr(place)
