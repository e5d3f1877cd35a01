"""The record of applies: what each intends, what it replaced, and how it ended.

A run is a directory: `intent.json`, on disk before the first step; `kept/<n>`, the content that operation n replaces;
`outcome.json`, when all is done; `settled`, when the upper layer followed; `upper/<n>`, what was taken out of that;
`closed`, when no process is left that could write there. A run that is not settled was interrupted. What it did then is
not read from a log, which may lag behind, but found by looking: each place holds what the intent says was there before,
or what is there after.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from paddock import codec
from paddock.errors import Unavailable
from paddock.fs import make_private_dir, remove_tree, sync_directory, write_atomic
from paddock.limits import REVIEW_UNDO_MAX
from paddock.workspace.plan import Operation

_INTENT, _OUTCOME, _KEPT, _SETTLED, _SPENT = "intent.json", "outcome.json", "kept", "settled", "spent"
_ASIDE, _LOOKED, _CLOSED = "upper", "looked", "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How one operation ended. `error` is empty if it was done."""

    path: str
    error: str = ""
    conflict: bool = False
    was_there: bool = False  # a directory that existed already: nothing to undo


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    mark: str  # part of every temporary name of this run
    undoes: int = 0  # the run that this one takes back
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    done: tuple[Done, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    number: int
    directory: str
    intent: Intent

    def __repr__(self) -> str:
        return f"<Run {self.number} of {len(self.intent.operations)} operations>"

    @property
    def kept(self) -> str:
        return os.path.join(self.directory, _KEPT)

    @property
    def aside(self) -> str:
        return os.path.join(self.directory, _ASIDE)

    @property
    def is_spent(self) -> bool:
        return os.path.exists(os.path.join(self.directory, _SPENT))

    def temporary(self, index: int) -> str:
        """The name an operation uses beside its place."""
        return f".paddock-{self.intent.mark}-{index}"

    def outcome(self) -> Outcome | None:
        data = _load(os.path.join(self.directory, _OUTCOME))
        return None if data is None else codec.from_wire(Outcome, data)

    def finish(self, outcome: Outcome) -> None:
        _save(os.path.join(self.directory, _OUTCOME), outcome)

    def settle(self) -> None:
        """The upper layer has followed; a lost mark has it follow again, which changes nothing."""
        _touch(os.path.join(self.directory, _SETTLED))

    def spend(self) -> None:
        """From now on no undo takes this run back: one has, or it is one."""
        _touch(os.path.join(self.directory, _SPENT))

    def looked(self) -> int:
        """When what was taken out of the upper was last compared with what came home; 0 if never."""
        try:
            return os.stat(os.path.join(self.directory, _LOOKED)).st_mtime_ns
        except FileNotFoundError:
            return 0

    def look(self, at_ns: int) -> None:
        place = os.path.join(self.directory, _LOOKED)
        _touch(place)
        os.utime(place, ns=(at_ns, at_ns))

    def close(self) -> None:
        """No process of the box is left from before the run."""
        _touch(os.path.join(self.directory, _CLOSED))


class Runs:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def begin(self, operations: tuple[Operation, ...], undoes: int = 0) -> Run:
        number = max(self._numbers(), default=0) + 1
        run = Run(
            number=number,
            directory=os.path.join(self._directory, str(number)),
            intent=Intent(mark=os.urandom(6).hex(), undoes=undoes, operations=operations),
        )
        make_private_dir(run.kept)
        if undoes:
            run.spend()
        _save(os.path.join(run.directory, _INTENT), run.intent)
        sync_directory(self._directory)
        return run

    def interrupted(self) -> list[Run]:
        """Runs that did not come to their end, oldest first."""
        return [run for number in self._numbers() if not self._has(number, _SETTLED) and (run := self._run(number))]

    def open(self) -> list[Run]:
        """Runs that brought something home while processes may have run that still run."""
        return [
            run
            for number in self._numbers()
            if self._has(number, _SETTLED) and self._has(number, _ASIDE) and not self._has(number, _CLOSED)
            if (run := self._run(number))
        ]

    def last(self) -> Run | None:
        """The run that an undo takes back: the newest that did something and was not taken back."""
        for number in reversed(self._numbers()):
            if not self._has(number, _SPENT) and (run := self._run(number)) and _did_something(run):
                return run
        return None

    def get(self, number: int) -> Run | None:
        return self._run(number)

    def _has(self, number: int, name: str) -> bool:
        return os.path.exists(os.path.join(self._directory, str(number), name))

    def _run(self, number: int) -> Run | None:
        directory = os.path.join(self._directory, str(number))
        data = _load(os.path.join(directory, _INTENT))
        if data is None:
            return None  # it ended before it had an intent, so it did nothing
        return Run(number=number, directory=directory, intent=codec.from_wire(Intent, data))

    def prune(self) -> None:
        """Drop the oldest runs beyond those that can be undone."""
        for number in self._numbers()[:-REVIEW_UNDO_MAX]:
            remove_tree(os.path.join(self._directory, str(number)))

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._directory) if name.isdigit())
        except FileNotFoundError:
            return []


def _did_something(run: Run) -> bool:
    outcome = run.outcome()
    return outcome is not None and any(not done.error for done in outcome.done)


def _save(path: str, value: Intent | Outcome) -> None:
    write_atomic(path, json.dumps(codec.to_wire(value), separators=(",", ":")).encode("ascii"))


def _load(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        hint = "move its directory away; what it replaced is in it"
        raise Unavailable(f"cannot read {path!r}: {error}", hint=hint, code="review-state") from error


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
