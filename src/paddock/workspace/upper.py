"""Changes of the upper layer itself: entries that came home are dropped, discarded ones too.

The kernel leaves open what a mounted overlay shows after its upper was changed from outside, so whoever calls this has
the box remounted before its next command. What the box sees then must follow from what was asked for and nothing else:
where one entry below an opaque directory or a whiteout goes, the rest of what they hid is hidden name by name first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, replace

from paddock.errors import UserError
from paddock.fs import remove_tree, rename_new
from paddock.fs.lease import is_in_use
from paddock.workspace import overlay
from paddock.workspace.entries import Entry, Seen, look, open_directory, open_file, seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_BATCH = 128  # entries that are out of their place before the box is told to look again
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An entry of the upper that came home, and the name it gets where such are put aside."""

    path: str
    origin: Seen  # NOTHING for a deletion
    name: str


class Upper:
    """The upper directory over the workspace `base`, both by descriptor."""

    def __init__(self, upper: int, base: int) -> None:
        self._upper = upper
        self._base = base

    def drop(self, homes: Iterable[Home], aside: int, dropped: Callable[[list[Home]], object] = id) -> None:
        """Put what the workspace has by now into the directory `aside`, and tell `dropped` of it, some at a time.

        What the box changed again since stays, and so does what one of its processes has open: it would go on in a
        file that nobody looks at.
        """
        homes = sorted(homes, key=lambda home: -home.path.count("/"))
        directories = {home.path for home in homes if home.origin.entry is Entry.DIR}
        places = _outer_first({place for home in homes for place in _above(home.path)} | directories)
        closed = set()
        for place in places:
            try:
                if self._is_opaque(place):
                    self._show_through(place)
            except OSError:
                closed.add(place)  # what is in it stays: below an opaque directory the box would see nothing instead
        for start in range(0, len(homes), _BATCH):
            batch = homes[start : start + _BATCH]
            for home in batch:
                with contextlib.suppress(OSError):  # it stays, and is the same as the host's
                    if closed.isdisjoint((home.path, *_above(home.path))):
                        self._drop(home, aside)
            dropped(batch)
        for place in reversed(places):
            with contextlib.suppress(OSError):
                self._prune(place)

    def restore(self, homes: Iterable[Home], aside: int) -> None:
        """The opposite of drop; where the box has made something new since, that stays."""
        homes = sorted(homes, key=lambda home: home.path.count("/"))
        removed = {home.path for home in homes if home.origin.entry is Entry.NOTHING}
        for home in homes:
            if home.origin.entry is Entry.NOTHING and not removed.isdisjoint(_above(home.path)):
                continue  # the directory it was in is hidden as a whole
            with self._parent(home.path, make=True) as at:
                name = home.path.rpartition("/")[2]
                if at < 0:
                    continue
                if home.origin.entry is Entry.NOTHING:
                    overlay.hide(at, [name])
                elif home.origin.entry is Entry.DIR:
                    self._make(at, name, home.origin.mode)
                else:
                    with contextlib.suppress(FileExistsError, FileNotFoundError):
                        rename_new(aside, home.name, at, name)

    def holds(self, home: Home) -> bool:
        """Whether the entry that came home is still there, as it was."""
        return home.origin.entry is not Entry.NOTHING and _is_same(look(self._upper, home.path), home.origin)

    def discard(self, paths: Iterable[str]) -> None:
        """Undo what the box did at and below these paths; "" stands for all of it."""
        for path in _outer_first(set(paths)):
            if not path:
                for name in os.listdir(self._upper):
                    remove_tree(f"/proc/self/fd/{self._upper}/{name}")
                return
            places = _outer_first(set(_above(path)))
            if not all(map(self._open_up, places)):
                continue
            with self._parent(path) as at:
                if at >= 0:
                    remove_tree(f"/proc/self/fd/{at}/{path.rpartition('/')[2]}")
            for place in reversed(places):
                self._prune(place)

    # -- one entry -------------------------------------------------------------------------------------------------

    def _drop(self, home: Home, aside: int) -> None:
        name = home.path.rpartition("/")[2]
        with self._parent(home.path) as at:
            if at < 0:
                return
            try:
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                return
            if overlay.is_whiteout(at, name, status):
                if look(self._base, home.path).entry is Entry.NOTHING:
                    os.unlink(name, dir_fd=at)
            elif not stat.S_ISDIR(status.st_mode) and not _is_in_use(at, name):
                try:
                    rename_new(at, name, aside, home.name)
                except FileExistsError:
                    return  # that one was put aside before; this is a new one
                if not _is_same(seen(aside, home.name), home.origin):
                    rename_new(aside, home.name, at, name)

    def _prune(self, place: str) -> None:
        """Remove a directory of the upper that says nothing any more."""
        below = look(self._base, place)
        if below.entry is not Entry.DIR:
            return
        with self._parent(place) as at:
            name = place.rpartition("/")[2]
            if at < 0:
                return
            own = seen(at, name)
            if own.entry is not Entry.DIR or (own.mode ^ below.mode) & 0o777 or self._is_opaque(place):
                return
            with contextlib.suppress(OSError):  # there is something in it
                os.rmdir(name, dir_fd=at)

    # -- directories -----------------------------------------------------------------------------------------------

    def _is_opaque(self, place: str) -> bool:
        try:
            fd = open_directory(self._upper, place)
        except OSError:
            return False
        try:
            return overlay.is_opaque(fd)
        finally:
            os.close(fd)

    def _show_through(self, place: str) -> None:
        """Hide by name what an opaque directory hides as a whole, in it and below, then let the rest show."""
        if look(self._base, place).entry is not Entry.DIR:
            # Nothing to hide yet, and what the workspace gets there later is the box's own.
            self._lift(place)
            return
        waiting = [place]
        while waiting:
            path = waiting.pop()
            below = open_directory(self._base, path)
            try:
                with _opened(self._upper, path) as here:
                    names = set(os.listdir(here))
                    overlay.hide(here, sorted(set(os.listdir(below)) - names))
                    for name in names:
                        inner = f"{path}/{name}"
                        both = seen(here, name).entry is Entry.DIR and seen(below, name).entry is Entry.DIR
                        if both and not self._is_opaque(inner):
                            waiting.append(inner)
            finally:
                os.close(below)
        self._lift(place)

    def _lift(self, place: str) -> None:
        with _opened(self._upper, place) as fd:
            overlay.lift(fd)

    def _open_up(self, place: str) -> bool:
        """Make sure that names in a directory can be discarded one by one; False if nothing of the box is there."""
        name = place.rpartition("/")[2]
        with self._parent(place) as at:
            if at < 0:
                return False
            try:
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                return False
            if overlay.is_whiteout(at, name, status):
                self._unhide(at, place)
            elif not stat.S_ISDIR(status.st_mode):
                raise UserError(f"{place!r} is no directory in the box", hint="discard it as a whole", code="discard")
            elif self._is_opaque(place):
                self._show_through(place)
        return True

    def _unhide(self, at: int, place: str) -> None:
        """Put a directory in the place of a whiteout that hides a directory, with a whiteout for each name in that."""
        name = place.rpartition("/")[2]
        below = open_directory(self._base, place)
        try:
            os.unlink(name, dir_fd=at)
            self._make(at, name, stat.S_IMODE(os.fstat(below).st_mode))
            here = open_directory(at, name)
            try:
                overlay.hide(here, os.listdir(below))
            finally:
                os.close(here)
        finally:
            os.close(below)

    def _make(self, at: int, name: str, mode: int) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=at)
        except FileExistsError:
            return
        fd = open_directory(at, name)
        try:
            own = os.fstat(self._upper)
            if os.geteuid() == 0:
                os.fchown(fd, own.st_uid, own.st_gid)
            os.fchmod(fd, mode & 0o1777)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the directory around a path, or -1 if the upper has none."""
        place = path.rpartition("/")[0]
        if make:
            for above in _outer_first(set(_above(path))):
                with self._parent(above) as at:
                    if at >= 0:
                        below = look(self._base, above)
                        self._make(at, above.rpartition("/")[2], below.mode or 0o755)
        with contextlib.ExitStack() as stack:
            try:
                fd = stack.enter_context(_opened(self._upper, place))
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                fd = -1
            yield fd


@contextlib.contextmanager
def _opened(root: int, path: str) -> Iterator[int]:
    """A descriptor of a directory; one that the box closed to its owner is open as long as this lasts."""
    fd = open_directory(root, path)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    is_closed = mode & stat.S_IRWXU != stat.S_IRWXU
    try:
        if is_closed:
            os.fchmod(fd, mode | stat.S_IRWXU)
        yield fd
    finally:
        if is_closed:
            os.fchmod(fd, mode)
        os.close(fd)


def _is_in_use(at: int, name: str) -> bool:
    try:
        fd = open_file(at, name)
    except OSError:
        return False  # a link, or closed to its owner: nobody opens it
    try:
        return is_in_use(fd)
    finally:
        os.close(fd)


def _is_same(found: Seen, origin: Seen) -> bool:
    """Whether an entry that was renamed, which sets its change time, is the one that came home."""
    return found.untouched(replace(origin, ctime_ns=found.ctime_ns))


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _outer_first(places: set[str]) -> list[str]:
    return sorted(places, key=lambda place: (place.count("/"), place))
