"""Review mode in one object: what a box changed, what of it may come home, and bringing it there.

The runtime calls `opened` right before it mounts the overlay, each time, and remounts whenever a call here answers that
the box is stale. All else is for `paddock diff`, `apply` and `discard`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, replace

from paddock.errors import UserError
from paddock.fs import LISTABLE, FileLock, is_missing, make_private_dir, open_beneath, write_atomic
from paddock.limits import APPLY_TURN_S, REVIEW_TEXT_BYTES
from paddock.workspace import changes, obeyed, recovery, state
from paddock.workspace.aftermath import Aftermath
from paddock.workspace.apply import Execution
from paddock.workspace.danger import Danger, Examiner, classify
from paddock.workspace.entries import Entry, look_closely, read_file
from paddock.workspace.merge import merge
from paddock.workspace.plan import Action, Operation, Plan, Planner
from paddock.workspace.runs import Done, Outcome, Run, Runs
from paddock.workspace.textdiff import Differ, FileDiff
from paddock.workspace.upper import Home, Upper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Self

    from paddock.workspace.changes import Change, Changes
    from paddock.workspace.state import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an apply or an undo did, place by place. The box is stale if `done` has anything without an error."""

    run: int
    done: tuple[Done, ...] = ()
    rewritten: tuple[Done, ...] = ()  # came home, and a command of the box wrote to it in that moment
    interrupted: bool = False  # told about a run that ended in the middle, found by a later one

    @property
    def conflicts(self) -> tuple[Done, ...]:
        return tuple(done for done in self.done if done.conflict)

    @property
    def stale(self) -> bool:
        return any(not done.error for done in self.done)


def _nobody() -> None:
    """A box that does not run has nothing to look at again."""


