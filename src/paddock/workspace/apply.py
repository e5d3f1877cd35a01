"""Carry out a plan: each operation whole or not at all, each on its own, and all of it on record.

The intent is on disk before anything happens, and new content and what it replaces before a place is swapped. That is
done in batches, because a sync costs the same for one file as for many. A conflict or an error ends its operation, not
the run.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass

from paddock.fs import sync_all, sync_file_systems
from paddock.workspace import place
from paddock.workspace.entries import Entry, open_directory, open_file
from paddock.workspace.place import Conflict
from paddock.workspace.plan import Action, Operation
from paddock.workspace.runs import Done, Outcome, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

_BATCH = 2048
_DIRECTORIES_MAX = 256  # descriptors of directories that a batch holds
_FEW = 16  # files that are synced one by one
_STAGED = frozenset({Action.WRITE, Action.LINK, Action.REMOVE})
_NO_WAY = {
    errno.ENOENT: "its directory is not on the host",
    errno.ENOTDIR: "its directory is not one on the host",
    errno.ELOOP: "its directory is a symbolic link on the host",
    errno.EXDEV: "something is mounted there on the host",
}


@dataclass(frozen=True, slots=True)
class _Staged:
    index: int
    operation: Operation
    at: int  # the directory of its place


class Execution:
    """One run over the workspace `base`; content comes from below `source`."""

    def __init__(self, run: Run, base: int, source: int) -> None:
        self._run = run
        self._base = base
        self._source = source
        self._kept = -1
        self._waiting: list[_Staged] = []
        self._directories: dict[str, int] = {}
        self._written: list[int] = []  # what must be on disk before the swap, while it is few
        self._is_many = False
        self._done: dict[int, Done] = {}

    def __enter__(self) -> Self:
        self._kept = os.open(self._run.kept, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        os.close(self._kept)

    def execute(self) -> Outcome:
        for index, operation in enumerate(self._run.intent.operations):
            if operation.action in _STAGED or _replaces(operation):
                with self._attempt(index, operation):
                    self._stage(index, operation)
                full = len(self._waiting) >= _BATCH or len(self._directories) >= _DIRECTORIES_MAX
                if full or operation.action is Action.MKDIR:
                    self._flush()
            else:
                self._flush()
                with self._attempt(index, operation):
                    self._at_once(index, operation)
        self._flush()
        self._sync_directories()
        outcome = Outcome(done=tuple(self._done[index] for index in sorted(self._done)))
        self._run.finish(outcome)
        return outcome

    @contextlib.contextmanager
    def _attempt(self, index: int, operation: Operation) -> Iterator[None]:
        path = operation.path
        try:
            yield
        except Conflict as reason:
            self._done[index] = Done(path=path, error=str(reason), conflict=True)
        except OSError as error:
            reason_text = _NO_WAY.get(error.errno or 0)
            self._done[index] = Done(path=path, error=reason_text or _said(error), conflict=reason_text is not None)

    # -- content ---------------------------------------------------------------------------------------------------

    def _stage(self, index: int, operation: Operation) -> None:
        name = operation.path.rpartition("/")[2]
        fresh = self._run.temporary(index)
        at = self._directory(operation.path)
        if operation.before.entry is Entry.FILE:
            self._wrote(self._keep(index, operation, at, name))
        if operation.action is Action.WRITE:
            self._wrote(self._write(operation, at, name, fresh))
        elif operation.action is Action.LINK:
            os.symlink(operation.after.target, fresh, dir_fd=at)
        elif operation.action is Action.MKDIR:
            _make(at, fresh, operation.after.mode)
        self._waiting.append(_Staged(index, operation, at))

    def _directory(self, path: str) -> int:
        place = path.rpartition("/")[0]
        if place not in self._directories:
            self._directories[place] = open_directory(self._base, place)
        return self._directories[place]

    def _wrote(self, fd: int) -> None:
        """Remember a file to be synced; beyond a few, whole file systems are."""
        if len(self._written) < _FEW:
            self._written.append(fd)
        else:
            os.close(fd)
            self._is_many = True

    def _keep(self, index: int, operation: Operation, at: int, name: str) -> int:
        """A copy of what is about to be replaced; whoever undoes this run finds it under the operation's number."""
        try:
            old = open_file(at, name)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR}:
                raise Conflict("it is not the file on the host that it was") from None
            raise
        try:
            return place.copy(old, self._kept, str(index), operation.before)
        finally:
            os.close(old)

    def _write(self, operation: Operation, at: int, name: str, fresh: str) -> int:
        try:
            source = open_file(self._source, operation.source)
        except OSError as error:
            if error.errno in {*_NO_WAY, errno.ENXIO, errno.EISDIR}:
                raise Conflict("it changed in the box since it was looked at") from None
            raise
        try:
            fd = place.copy(source, at, fresh, operation.after)
        finally:
            os.close(source)
        try:
            place.own(fd, operation.after.mode, _model(at, name, fd))
        except BaseException:
            os.close(fd)
            os.unlink(fresh, dir_fd=at)
            raise
        return fd

    def _flush(self) -> None:
        """Have the batch on disk, then swap each of it into its place."""
        batch, self._waiting = self._waiting, []
        try:
            if self._is_many:
                sync_file_systems([self._base, self._kept])
            elif self._written:
                sync_all([*self._written, self._kept])
            for staged in batch:
                with self._attempt(staged.index, staged.operation):
                    self._swap(staged)
        finally:
            self._close()

    def _close(self) -> None:
        for fd in (*self._written, *self._directories.values()):
            os.close(fd)
        self._written.clear()
        self._directories.clear()
        self._is_many = False

    def _sync_directories(self) -> None:
        """Have the new names on disk; until then a crash of the machine may show any of them as before."""
        places = {operation.path.rpartition("/")[0] for operation in self._run.intent.operations}
        if len(places) > _FEW:
            sync_file_systems([self._base])
            return
        for directory in places:
            with contextlib.suppress(OSError):  # removed by this very run, or never there
                self._directory(f"{directory}/")
        sync_all(self._directories.values())
        self._close()

    def _swap(self, staged: _Staged) -> None:
        operation = staged.operation
        name = operation.path.rpartition("/")[2]
        fresh = self._run.temporary(staged.index)
        if operation.action is Action.REMOVE:
            place.take_out(staged.at, name, fresh, operation.before)
        else:
            place.swap_in(staged.at, fresh, name, operation.before)
        self._done[staged.index] = Done(path=operation.path)

    # -- directories and modes -------------------------------------------------------------------------------------

    def _at_once(self, index: int, operation: Operation) -> None:
        directory, _, name = operation.path.rpartition("/")
        at = open_directory(self._base, directory)
        try:
            was_there = False
            match operation.action:
                case Action.MKDIR:
                    was_there = not _make(at, name, operation.after.mode)
                case Action.RMDIR:
                    _unmake(at, name)
                case _:
                    _set_mode(at, name, operation)
        finally:
            os.close(at)
        self._done[index] = Done(path=operation.path, was_there=was_there)


