"""What a box has of its workspace besides the files: a gitdir of its own, a clone, and in live mode what is closed.

The parts are workspace's; which of them a mode needs, and when, is decided here. Everything may wait for the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from paddock import codec, fs, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import Mount, WorkspaceMode
from paddock.runtime import bases, sshagents
from paddock.runtime.bases import GIT as _GIT
from paddock.runtime.staleness import Staleness
from paddock.workspace import clone, closed, foreign, gitdir, guarded, identity, index, nested, refs, repository
from paddock.workspace import review as reviews
from paddock.workspace.tree import Memory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from paddock.model import BoxId, BoxSpec
    from paddock.runtime.box import Box
    from paddock.workspace.gitdir import Identity, Unit
    from paddock.workspace.repository import Repository
    from paddock.workspace.review import Review

log = logging.getLogger(__name__)
_TICKS_NS = 10_000_000  # inodes are stamped by a clock that lags behind this much
_SECRETS_SHOWN = 5
_NOT_ALL = "the workspace is too large to look at all of it: repositories in the rest of it are not closed to the box"
_IDENTITY_FRESH_S = 5.0  # asking git costs two processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """Empty directories made in a workspace to be mounted on."""

    workspace: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a live box found in its workspace that the host trusts, to tell at its end what is new."""

    found: nested.Found
    survey: guarded.Survey
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    mounts: tuple[Mount, ...]
    notes: tuple[str, ...] = ()
    before: Before | None = None
    has_foreign: bool = False