class Review:
    """A context manager: `with Review(base, upper, state_dir) as review`.

    `refresh` has a box that runs remounted; `turns` is the file of a lock that all boxes share which may apply to one
    workspace.
    """

    def __init__(
        self, base: str, upper: str, state_dir: str, refresh: Callable[[], None] = _nobody, *, turns: str = ""
    ) -> None:
        self._refresh = refresh
        self._turns = turns or os.path.join(state_dir, "turns")
        self._paths = (base, upper)
        self._state = state_dir
        self._runs = Runs(os.path.join(state_dir, "runs"))
        self._base = self._upper = -1

    def __repr__(self) -> str:
        return f"<Review {self._paths[1]} over {self._paths[0]} {'open' if self._base >= 0 else 'closed'}>"

    def __enter__(self) -> Self:
        make_private_dir(self._state)
        self._base = _open_workspace(self._paths[0])
        try:
            self._upper = os.open(self._paths[1], LISTABLE)
        except OSError:
            os.close(self._base)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._upper)
        os.close(self._base)
        self._base = self._upper = -1

    def opened(self) -> None:
        """The overlay is about to be mounted: from now on a change of the workspace is a conflict."""
        with self._lock():
            self._look_back(is_last=True)
            state.begin(self._state, self._upper, self._base)

    def moment(self) -> Epoch:
        """To be taken before a box that runs looks again, for `seen_again`."""
        return state.now(self._base)

    def seen_again(self, at: Epoch) -> None:
        """No process was in the box after it looked again: what comes now starts from what was there at that moment."""
        with self._lock():
            state.begin(self._state, self._upper, self._base, at)

    def look_back(self) -> tuple[Done, ...]:
        """What processes of the box wrote to files that had just come home. The box is stale if there is any."""
        if not self._runs.open():
            return ()
        with self._lock():
            return self._look_back()

    def changes(self) -> Changes:
        return changes.read(self._upper, self._base)

    def dangers(self, chosen: Iterable[Change]) -> dict[str, tuple[Danger, ...]]:
        """What the host would run or obey, by path."""
        return self._examiner().examine(chosen)

    def diff(self, paths: Collection[str] = ("",), *, with_lines: bool = True) -> Iterator[FileDiff]:
        """The changes at and below these paths, each with its dangers; without lines they are only counted."""
        found = self.changes()
        chosen = found.below(paths)
        _check_found(paths, chosen)
        dangers = self.dangers(found.items)
        yield from Differ(self._upper, self._base, with_lines=with_lines).diffs(chosen, dangers)

    def plan(
        self,
        paths: Collection[str] = ("",),
        *,
        accepted: Collection[str] = (),
        overwrite: Collection[str] = (),
        found: Changes | None = None,
    ) -> Plan:
        """What an apply of these paths would do. Dangers need their path in `accepted`, conflicts in `overwrite`."""
        found = found or self.changes()
        chosen = found.below(paths)
        _check_found(paths, chosen)
        examiner = self._examiner()
        planner = Planner(
            self._upper,
            self._base,
            state.load(self._state),
            state.now(self._base),
            dangers=examiner.examine(found.items),
            digests=examiner.digests,
            accepted=accepted,
            overwrite=overwrite,
        )
        return planner.plan(found, chosen)

    def propose(self, paths: Collection[str] = ("",)) -> Plan:
        """A plan with every danger in it, for someone who answers them one by one: see Plan.accepting."""
        found = self.changes()
        return self.plan(paths, accepted={change.path for change in found.items}, found=found)

    def apply(self, plan: Plan) -> Result:
        """Carry out a plan and take what came home out of the upper."""
        with self._turn(), self._lock():
            self._recover()
            run = self._runs.begin(plan.operations)
            with Execution(run, self._base, self._upper) as execution:
                outcome = execution.execute()
            rewritten = self._settle(run, outcome)
            self._runs.prune()
        return Result(run=run.number, done=outcome.done, rewritten=rewritten)

    def merged(self, path: str, ancestor: bytes) -> bytes | None:
        """A file with what both the host and the box did to `ancestor`; None if they touched the same lines."""
        ours = read_file(self._base, path, REVIEW_TEXT_BYTES)
        theirs = read_file(self._upper, path, REVIEW_TEXT_BYTES)
        return None if ours is None or theirs is None else merge(ancestor, ours, theirs)

    def dangers_of(self, change: Change, content: bytes) -> tuple[Danger, ...]:
        """What the host would run or obey of a merged file."""
        return classify(change, read_file(self._base, change.path, REVIEW_TEXT_BYTES), content)

    def apply_merged(self, path: str, content: bytes) -> Result:
        """Give the workspace this content, as `merged` made it and the user saw it, in place of the box's version."""
        with self._turn(), self._lock():
            self._recover()
            before, origin = look_closely(self._base, path), look_closely(self._upper, path)
            if (before.entry, origin.entry) != (Entry.FILE, Entry.FILE):
                raise UserError(f"{path!r} is not a file on both sides", hint="apply or discard it as it is")
            after = replace(before, size=len(content), digest=hashlib.sha256(content).hexdigest())
            operation = Operation(
                action=Action.WRITE, path=path, before=before, after=after, source="merged", origin=origin
            )
            run = self._runs.begin((operation,))
            write_atomic(os.path.join(run.directory, "merged"), content)
            outcome = self._execute(run, run.directory)
            rewritten = self._settle(run, outcome)
        return Result(run=run.number, done=outcome.done, rewritten=rewritten)

    def recover(self) -> tuple[Result, ...]:
        """Finish the record of runs that ended in the middle, and say how each of their files was left."""
        if not self._runs.interrupted():
            return ()
        with self._turn(), self._lock():
            return self._recover()

    def undo(self) -> Result:
        """Take the last apply back, file by file; the box has the changes again."""
        with self._turn(), self._lock():
            self._recover()
            last = self._runs.last()
            if last is None:
                raise UserError("there is no apply to undo", hint="`paddock diff` shows what is not applied yet")
            outcome = last.outcome()
            assert outcome is not None
            run = self._runs.begin(_inverse(last, outcome), undoes=last.number)
            outcome = self._execute(run, last.kept)
            self._unsettle(last, run, outcome)
        return Result(run=run.number, done=outcome.done)

    def discard(self, paths: Collection[str] = ("",)) -> None:
        """Drop what the box changed at and below these paths. The box is stale afterwards."""
        with self._lock():
            places = [path.strip("/") for path in paths]
            Upper(self._upper, self._base).discard(places)
            state.forget(self._state, places)

    # -- internals -------------------------------------------------------------------------------------------------

    def _examiner(self) -> Examiner:
        return Examiner(self._upper, self._base, obeyed.known(self._paths[0]))

    def _lock(self) -> FileLock:
        return FileLock(os.path.join(self._state, "lock"))

    def _turn(self) -> FileLock:
        """Who swaps and finds that another was there first swaps back: of three at once, any of them comes back."""
        return FileLock(self._turns, wait_s=APPLY_TURN_S)

    def _execute(self, run: Run, directory: str) -> Outcome:
        """Carry out a run whose content lies in a directory of ours."""
        source = os.open(directory, LISTABLE)
        try:
            with Execution(run, self._base, source) as execution:
                return execution.execute()
        finally:
            os.close(source)

    def _recover(self) -> tuple[Result, ...]:
        results = []
        for run in self._runs.interrupted():
            outcome = run.outcome() or recovery.recover(run, self._base)
            if not run.intent.undoes:
                self._settle(run, outcome)
            elif undone := self._runs.get(run.intent.undoes):
                self._unsettle(undone, run, outcome)
            results.append(Result(run=run.number, done=outcome.done, interrupted=True))
        return tuple(results)

    def _look_back(self, *, is_last: bool = False) -> tuple[Done, ...]:
        found: list[Done] = []
        for run in self._runs.open():
            outcome = run.outcome()
            if outcome is not None:
                with self._aftermath(run) as aftermath:
                    aftermath.look(_homes(run, outcome))
                found += aftermath.found
            if is_last:
                run.close()
        return tuple(found)

    @contextlib.contextmanager
    def _aftermath(self, run: Run) -> Iterator[Aftermath]:
        with _aside(run) as aside:
            yield Aftermath(run, Upper(self._upper, self._base), aside, self._refresh)

    def _settle(self, run: Run, outcome: Outcome) -> tuple[Done, ...]:
        with self._aftermath(run) as aftermath:
            aftermath.drop(_homes(run, outcome))
        self._pin(run, outcome)
        run.settle()
        state.await_tick()
        return tuple(aftermath.found)

    def _pin(self, run: Run, outcome: Outcome) -> None:
        """What came home is what the box has: when it goes on from there, that is no conflict."""
        known = {}
        for operation, done in zip(run.intent.operations, outcome.done, strict=True):
            if not done.error and operation.after.entry is Entry.FILE:
                there = look_closely(self._base, operation.path)
                if there.digest == operation.after.digest:
                    known[operation.path] = there
        if known:
            state.pin(self._state, known)

    def _unsettle(self, last: Run, run: Run, outcome: Outcome) -> None:
        """Give the box back what was taken back from the workspace."""
        back = {done.path for done in outcome.done if not done.error}
        first = last.outcome()
        assert first is not None
        with _aside(last) as aside:
            homes = [home for home in _homes(last, first) if home.path in back]
            Upper(self._upper, self._base).restore(homes, aside)
        self._refresh()
        state.pin(self._state, {path: look_closely(self._base, path) for path in back})
        if back:
            last.spend()
        run.settle()


