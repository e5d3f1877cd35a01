"""After a crash in the middle of an apply: which files are before and which after, and nothing of ours left about.

Nobody was there to write down how far the run came, so each place is looked at. A temporary name that is still there
holds our staged copy, perhaps a part of it, or what was swapped out a moment ago. It is removed when that is surely no
loss; otherwise it stays, and its name is told.
"""

from __future__ import annotations

import os

from paddock.fs import rename_new
from paddock.workspace import place
from paddock.workspace.entries import Entry, Seen, open_directory
from paddock.workspace.plan import Action, Operation
from paddock.workspace.runs import Done, Outcome, Run

_BEFORE = "interrupted before it was done"
_NEITHER = "interrupted, and the host changed it since"


def recover(run: Run, base: int) -> Outcome:
    """Look at every place of an interrupted run, tidy up and write its outcome."""
    operations = run.intent.operations
    by_path: dict[str, list[int]] = {}
    for index, operation in enumerate(operations):
        by_path.setdefault(operation.path, []).append(index)
    done: dict[int, Done] = {}
    for path, indexes in by_path.items():
        stayed = [name for index in indexes if (name := _tidy(run.temporary(index), operations[index], base))]
        found = _found(base, path)
        reached = _reached(found, [operations[index] for index in indexes])
        for order, index in enumerate(indexes):
            error = "" if order < reached else (_NEITHER if reached < 0 else _BEFORE)
            error = f"interrupted; another version of it lies beside it as {stayed[0]!r}" if stayed else error
            done[index] = Done(path=path, error=error, conflict=reached < 0 or bool(stayed))
    outcome = Outcome(done=tuple(done[index] for index in sorted(done)), interrupted=True)
    run.finish(outcome)
    return outcome


def _reached(found: Seen, operations: list[Operation]) -> int:
    """How many operations on one place were done; -1 if what is there is of no plan of ours."""
    for count in range(len(operations), 0, -1):
        if _is(found, operations[count - 1].after, operations[count - 1]):
            return count
    return 0 if _is(found, operations[0].before, operations[0]) else -1


def _is(found: Seen, wanted: Seen, operation: Operation) -> bool:
    if not found.same_content(wanted):
        return False
    # The mode of a directory is set by an operation of its own, or was the one we found.
    exact = operation.action is Action.CHMOD or found.entry is Entry.FILE
    return not exact or found.mode == wanted.mode


def _found(base: int, path: str) -> Seen:
    directory, _, name = path.rpartition("/")
    try:
        at = open_directory(base, directory)
    except OSError:
        return Seen(entry=Entry.NOTHING)
    try:
        return place.content(at, name)
    finally:
        os.close(at)


def _tidy(temporary: str, operation: Operation, base: int) -> str:
    """Remove what the operation left beside its place; the name is returned if that cannot be done without loss."""
    directory, _, name = operation.path.rpartition("/")
    try:
        at = open_directory(base, directory)
    except OSError:
        return ""  # no directory: no temporary name in it
    try:
        left = place.content(at, temporary)
        if left.entry is Entry.NOTHING:
            return ""
        here = place.content(at, name)
        if (
            operation.action is Action.REMOVE
            and here.entry is Entry.NOTHING
            and not left.same_content(operation.before)
        ):
            rename_new(at, temporary, at, name)  # the host's edit of the last moment
        elif _is_ours(left, here, operation):
            place.remove(at, temporary)
        else:
            return temporary
        return ""
    except place.Conflict:
        return temporary  # the host put something into a directory that we had swapped out
    finally:
        os.close(at)


def _is_ours(left: Seen, here: Seen, operation: Operation) -> bool:
    """Whether the content at the temporary name is known to us: it is kept, or it is in the box, whole or in part."""
    if left.same_content(operation.before) or left.same_content(operation.after):
        return True
    # Not swapped yet, so it can only be a part of the new content.
    not_swapped = operation.before.entry is Entry.NOTHING or here.same_content(operation.before)
    return operation.action is Action.WRITE and not_swapped
