"""The changes of a review box, read and brought home in the process that asks.

What a box wrote is hostile and may be much. So neither the daemon, which holds all boxes, nor anybody else's command
pays for looking at it; and a plan that was shown is carried out by those who showed it, as it stands.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock import limits
from paddock.client.transport import Transport
from paddock.errors import PaddockError, UserError
from paddock.model import BoxInfo, BoxState, WorkspaceMode
from paddock.workspace import review
from paddock.workspace.plan import Plan, Why
from paddock.workspace.review import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from paddock.paths import Paths
    from paddock.workspace.gitdir import Unit
    from paddock.workspace.plan import Withheld
    from paddock.workspace.review import Review
    from paddock.workspace.runs import Done
    from paddock.workspace.textdiff import FileDiff

    Accept = Collection[str] | Callable[[Plan, Withheld], bool]
    Confirm = Callable[[Plan], bool]

_EVERYTHING = ("",)
_PLACES_MAX, _PLACE_CHARS_MAX = 256, 256  # that are named to other boxes
_HINTS = {
    WorkspaceMode.LIVE: "its changes are in the workspace already; `paddock run --review` makes a box that asks first",
    WorkspaceMode.CLONE: "its commits come home with `paddock git BOX fetch`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply did: `result` is None if it was only asked what it would do, or there was nothing to do."""

    plan: Plan
    result: Result | None = None
    recovered: tuple[Result, ...] = ()  # of applies that ended in the middle before
    merged: tuple[Result, ...] = ()  # of conflicts in which both sides' changes fit together

    @property
    def rewritten(self) -> tuple[Done, ...]:
        """What commands of the box wrote to what was applied, in that moment."""
        return tuple(
            late for result in (*self.recovered, self.result, *self.merged) if result for late in result.rewritten
        )

    @property
    def is_whole(self) -> bool:
        results = (self.result, *self.merged) if self.result else self.merged
        return not self.plan.withheld and not any(done.error for result in results for done in result.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Places of the workspace that are not as they were: those known, and whether there are others."""

    places: tuple[str, ...] = ()
    more: bool = False


class Reviewing:
    """The review of one box; nothing is held open between two calls."""

    def __init__(self, paths: Paths, info: BoxInfo) -> None:
        if info.mode is not WorkspaceMode.REVIEW:
            raise UserError(
                f"{info.name!r} is a {info.mode.value} box, which has nothing to review",
                hint=_HINTS[info.mode],
                code="not-review",
            )
        self.nowhere = Touched()
        self.everywhere = Touched(more=True)  # who was interrupted does not know what he did
        self._workspace = info.workspace
        self._box = info.id
        self._is_running = info.state is BoxState.RUNNING
        self._transport = Transport(paths)  # of our own: the caller's may belong to an event loop
        self._directory = f"{paths.boxes}/{info.id}"
        self._turns = paths.apply_lock

    def __repr__(self) -> str:
        return f"<Reviewing {self._directory} over {self._workspace}>"

    @contextlib.contextmanager
    def _open(self) -> Iterator[Review]:
        try:
            with review.at(self._workspace, self._directory, self._refresh, turns=self._turns) as opened:
                yield opened
        finally:
            self._transport.close()

    def _refresh(self) -> None:
        """Have the box look again, at once. A box that is started meanwhile waits for us; one whose daemon is gone
        does not look again before the next one runs, and what it writes until then is found later."""
        if self._is_running:
            with contextlib.suppress(PaddockError):
                self._transport.call("touched", {"box": self._box, "why": ""})

    def diff(self, paths: Collection[str] = (), *, with_lines: bool = True) -> list[FileDiff]:
        with self._open() as opened:
            opened.look_back()
            return list(opened.diff(tuple(paths) or _EVERYTHING, with_lines=with_lines))

    def count(self) -> int:
        """How many changes are not applied."""
        try:
            with self._open() as opened:
                return len(opened.changes().items)
        except FileNotFoundError as error:
            hint = "bring it back, or `paddock rm -f` drops the box with its changes"
            raise UserError(f"the workspace {self._workspace} is gone", hint=hint, code="bad-workspace") from error

    def apply(
        self,
        paths: Collection[str] = (),
        *,
        accept: Accept = (),
        confirm: Confirm | None = None,
        merge: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Bring changes home; those that are dangerous only if `accept` names them, or says yes to each.

        `confirm` is shown all of it before, and what is done is what it was shown, whatever the box does meanwhile.
        With `merge` a file that changed on the host too gets the lines of both, where git has what they started from.
        """
        with self._open() as opened:
            recovered = () if dry_run else opened.recover()
            opened.look_back()
            proposed = opened.propose(tuple(paths) or _EVERYTHING)
            if confirm and not confirm(proposed):
                return Applied(plan=proposed, recovered=recovered)
            plan = proposed.accepting(_accepted(proposed, accept))
            result = None if dry_run or not plan.operations else opened.apply(plan)
            merged = self._merge(opened, plan) if merge and not dry_run else {}
        left = tuple(item for item in plan.withheld if item.path not in merged)
        plan = replace(plan, withheld=left)
        return Applied(plan=plan, result=result, recovered=recovered, merged=tuple(merged.values()))

    def _merge(self, opened: Review, plan: Plan) -> dict[str, Result]:
        """Conflicts that a three-way merge settles; what the host would run or obey is left to its user."""
        paths = [item.path for item in plan.withheld if item.why is Why.CONFLICT]
        units = self._units() if paths else ()
        if not units or not units[0].base:
            return {}
        changed = opened.changes()
        dangers = opened.dangers(changed.items)
        found = {}
        for change in changed.items:
            if change.path not in paths or change.path in dangers:
                continue
            ancestor = _committed(units[0], change.path)
            content = opened.merged(change.path, ancestor) if ancestor is not None else None
            # Once more for what is written: the box may have changed its file since.
            if content is not None and not opened.dangers_of(change, content):
                found[change.path] = opened.apply_merged(change.path, content)
        return found

    def _units(self) -> tuple[Unit, ...]:
        from paddock.workspace import gitdir, repository  # only a merge needs them

        private = gitdir.load(f"{self._directory}/git", repository.find(self._workspace))
        return private.units if private else ()

    def places(self, done: Applied | Result) -> Touched:
        """What an apply or an undo changed in the workspace."""
        results = [done] if isinstance(done, Result) else [*done.recovered, *done.merged, done.result]
        found = [one.path for result in results if result for one in result.done if not one.error]
        named = [path for path in found if len(path) < _PLACE_CHARS_MAX][:_PLACES_MAX]
        return Touched(places=tuple(named), more=len(found) > len(named))

    def undo(self) -> Result:
        with self._open() as opened:
            return opened.undo()

    def discard(self, paths: Collection[str] = ()) -> None:
        with self._open() as opened:
            opened.discard(tuple(paths) or _EVERYTHING)


def _committed(unit: Unit, path: str) -> bytes | None:
    """A file as the commit has it that the box started from."""
    from paddock.workspace import git

    place = git.owned(unit.repository.common_dir, unit.repository.owner)
    words = ["cat-file", "blob", f"{unit.base[0]}:{path}"]
    done = git.hardened(words, place, output_bytes_max=limits.REVIEW_TEXT_BYTES)
    return None if done.code or done.truncated else done.stdout


def _accepted(plan: Plan, accept: Accept) -> Collection[str]:
    if callable(accept):
        return {danger.path for danger in plan.dangers if accept(plan, danger)}
    return accept