def at(workspace: str, directory: str, refresh: Callable[[], None] = _nobody, *, turns: str = "") -> Review:
    """The review of a box whose files lie in `directory`; its layers are where the engine mounts them from."""
    upper = f"{directory}/review/upper"
    if is_missing(upper):
        os.makedirs(upper, 0o700)
        os.chmod(upper, os.stat(workspace).st_mode & 0o777)
    return Review(workspace, upper, f"{directory}/review/state", refresh, turns=turns)


def _open_workspace(path: str) -> int:
    """By its real path: a live box on a directory above may have put a link on the way, to have us write elsewhere."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(top, path.lstrip("/"), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        hint = "make sure that no other box can write to its parent directories"
        raise UserError(f"{path} was replaced: {error.strerror}", hint=hint, code="replaced") from error
    finally:
        os.close(top)


def _check_found(paths: Collection[str], chosen: tuple[Change, ...]) -> None:
    places = {place for change in chosen for place in (change.path, *_above(change.path))}
    for path in paths:
        if path.strip("/") and path.strip("/") not in places:
            raise UserError(f"the box changed nothing at {path!r}", hint="`paddock diff` shows what it changed")


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


@contextlib.contextmanager
def _aside(run: Run) -> Iterator[int]:
    """The directory for what is taken out of the upper."""
    make_private_dir(run.aside)
    fd = os.open(run.aside, LISTABLE)
    try:
        yield fd
    finally:
        os.close(fd)


def _homes(run: Run, outcome: Outcome) -> list[Home]:
    """The entries of the upper that a run brought home; of several operations on a place the last counts."""
    found: dict[str, Home] = {}
    for index, (operation, done) in enumerate(zip(run.intent.operations, outcome.done, strict=True)):
        if not done.error:
            found[operation.path] = Home(path=operation.path, origin=operation.origin, name=str(index))
    return list(found.values())


def _inverse(run: Run, outcome: Outcome) -> tuple[Operation, ...]:
    """The operations that take a run back, last one first."""
    found = []
    for index, (operation, done) in enumerate(zip(run.intent.operations, outcome.done, strict=True)):
        if done.error or done.was_there:
            continue
        found.append(
            Operation(
                action=_opposite(operation),
                path=operation.path,
                before=operation.after,
                after=operation.before,
                source=str(index),
            )
        )
    return tuple(reversed(found))


def _opposite(operation: Operation) -> Action:
    if operation.action is Action.CHMOD:
        return Action.CHMOD
    match operation.before.entry:
        case Entry.NOTHING:
            return Action.RMDIR if operation.action is Action.MKDIR else Action.REMOVE
        case Entry.SYMLINK:
            return Action.LINK
        case Entry.DIR:
            return Action.MKDIR
        case _:
            return Action.WRITE
