"""The secrets and budgets of boxes: placeholders are kept with each box, values in memory and for the gateway alone.

A value that came with a request (a variable of the caller's shell) lives as long as this daemon; the others are looked
up anew for every document. A secret without a value is told to the gateway as missing, and it says so to the box.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError, UserError
from paddock.limits import SECRET_RECORD_BYTES, SECRETS_PER_BOX
from paddock.metering import apis
from paddock.model import Budget
from paddock.policy import Host, Pattern
from paddock.runtime import threads
from paddock.secrets import boxes, ownfile, services
from paddock.secrets.boxes import Exported, Held
from paddock.secrets.record import Kind
from paddock.secrets.value import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from paddock.gateway.purse import Spending
    from paddock.model import SecretUse
    from paddock.policy import Evaluator
    from paddock.runtime.box import Box
    from paddock.secrets.binding import Binding
    from paddock.secrets.store import Store

    SpendingOf = Callable[[Box], Spending]

log = logging.getLogger(__name__)
FILE = "secrets.json"
_FILE_BYTES = SECRETS_PER_BOX * SECRET_RECORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What lies beside a box: no value is in it, and its placeholders are worth nothing in another box."""

    held: tuple[Held, ...]


class Credentials:
    def __init__(self, store: Store, environ: Mapping[str, str], spending_of: SpendingOf) -> None:
        self._store = store
        self._environ = environ
        self._spending_of = spending_of
        self._held: dict[str, tuple[Held, ...]] = {}
        self._given: dict[str, dict[str, Secret]] = {}
        self._locks: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)
        self.changes = 0  # how often anything was changed
        self._seen: dict[str, int] = {}  # how many of them a box's last document has

    def __repr__(self) -> str:
        return f"<Credentials {len(self._held)} boxes, {self.changes} changes>"

    # -- a box comes and goes ------------------------------------------------------------------------------------------

    def hold(self, uses: Sequence[SecretUse], env: Mapping[str, str], box: Box | None = None) -> tuple[Held, ...]:
        """Placeholders for a box, new ones but for those that it has.

        UserError for a secret that nobody set, or that clashes with another variable.
        """
        had = {} if box is None else {item.name: item for item in self.held(box)}
        same = set() if box is None else {use.name for use in box.row.spec.secrets if use in uses} & had.keys()
        bound = [had[use.name].binding if use.name in same else self._binding(use) for use in uses]
        held = boxes.hold(bound, {name: item.placeholder for name, item in had.items()})
        for variable in boxes.environment(held):
            if variable in env:
                hint = "leave out -e: the box has a placeholder in it"
                raise UserError(f"{variable} is the variable of a secret", hint=hint, code="secret-clash")
        return held

    def keep(self, box: Box, held: tuple[Held, ...]) -> None:
        data = json.dumps(codec.to_wire(Kept(held=held)), indent=1).encode() + b"\n"
        fs.write_atomic(f"{box.directory}/{FILE}", data, sync=not box.row.spec.ephemeral)
        self._held[box.row.id] = held

    def give(self, box: Box, values: Mapping[str, Secret]) -> None:
        """Values of the caller's environment, for this box and in memory only."""
        names = {use.name for use in box.row.spec.secrets}
        if taken := {name: value for name, value in values.items() if name in names}:
            self._given.setdefault(box.row.id, {}).update(taken)
            self.changes += 1

    def given(self, box: Box) -> dict[str, Secret]:
        """What give() got for it."""
        return dict(self._given.get(box.row.id, {}))

    def wanting(self, box: Box) -> dict[str, str]:
        """Variables of the caller's shell by the secrets whose values this daemon does not have, as after its start."""
        given = self._given.get(box.row.id, {})
        found = {}
        for use in box.row.spec.secrets:
            with contextlib.suppress(PaddockError):  # one that is gone is told of with the document
                if use.name not in given and (variable := self._variable(use)):
                    found[use.name] = variable
        return found

    def forget(self, box_id: str) -> None:
        for table in (self._held, self._given, self._locks, self._seen):
            table.pop(box_id, None)

    # -- what a box and the gateway get --------------------------------------------------------------------------------

    def environment(self, box: Box) -> dict[str, str]:
        return boxes.environment(self.held(box)) if box.row.spec.secrets else {}

    def held(self, box: Box) -> tuple[Held, ...]:
        if not box.row.spec.secrets:
            return ()
        known = self._held.get(box.row.id)
        if known is None:
            known = self._held[box.row.id] = self._read(box)
        names = {use.name for use in box.row.spec.secrets}
        return tuple(item for item in known if item.name in names)  # more is kept just before a box gets more

    def telling(self, box: Box) -> asyncio.Lock:
        """Held from the making of a document until the gateway has it: no older one may come after a newer."""
        return self._locks[box.row.id]

    async def document(self, box: Box) -> bytes:
        """The box's document for the gateway, with values in it; empty for a box that has nothing to hide.

        What is missing is noted for whoever runs the next command.
        """
        if not self.concern(box):
            return b""
        self._seen[box.row.id] = self.changes
        held, values, problems = await threads.aside(self._look_up, box)
        known = tuple(_no_value(name) for name in values)  # noted before they were given
        box.notes = [note for note in box.notes if not known or not note.startswith(known)]
        box.notes += [problem for problem in problems if problem not in box.notes]
        document: dict[str, object] = {"secrets": boxes.entries(held, values)}
        if meter := _metered(box.row.spec.budget, held):
            document |= {"meter": meter, "spending": codec.to_wire(self._spending_of(box))}
        return json.dumps(document).encode("ascii")

    def concern(self, box: Box) -> bool:
        """Whether requests of the box have to be seen."""
        return bool(box.row.spec.secrets) or box.row.spec.budget != Budget()

    def is_behind(self, box: Box) -> bool:
        """Whether something may have changed since its last document was begun."""
        return self.concern(box) and self._seen.get(box.row.id) != self.changes

    def notes(self, box: Box, evaluator: Evaluator) -> list[str]:
        """Secrets none of whose hosts a rule allows: they open nothing by themselves."""
        said = []
        for item in self.held(box):
            bound = item.binding
            names = [pattern.name for pattern in bound.patterns if not pattern.wildcard]
            if names and not any(evaluator.decide(Host(name), bound.port).allowed for name in names):
                allow = " ".join(f"--allow-host {name}" for name in names)
                said.append(f"no rule allows {', '.join(names)}, where the secret '{item.name}' goes; run with {allow}")
        return said

    def _look_up(self, box: Box) -> tuple[list[Held], dict[str, Secret], list[str]]:
        held, values, problems = [], {}, []
        uses = {use.name: use for use in box.row.spec.secrets}
        for item in self.held(box):
            use = uses.get(item.name)
            if use is None:  # given this moment: another document follows
                continue
            try:
                held.append(replace(item, binding=self._binding(use)))  # as it is bound now
                values[item.name] = self._value(box, use)
            except PaddockError as error:
                if not held or held[-1].name != item.name:
                    held.append(item)
                problems.append(error.message)
        return held, values, problems

    def _binding(self, use: SecretUse) -> Binding:
        """What the user has set; for a variable of the caller's shell what is known of the service."""
        if use.variable:
            if services.find(use.name) is None:
                raise UserError(f"there is no service '{use.name[:64]}'", code="unknown-secret")
            bound = Exported(service=use.name, variable=use.variable).binding()
        else:
            bound = self._store.record(use.name).binding
        if not use.read_only:
            return bound
        if bound.git is None:
            hint = f"`paddock secret set {use.name} --repo OWNER/NAME` limits it to repositories; or leave out :ro"
            raise UserError(f"the secret '{use.name}' has no repositories to read only", hint=hint, code="bad-secret")
        return replace(bound, git=replace(bound.git, write=False))

    def _value(self, box: Box, use: SecretUse) -> Secret:
        variable = self._variable(use)
        if not variable:
            return self._store.resolve(use.name, self._environ)
        given = self._given.get(box.row.id, {}).get(use.name)
        if given is None:
            raise UserError(_not_set(use.name, variable), code="no-secret")
        return given

    def _variable(self, use: SecretUse) -> str:
        """Of the caller's shell, which the value comes from; empty if it comes from elsewhere."""
        if use.variable:
            return use.variable
        record = self._store.record(use.name)
        return record.source.words[0] if record.source.kind is Kind.ENV else ""

    def _read(self, box: Box) -> tuple[Held, ...]:
        """As it was kept. What cannot be read is made anew: a placeholder can be replaced, a wrong one not be trusted.

        Only those that the box was given by its own record count.
        """
        path = f"{box.directory}/{FILE}"
        names = {use.name for use in box.row.spec.secrets}
        try:
            kept = codec.from_wire(Kept, json.loads(ownfile.read_own(path, _FILE_BYTES)))
            kept_names = [item.name for item in kept.held]
            if names <= set(kept_names) and len(set(kept_names)) == len(kept_names):
                return kept.held
            log.warning("%s is about other secrets", path)
        except (OSError, ValueError, RecursionError, PaddockError) as error:
            log.warning("%s cannot be read: %s", path, error)
        try:
            held = self.hold(box.row.spec.secrets, {})
            self.keep(box, held)
        except PaddockError as error:
            log.warning("%s has no secrets: %s", box.name, error)
            return ()
        return held


def _metered(budget: Budget, held: Sequence[Held]) -> list[str]:
    """Hosts of models: all of them in a box with a budget, else those that are inspected anyway."""
    if budget != Budget():
        return list(apis.hosts())
    bound = [pattern for item in held for pattern in item.binding.patterns]
    return [host for host in apis.hosts() if any(Pattern(host).meets(pattern) for pattern in bound)]


def _no_value(name: str) -> str:
    return f"no value for the secret '{name}': "


def _not_set(name: str, variable: str) -> str:
    return f"{_no_value(name)}{variable} was not set; export it and run the command again"


def note_wanting(box: Box, wanting: Mapping[str, str]) -> None:
    """For whoever runs the next command."""
    said = [_not_set(name, variable) for name, variable in wanting.items()]
    box.notes += [line for line in said if line not in box.notes]


def values_of(given: Mapping[str, str]) -> dict[str, Secret]:
    """Parsed at once, so that nothing prints them."""
    return {name: Secret(text, f"'{name[:64]}'") for name, text in given.items()}