class Workspaces:
    """`directory` holds the records of placeholders: another of the `boxes` may need one after that which made it."""

    def __init__(self, directory: str, boxes: Mapping[BoxId, Box]) -> None:
        self._directory = directory
        self._boxes = boxes
        self.staleness = Staleness(boxes)
        self._trees = Memory(guarded.marked)
        self._identities: dict[tuple[str, str], tuple[float, Identity]] = {}
        self._tidying = asyncio.Lock()  # nobody enters a workspace while placeholders that looked unused are taken away

    def __repr__(self) -> str:
        return f"<Workspaces {self._directory}>"

    async def enter(self, box: Box) -> None:
        """Before a box starts."""
        async with self._tidying:
            box.in_place = True
        await self.staleness.entered(box)
        made = await asyncio.to_thread(self._prepare_all, box.row.spec, box.directory)
        box.sight.has_told_foreign = made.has_foreign
        box.view, box.before, box.notes = made.mounts, box.before or made.before, list(made.notes)

    async def look(self, box: Box) -> None:
        """Know what a box would see, without starting it."""
        if not box.view:
            box.view = await asyncio.to_thread(self.prepare, box.row.spec, box.directory)

    async def left(self, box: Box) -> None:
        """After a box has ended."""
        box.in_place = False
        await self.staleness.left(box)
        async with self._tidying:
            busy = [other.row.spec.workspace for other in self._boxes.values() if other.in_place]
            await asyncio.to_thread(self.leave, busy)

    async def released(self, box: Box) -> None:
        """Wait for whoever applies changes of the box: its record of them lies in its directory."""
        state = f"{box.directory}/review/state"
        if box.row.spec.mode is WorkspaceMode.REVIEW and not fs.is_missing(state):
            await asyncio.to_thread(_await_lock, f"{state}/lock")

    def prepare(self, spec: BoxSpec, directory: str) -> tuple[Mount, ...]:
        """Make what is missing and say what is to be mounted; UserError if the workspace is not fit for the mode."""
        return self._prepare_all(spec, directory).mounts

    def _prepare_all(self, spec: BoxSpec, directory: str) -> Prepared:
        made = self._prepare(spec, directory)
        mounts, notes = sshagents.prepare(spec, directory)
        return replace(made, mounts=(*made.mounts, *mounts), notes=(*made.notes, *notes))

    def _prepare(self, spec: BoxSpec, directory: str) -> Prepared:
        _require_the_same(spec.workspace)
        found = repository.find(spec.workspace)
        match spec.mode:
            case WorkspaceMode.LIVE:
                return self._live(spec, directory, found)
            case WorkspaceMode.REVIEW:
                private = self._private(spec, directory, found)
                _open_layers(spec, directory)
                others = foreign.near_the_top(spec.workspace, limits.FOREIGN_LOOK_ENTRIES)
                seen = _secrets(spec, guarded.visible_secrets(spec.workspace))
                hidden = _in_history(spec, found)
                notes = (*private.notes, *seen, *hidden, *([foreign.words(others)] if others else []))
                return Prepared(mounts=private.mounts, notes=notes, has_foreign=bool(others))
            case WorkspaceMode.CLONE:
                return Prepared(mounts=self._clone(spec, directory, found), notes=_in_history(spec, found))
            case _:
                assert_never(spec.mode)

    def leave(self, busy: Collection[str]) -> None:
        """Take away the placeholders that no box needs; `busy` are the workspaces of those that run or start.

        Removing the directory under a mount would take the mount away in every box.
        """
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return
        for name in names:
            try:
                with open(f"{self._directory}/{name}", "rb") as file:
                    record = codec.from_wire(Placeholders, json.loads(file.read()))
                if any(_overlap(record.workspace, place) for place in busy):
                    continue
                closed.tidy(record.workspace, record.paths)
            except (ValueError, PaddockError) as error:  # damaged, or the workspace is gone
                log.warning("placeholders of %s: %s", name, error)
            os.unlink(f"{self._directory}/{name}")

    def _live(self, spec: BoxSpec, directory: str, found: Repository) -> Prepared:
        before = self.survey(spec.workspace)
        private = self._private(spec, directory, found)
        guards = closed.guards(f"{directory}/{_GIT}", found, before.found.nested, spec.caller_home)
        if guards.placeholders:
            self._remember(spec.workspace, guards.placeholders)
        trusted = guarded.mounts(spec.workspace, guarded.existing(spec.workspace), spec.writable)
        mounts = tuple(dict.fromkeys((*private.mounts, *guards.mounts, *trusted)))
        notes = (*private.notes, *_secrets(spec, before.survey.secrets), *_in_history(spec, found))
        notes = notes if before.found.complete else (*notes, _NOT_ALL)
        return Prepared(mounts=mounts, notes=notes, before=before)

    def survey(self, workspace: str) -> Before:
        """Every place below a workspace that the host trusts, found in one walk."""
        since_ns = time.time_ns() - _TICKS_NS
        places = guarded.Survey()
        found = nested.find(workspace, self._trees, look=places.look)
        return Before(found=found, survey=places, since_ns=since_ns)

    def _remember(self, workspace: str, paths: tuple[str, ...]) -> None:
        fs.make_private_dir(self._directory)
        name = hashlib.sha256(os.fsencode("\0".join((workspace, *paths)))).hexdigest()[:32]
        record = Placeholders(workspace=workspace, paths=paths)
        # Not synced, which would cost a start more than all else here: lost with the machine, an empty directory stays.
        fs.write_atomic(f"{self._directory}/{name}", json.dumps(codec.to_wire(record)).encode(), sync=False)

    def _private(self, spec: BoxSpec, directory: str, found: Repository) -> gitdir.Private:
        place = f"{directory}/{_GIT}"
        if known := gitdir.load(place, found):
            bases.keep_on(known.units, directory)
            return known
        who = self._identity(spec.caller_home, found)
        same_ids, stays = os.getuid() != 0, not spec.ephemeral
        made = gitdir.make(place, found, who=who, shown=_shown(spec), same_ids=same_ids, stays=stays)
        bases.keep(made.units, directory, durable=stays)
        return made

    def _clone(self, spec: BoxSpec, directory: str, found: Repository) -> tuple[Mount, ...]:
        place = f"{directory}/{_GIT}"
        if known := clone.load(place, found, spec.branch):
            bases.keep_on(known.private.units, directory)
            return known.private.mounts
        made = clone.make(
            place,
            found,
            branch=branch_of(spec),
            who=self._identity(spec.caller_home, found),
            shown=_shown(spec),
            same_ids=os.getuid() != 0,
            keep=lambda units: bases.keep(units, directory, durable=not spec.ephemeral),
        )
        return made.private.mounts

    def _identity(self, home: str, found: Repository) -> Identity:
        try:
            return identity.read(home, found) or self._asked_identity(home, found)
        except Unavailable as error:
            log.info("no name to commit with: %s", error)  # a host without git has boxes too
            return gitdir.Identity()

    def _asked_identity(self, home: str, found: Repository) -> Identity:
        key = (home, found.git_dir)
        known = self._identities.get(key)
        if known is None or time.monotonic() - known[0] > _IDENTITY_FRESH_S:
            who = gitdir.identity(home, found)
            self._identities.clear()
            known = self._identities[key] = (time.monotonic(), who)
        return known[1]


