"""What a box changed in its workspace, read from the overlay's upper directory.

The cost follows the change: only directories that the box touched are listed, and of the workspace only the entries
beneath them are looked at. What cannot come home, whoever asks for it, is `refused` here, once, with the reason:
entries that are no files, set-id bits, and git's own files, which the host's git would obey (WS-01 to WS-06).
"""

from __future__ import annotations

import enum
import errno
import os
import stat
import unicodedata
from dataclasses import dataclass, replace

from paddock.limits import REVIEW_ENTRIES, REVIEW_FILE_BYTES, REVIEW_PATH_BYTES, REVIEW_RENAME_BYTES
from paddock.text import size
from paddock.workspace import overlay
from paddock.workspace.entries import (
    NOTHING,
    Entry,
    Seen,
    digest,
    from_status,
    open_directory,
    open_file,
    same_bytes,
    seen,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SET_ID = stat.S_ISUID | stat.S_ISGID

GIT_REFUSED = "git's own files do not come home; commits do, with `paddock git BOX fetch`"
_CLOSED = "it is closed to its owner; open it in the box with chmod u+r (u+rx for a directory)"
_TOO_LONG = f"its path is longer than {REVIEW_PATH_BYTES} bytes"
_MOVING = "it was changing while it was read"


class Kind(enum.Enum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    TYPE = "type"  # one kind of entry took the place of another
    MODE = "mode"  # the same content with other permissions


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    path: str
    kind: Kind
    new: Seen = NOTHING  # as the box has it
    old: Seen = NOTHING  # as the workspace has it
    refused: str = ""  # why it never comes home
    source: str = ""  # of an added file: the deleted one it was renamed from
    links: int = 1  # hard links of the file in the box; each comes home as a file of its own
    twin: str = ""  # of an added entry: another name beside it that differs in case or Unicode form only

    @property
    def entry(self) -> Entry:
        return self.old.entry if self.kind is Kind.DELETED else self.new.entry

    @property
    def mode(self) -> int:
        return self.new.mode

    @property
    def size(self) -> int:
        return self.new.size

    @property
    def target(self) -> str:
        return self.new.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    items: tuple[Change, ...] = ()  # by path, directories before what is in them
    complete: bool = True  # False: there are more, or some of the workspace could not be read

    def below(self, paths: Iterable[str]) -> tuple[Change, ...]:
        """Those at or below one of `paths`; "" stands for all."""
        wanted = {path.strip("/") for path in paths}
        return tuple(change for change in self.items if not wanted.isdisjoint(_lineage(change.path)))


def read(upper: int, base: int) -> Changes:
    """The changes of the upper directory against the workspace, both given by descriptor."""
    reader = _Reader(upper, base)
    reader.run()
    items = sorted(reader.items, key=lambda change: change.path.split("/"))
    return Changes(
        items=tuple(_with_renames(upper, base, items)),
        complete=reader.complete,
    )


def is_git(name: str) -> bool:
    """Whether a file system or git itself may take a name for `.git`: case, Unicode form, ignored characters, 8.3."""
    folded = fold("".join(char for char in name if unicodedata.category(char) != "Cf")).rstrip(" .")
    return folded in {".git", "git~1"} or folded.startswith(".git:")


def fold(name: str) -> str:
    """A name as file systems compare it that know no case and one Unicode form only."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _lineage(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:count]) for count in range(len(parts) + 1)}


class _Reader:
    def __init__(self, upper: int, base: int) -> None:
        self._upper = upper
        self._base = base
        self._waiting = [("", True, False)]
        self.items: list[Change] = []
        self.complete = True

    def run(self) -> None:
        while self._waiting and self.has_room():
            path, over, hidden = self._waiting.pop()
            self._directory(path, over=over, hidden=hidden)

    def has_room(self, waiting: int = 0) -> bool:
        room = len(self.items) + waiting < REVIEW_ENTRIES
        self.complete = self.complete and room
        return room

    def _directory(self, path: str, *, over: bool, hidden: bool) -> None:
        """Compare one directory of the upper.

        `over`: the workspace has a directory at the same place; `hidden`: one further up is opaque, so this one is too.
        """
        try:
            here = open_directory(self._upper, path)
        except OSError as error:
            self._unlisted(path, error)
            return
        below = -1
        try:
            if over:
                below = open_directory(self._base, path)
            if overlay.is_foreign(here):
                self._refuse(path, from_status(os.fstat(here)), NOTHING, "its overlay mark is unknown")
                return
            _Directory(self, path, here, below, hidden=hidden or overlay.is_opaque(here)).read()
        except OSError as error:
            self._unlisted(path, error)
        finally:
            os.close(here)
            if below >= 0:
                os.close(below)

    def _unlisted(self, path: str, error: OSError) -> None:
        self.complete = False
        reason = f"{_MOVING}: {error.strerror}"
        if isinstance(error, PermissionError):
            reason = _CLOSED
        elif error.errno == errno.EXDEV:
            reason = "something is mounted there on the host"
        self._refuse(path, Seen(entry=Entry.DIR), NOTHING, reason)

    def _refuse(self, path: str, new: Seen, old: Seen, reason: str) -> None:
        self.items.append(Change(path=path, kind=_kind(new, old), new=new, old=old, refused=reason))

    def add(self, change: Change) -> None:
        self.items.append(change)

    def descend(self, path: str, *, over: bool, hidden: bool) -> None:
        self._waiting.append((path, over, hidden))

    def deleted(self, path: str, old: Seen) -> None:
        """A deletion; that of a directory is told for all that was in it, within the bound."""
        refused = GIT_REFUSED if is_git(path.rpartition("/")[2]) else ""
        self.items.append(Change(path=path, kind=Kind.DELETED, old=old, refused=refused))
        if old.entry is Entry.DIR and not refused:
            self.emptied(path)

    def emptied(self, path: str) -> None:
        waiting = [path]
        while waiting and self.has_room():
            directory = waiting.pop()
            try:
                at = open_directory(self._base, directory)
            except OSError:
                self.complete = False
                continue
            try:
                for name in os.listdir(at):
                    if not self.has_room():
                        return
                    old = seen(at, name)
                    place = f"{directory}/{name}"
                    refused = GIT_REFUSED if is_git(name) else ""
                    self.items.append(Change(path=place, kind=Kind.DELETED, old=old, refused=refused))
                    if old.entry is Entry.DIR and not refused:
                        waiting.append(place)
            finally:
                os.close(at)


class _Directory:
    """One directory of the upper, `here`, over the one of the workspace, `below`, if that is not -1."""

    def __init__(self, reader: _Reader, path: str, here: int, below: int, *, hidden: bool) -> None:
        self._reader = reader
        self._path = path
        self._here = here
        self._below = below
        self._hidden = hidden
        self._added: list[Change] = []

    def read(self) -> None:
        names = sorted(os.listdir(self._here))
        for name in names:
            if not self._reader.has_room(len(self._added)):
                break
            try:
                self._entry(name, os.stat(name, dir_fd=self._here, follow_symlinks=False))
            except FileNotFoundError:  # gone since it was listed
                continue
        if self._below >= 0 and self._hidden:
            for name in sorted(set(os.listdir(self._below)) - set(names)):
                self._reader.deleted(self._place(name), seen(self._below, name))
        self._tell_added(names)

    def _entry(self, name: str, status: os.stat_result) -> None:
        old = seen(self._below, name) if self._below >= 0 else NOTHING
        path = self._place(name)
        if overlay.is_whiteout(self._here, name, status):
            if old is not NOTHING:
                self._reader.deleted(path, old)
            return
        new = seen(self._here, name)
        refused = _refusal(path, new)
        if is_git(name):
            if not self._is_bare_mount_point(name, new, old):
                self._reader.add(Change(path=path, kind=_kind(new, old), new=new, old=old, refused=GIT_REFUSED))
        elif new.entry is Entry.DIR:
            self._subdirectory(path, new, old, refused)
        elif new.entry is old.entry is Entry.FILE and not refused:
            self._file(path, new, old, status.st_nlink)
        elif new.entry is old.entry is Entry.SYMLINK and new.target == old.target:
            return
        else:
            change = Change(path=path, kind=_kind(new, old), new=new, old=old, refused=refused, links=status.st_nlink)
            self._tell(change)
            if old.entry is Entry.DIR:
                self._reader.emptied(path)

    def _subdirectory(self, path: str, new: Seen, old: Seen, refused: str) -> None:
        if old.entry is not Entry.DIR or (old.mode ^ new.mode) & 0o777:
            self._tell(Change(path=path, kind=_kind(new, old), new=new, old=old, refused=refused))
        if len(os.fsencode(path)) <= REVIEW_PATH_BYTES:
            self._reader.descend(path, over=old.entry is Entry.DIR, hidden=self._hidden)

    def _file(self, path: str, new: Seen, old: Seen, links: int) -> None:
        name = path.rpartition("/")[2]
        kind, refused = Kind.MODIFIED, ""
        if new.size == old.size:
            try:
                kind = Kind.MODE if self._is_same(name) else Kind.MODIFIED
            except OSError as error:
                refused = _CLOSED if isinstance(error, PermissionError) else _MOVING
        if kind is not Kind.MODE or new.mode != old.mode:
            self._reader.add(Change(path=path, kind=kind, new=new, old=old, links=links, refused=refused))

    def _is_same(self, name: str) -> bool:
        new = open_file(self._here, name)
        try:
            old = open_file(self._below, name)
            try:
                return same_bytes(new, old)
            finally:
                os.close(old)
        finally:
            os.close(new)

    def _is_bare_mount_point(self, name: str, new: Seen, old: Seen) -> bool:
        """A `.git` that the overlay copied up for something mounted over it, and that holds nothing."""
        if new.entry is not Entry.DIR or old.entry is not Entry.DIR:
            return False
        try:
            at = open_directory(self._here, name)
        except OSError:
            return False
        try:
            return not overlay.is_opaque(at) and not os.listdir(at)
        finally:
            os.close(at)

    def _tell(self, change: Change) -> None:
        if change.kind is Kind.ADDED:
            self._added.append(change)
        else:
            self._reader.add(change)

    def _tell_added(self, names: list[str]) -> None:
        """Added entries, each with a name beside it that some file systems take for the same (WS-19)."""
        if not self._added:
            return
        beside: dict[str, list[str]] = {}
        for name in {*names, *(os.listdir(self._below) if self._below >= 0 else ())}:
            beside.setdefault(fold(name), []).append(name)
        for change in self._added:
            name = change.path.rpartition("/")[2]
            twins = [other for other in beside.get(fold(name), ()) if other != name]
            self._reader.add(replace(change, twin=min(twins)) if twins else change)

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name


def _kind(new: Seen, old: Seen) -> Kind:
    if old.entry is Entry.NOTHING:
        return Kind.ADDED
    if new.entry is not old.entry:
        return Kind.TYPE
    return Kind.MODE if new.entry is Entry.DIR else Kind.MODIFIED


def _refusal(path: str, new: Seen) -> str:
    if len(os.fsencode(path)) > REVIEW_PATH_BYTES:
        return _TOO_LONG
    if new.entry is Entry.OTHER:
        return "a FIFO, socket or device is no part of a project"
    if new.size > REVIEW_FILE_BYTES:
        return f"it has over {size(REVIEW_FILE_BYTES)}; take it out with `paddock cp`"
    if new.entry is Entry.FILE and new.mode & _SET_ID:
        return f"mode {new.mode:04o} would lend its owner's rights to whoever runs it"
    return ""


def _with_renames(upper: int, base: int, items: list[Change]) -> list[Change]:
    """Added files that have the content of a deleted one get its path as their source."""
    gone = [change for change in items if change.kind is Kind.DELETED and change.entry is Entry.FILE]
    came = {change.size for change in items if _may_be_renamed(change)}
    left_bytes = REVIEW_RENAME_BYTES
    by_digest: dict[str, dict[str, str]] = {}
    for change in gone:
        if 0 < change.old.size <= left_bytes and change.old.size in came:
            left_bytes -= change.old.size
            names = by_digest.setdefault(_digest_or_none(base, change.path), {})
            names.setdefault(change.path.rpartition("/")[2], change.path)
    sizes = {change.old.size for change in gone}
    found = []
    for change in items:
        source = ""
        if by_digest and _may_be_renamed(change) and change.size in sizes and change.size <= left_bytes:
            left_bytes -= change.size
            names = by_digest.get(_digest_or_none(upper, change.path) or "unread", {})
            # Of several with the same content the one of the same name is the likeliest.
            source = names.get(change.path.rpartition("/")[2]) or next(iter(names.values()), "")
        found.append(replace(change, source=source) if source else change)
    return found


def _may_be_renamed(change: Change) -> bool:
    return change.kind is Kind.ADDED and change.entry is Entry.FILE and not change.refused and change.size > 0


def _digest_or_none(root: int, path: str) -> str:
    try:
        fd = open_file(root, path)
    except OSError:
        return ""
    try:
        return digest(fd)
    finally:
        os.close(fd)
