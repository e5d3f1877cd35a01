"""--secret: which secrets a box may use. Names go to the daemon; values only those that your own environment has."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from paddock import text
from paddock.errors import UserError
from paddock.model import SecretUse
from paddock.paths import Paths
from paddock.secrets import services
from paddock.secrets.binding import check_name
from paddock.secrets.boxes import Exported, exported
from paddock.secrets.record import Kind
from paddock.secrets.store import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.client import Paddock
    from paddock.model import BoxInfo
    from paddock.secrets.binding import Binding
    from paddock.secrets.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    uses: tuple[SecretUse, ...] = ()
    given: dict[str, str] = field(default_factory=dict, repr=False)  # by name, of this process's environment
    said: tuple[str, ...] = ()  # what a person should know


def lend(words: Sequence[str]) -> Lent:
    """Of NAME and NAME:ro; UserError for one that is neither set nor exported."""
    store = opened(Paths().secrets, os.environ)
    uses, given, said = [], {}, []
    for word in words:
        use, bound = _use(store, word.removesuffix(":ro"), read_only=word.endswith(":ro"))
        uses.append(use)
        said.append(_said(use, bound))
        if value := _own_value(store, use):
            given[use.name] = value
    return Lent(uses=tuple(uses), given=given, said=tuple(said))


def again(paddock: Paddock, box: BoxInfo) -> None:
    """A box that exists gets what your environment has now; it may have been set in another shell."""
    store = opened(Paths().secrets, os.environ)
    if given := {use.name: value for use in box.secrets if (value := _own_value(store, use))}:
        paddock.call("secrets_give", box=box.name, given=given)


def say(lent: Lent, *, quiet: bool) -> None:
    for line in lent.said if not quiet else ():
        print(f"paddock: {text.neutralise(line, 4 * text.LINE_CHARS)}", file=sys.stderr)


def _use(store: Store, name: str, *, read_only: bool) -> tuple[SecretUse, Binding]:
    record = store.find(check_name(name))
    if record is not None:
        return SecretUse(name=name, read_only=read_only), record.binding
    found = _exported(name)
    if found is None:
        service = services.find(name)
        also = f", or export {service.env[0]}" if service else " --host HOST"
        raise UserError(
            f"there is no secret '{name}'", hint=f"`paddock secret set {name}`{also}", code="unknown-secret"
        )
    return SecretUse(name=found.service, read_only=read_only, variable=found.variable), found.binding()


def _exported(name: str) -> Exported | None:
    service = services.find(name)
    return next((found for found in exported(os.environ) if service and found.service == service.name), None)


def _own_value(store: Store, use: SecretUse) -> str:
    if use.variable:
        return os.environ.get(use.variable, "")
    record = store.find(use.name)
    is_ours = record is not None and record.source.kind is Kind.ENV
    return os.environ.get(record.source.words[0], "") if record and is_ours else ""


def _said(use: SecretUse, bound: Binding) -> str:
    origin = f" is {use.variable} of your shell;" if use.variable else ""
    hosts, variables = ", ".join(bound.hosts), ", ".join(bound.env)
    return f"secret {use.name}:{origin} goes to {hosts}; the box has a placeholder in {variables}"