def check(spec: BoxSpec) -> None:
    """Before a box is made: UserError if its mode could never work. Waits for the disk."""
    if spec.mode is WorkspaceMode.CLONE:
        clone.check(repository.find(spec.workspace), branch_of(spec))
    if spec.mode is WorkspaceMode.REVIEW and spec.ephemeral:
        hint = "make a box that stays; `paddock rm` removes it when its changes are applied"
        raise UserError("a box of one command would take its review with it", hint=hint, code="usage")


def branch_of(spec: BoxSpec) -> str:
    return spec.branch or f"paddock/{spec.name}"


def units(spec: BoxSpec, directory: str) -> tuple[Unit, ...]:
    """The repositories of the host that a box has twins of; none before its first start."""
    private = gitdir.load(f"{directory}/{_GIT}", repository.find(spec.workspace))
    return private.units if private else ()


def _in_history(spec: BoxSpec, found: Repository) -> tuple[str, ...]:
    """A mask hides a file; git's history, which a box can read, may have it all the same."""
    if not spec.masks or found.kind is repository.Kind.NONE:
        return ()
    with repository.opened(found.git_dir) as fd:
        data = refs.read_bytes(fd, "index", limits.GIT_INDEX_BYTES)
    known = [path for path in spec.masks if index.names(data, path)]
    return tuple(
        f"{path} is hidden, but committed: the box can read it in the history of the repository" for path in known
    )


def _secrets(spec: BoxSpec, found: list[str]) -> tuple[str, ...]:
    seen = guarded.unmasked(found, spec.masks)
    if not seen:
        return ()
    shown = ", ".join(seen[:_SECRETS_SHOWN]) + (
        f" and {len(seen) - _SECRETS_SHOWN} more" if seen[_SECRETS_SHOWN:] else ""
    )
    hint = f"to hide such files make it with {guarded.mask_words(seen[:_SECRETS_SHOWN])}"
    return (f"the box can read {shown}; {hint}",)


def _open_layers(spec: BoxSpec, directory: str) -> None:
    with review(spec, directory) as layers:
        layers.opened()


def _await_lock(path: str) -> None:
    with fs.FileLock(path):
        pass


def review(spec: BoxSpec, directory: str) -> Review:
    """What a review box changed; its layers are where the engine mounts them from."""
    return reviews.at(spec.workspace, directory)


def _require_the_same(workspace: str) -> None:
    """The engine looks again when it opens it; here nothing may be made in another place meanwhile."""
    if os.path.realpath(workspace) != workspace:
        hint = "make sure that no other box can write to its parent directories"
        raise UserError(f"{workspace} was replaced: a link is in the way", hint=hint, code="replaced")


def _shown(spec: BoxSpec) -> tuple[str, ...]:
    return tuple(mount.source for mount in spec.mounts)


def _overlap(one: str, other: str) -> bool:
    return fs.is_beneath(one, other) or fs.is_beneath(other, one)