def _replaces(operation: Operation) -> bool:
    """Whether a directory takes the place of something, in one step as a file does."""
    return operation.action is Action.MKDIR and operation.before.entry is not Entry.NOTHING


def _model(at: int, name: str, fd: int) -> os.stat_result:
    """Whose owner a new entry gets: what it replaces, or for root, who has no files in a project, what it lies in."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return os.fstat(at) if os.geteuid() == 0 else os.fstat(fd)


def _make(at: int, name: str, mode: int) -> bool:
    """Make a directory like the one around it; False if there is one."""
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        try:
            os.close(open_directory(at, name))
        except OSError:
            raise Conflict("the host has something else there by now") from None
        return False
    fd = open_directory(at, name)
    try:
        place.own(fd, mode, os.fstat(at) if os.geteuid() == 0 else os.fstat(fd))
    finally:
        os.close(fd)
    return True


def _unmake(at: int, name: str) -> None:
    match place.content(at, name).entry:
        case Entry.NOTHING:
            return
        case Entry.DIR:
            place.remove(at, name)
        case _:
            raise Conflict("it is not a directory on the host by now")


def _set_mode(at: int, name: str, operation: Operation) -> None:
    if operation.before.entry is Entry.FILE:
        place.check(at, name, operation.before)
    else:
        found = place.content(at, name)
        if (found.entry, found.mode) != (operation.before.entry, operation.before.mode):
            raise Conflict("it is not as it was on the host")
    place.chmod(at, name, operation.after.mode)


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
