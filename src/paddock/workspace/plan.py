"""What an apply would do to the workspace, as data: it can be printed, and is carried out as it stands.

Each operation names what must be there before and what is there after, with digests, so that neither the box nor the
host can change its meaning between the moment it is shown and the moment it is done (WS-14, WS-16).
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass, replace

from paddock.limits import REVIEW_FILE_BYTES
from paddock.text import size
from paddock.workspace.changes import Change, Changes, Kind
from paddock.workspace.entries import NOTHING, Entry, Seen, look_closely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from paddock.workspace.danger import Danger
    from paddock.workspace.state import Epoch, History

_PERMISSIONS = 0o777
_OWNER = 0o700


class Action(enum.Enum):
    WRITE = "write"
    LINK = "link"  # a symbolic one
    MKDIR = "mkdir"
    CHMOD = "chmod"
    REMOVE = "remove"
    RMDIR = "rmdir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    action: Action
    path: str
    before: Seen  # what must be in the workspace
    after: Seen  # what the workspace has then
    source: str = ""  # where the content comes from: a path of the upper, or a kept file of an earlier run
    origin: Seen = NOTHING  # the entry of the upper that this brings home

    def __str__(self) -> str:
        match self.action:
            case Action.CHMOD:
                return f"chmod {self.after.mode:04o} {self.path}"
            case Action.LINK:
                return f"link {self.path} -> {self.after.target}"
            case Action.WRITE:
                return f"write {self.path} ({self.after.size} bytes, mode {self.after.mode:04o})"
            case _:
                return f"{self.action.value} {self.path}"


class Why(enum.Enum):
    DANGER = "danger"  # the host would run or obey it: it needs a yes of its own
    CONFLICT = "conflict"  # the workspace is not what the box started from
    REFUSED = "refused"  # it never comes home


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    path: str
    why: Why
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    operations: tuple[Operation, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    dangers: tuple[Withheld, ...] = ()  # of operations that are in it because each got a yes

    def accepting(self, paths: Collection[str]) -> Plan:
        """The same plan, without the dangerous operations that are not among `paths`: one made, shown, and done."""
        refused = tuple(one for one in self.dangers if one.path not in paths)
        gone = {one.path for one in refused}
        return Plan(
            operations=tuple(one for one in self.operations if one.path not in gone),
            withheld=(*self.withheld, *refused),
            dangers=tuple(one for one in self.dangers if one.path not in gone),
        )


class _Doubt(Exception):
    """The workspace may have something else by now than the box started from."""


class Planner:
    """Makes the plan for some changes; `accepted` are the dangers and `overwrite` the conflicts that got a yes each."""

    def __init__(
        self,
        upper: int,
        base: int,
        history: History,
        now: Epoch,
        *,
        dangers: dict[str, tuple[Danger, ...]],
        digests: dict[str, str] | None = None,
        accepted: Collection[str] = (),
        overwrite: Collection[str] = (),
    ) -> None:
        self._upper = upper
        self._base = base
        self._history = history
        self._now = now
        self._dangers = dangers
        self._digests = digests or {}
        self._accepted = accepted
        self._overwrite = overwrite

    def plan(self, changes: Changes, chosen: tuple[Change, ...]) -> Plan:
        withheld = []
        done: dict[str, list[Operation]] = {}
        for change in (*_parents(changes, chosen), *chosen):
            if reason := self._objection(change):
                withheld.append(reason)
                continue
            try:
                done[change.path] = list(self._operations(change))
            except _Doubt as reason_why:
                withheld.append(Withheld(path=change.path, why=Why.CONFLICT, reason=str(reason_why)))
            except OSError as error:
                withheld.append(Withheld(path=change.path, why=Why.REFUSED, reason=f"unreadable: {error.strerror}"))
        return Plan(
            operations=tuple(_ordered([one for many in done.values() for one in many])),
            withheld=tuple(withheld),
            dangers=tuple(self._danger(path) for path in done if path in self._dangers),
        )

    def _danger(self, path: str) -> Withheld:
        reason = "; ".join(f"{one.kind}: {one.why}" for one in self._dangers[path])
        return Withheld(path=path, why=Why.DANGER, reason=reason)

    def _objection(self, change: Change) -> Withheld | None:
        path = change.path
        if change.refused:
            return Withheld(path=path, why=Why.REFUSED, reason=change.refused)
        if change.old.entry is Entry.OTHER:
            reason = "the workspace has a FIFO, socket or device there"
            return Withheld(path=path, why=Why.REFUSED, reason=reason)
        if change.old.size > REVIEW_FILE_BYTES:
            reason = f"the workspace has over {size(REVIEW_FILE_BYTES)} there, too much to keep for an undo"
            return Withheld(path=path, why=Why.REFUSED, reason=reason)
        if path not in self._accepted and path in self._dangers:
            return self._danger(path)
        doubt = self._history.doubt(path, change.old, self._now)
        if doubt and path not in self._overwrite:
            return Withheld(path=path, why=Why.CONFLICT, reason=doubt)
        return None

    def _old(self, change: Change) -> Seen:
        """What must be in the workspace; in doubt again, since others may have applied theirs after the first look."""
        if change.old.entry is not Entry.FILE:
            return change.old
        old = look_closely(self._base, change.path)
        if change.path in self._overwrite:
            return old
        if old.entry is not Entry.FILE:
            raise _Doubt("it was replaced on the host while it was looked at")
        if doubt := self._history.doubt(change.path, old, self._now):
            raise _Doubt(doubt)
        return old

    def _operations(self, change: Change) -> Iterator[Operation]:
        path, new = change.path, change.new
        old = self._old(change)
        if change.kind is Kind.DELETED:
            yield Operation(action=_removal(old), path=path, before=old, after=NOTHING)
            return
        if change.kind is Kind.MODE:
            special = old.mode & ~_PERMISSIONS if old.entry is Entry.DIR else 0  # a box neither gives nor takes them
            after = replace(old, mode=new.mode & _PERMISSIONS | special)
            yield Operation(action=Action.CHMOD, path=path, before=old, after=after, origin=new)
            return
        if new.entry is Entry.DIR:
            yield from _directory(path, new, old)
            return
        action = Action.LINK
        if new.entry is Entry.FILE:
            action = Action.WRITE
            new = look_closely(self._upper, path)
            # What the danger report was about, and not what a box has put there since.
            examined = self._digests.get(path, new.digest)
            if (new.entry, new.mode, new.digest) != (Entry.FILE, change.new.mode, examined):
                raise OSError(errno.ESTALE, "it was changing while it was read", path)
        after = replace(new, mode=new.mode & _PERMISSIONS)
        yield Operation(action=action, path=path, before=old, after=after, source=path, origin=new)


def _directory(path: str, new: Seen, old: Seen) -> Iterator[Operation]:
    """A directory that its owner cannot write to is closed when everything is in it."""
    mode = new.mode & _PERMISSIONS
    made = replace(new, mode=mode | _OWNER)
    yield Operation(action=Action.MKDIR, path=path, before=old, after=made, origin=new)
    if made.mode != mode:
        yield Operation(action=Action.CHMOD, path=path, before=made, after=replace(new, mode=mode), origin=new)


def _parents(changes: Changes, chosen: tuple[Change, ...]) -> list[Change]:
    """Added directories that chosen entries lie in and that were not chosen themselves."""
    have = {change.path for change in chosen}
    wanted = set()
    for change in chosen:
        place = change.path.rpartition("/")[0]
        while place and place not in wanted:
            wanted.add(place)
            place = place.rpartition("/")[0]
    return [
        change
        for change in changes.items
        if change.path in wanted - have and change.kind is Kind.ADDED and change.entry is Entry.DIR
    ]


def _removal(old: Seen) -> Action:
    return Action.RMDIR if old.entry is Entry.DIR else Action.REMOVE


def _ordered(operations: list[Operation]) -> list[Operation]:
    """New content first and removals last, so that an apply that stops halfway has rather more than less.

    But what stands in the way of something new goes before it: all that is in a directory that becomes a file.
    """
    created = {one.path for one in operations if _is_creation(one)}
    early, made, new, late, modes = [], [], [], [], []
    for one in operations:
        if one.action is Action.CHMOD and one.before.entry is Entry.DIR:
            modes.append(one)
        elif one.action is Action.MKDIR:
            made.append(one)
        elif _is_creation(one) or one.action is Action.CHMOD:
            new.append(one)
        elif not created.isdisjoint(_above(one.path)):
            early.append(one)
        else:
            late.append(one)
    return [*_inner_first(early), *made, *new, *_inner_first(late), *_inner_first(modes)]


def _is_creation(one: Operation) -> bool:
    return one.action in {Action.WRITE, Action.LINK, Action.MKDIR}


def _inner_first(operations: list[Operation]) -> list[Operation]:
    return sorted(operations, key=lambda one: (-one.path.count("/"), one.path))


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
