"""The words of secrets that a box is to have. Names go to the daemon; values only those that this environment has."""

from __future__ import annotations

import os

from paddock.errors import UserError
from paddock.model import Lent, SecretUse
from paddock.secrets import services
from paddock.secrets.binding import check_name
from paddock.secrets.boxes import Exported, exported
from paddock.secrets.record import Kind
from paddock.secrets.store import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.paths import Paths
    from paddock.secrets.binding import Binding
    from paddock.secrets.store import Store


def lend(words: Sequence[str], paths: Paths) -> Lent:
    """Of NAME and NAME:ro; UserError for one that is neither set nor exported."""
    if not words:
        return Lent()
    if isinstance(words, str):  # a str is a sequence of words, none of which was meant
        raise UserError("the secrets of a box are several words", hint=f"write ({words[:64]!r},)", code="bad-secret")
    store = opened(paths.secrets, os.environ)
    uses, said = [], []
    for word in words:
        use, bound = _use(store, word.removesuffix(":ro"), read_only=word.endswith(":ro"))
        uses.append(use)
        said.append(_said(use, bound))
    return Lent(uses=tuple(uses), given=own_values(uses, paths), said=tuple(said))


def own_values(uses: Iterable[SecretUse], paths: Paths) -> dict[str, str]:
    """Of those whose value comes from a variable, what this environment has in it now."""
    store = opened(paths.secrets, os.environ)
    return {use.name: value for use in uses if (value := os.environ.get(_variable(store, use), ""))}


def _use(store: Store, name: str, *, read_only: bool) -> tuple[SecretUse, Binding]:
    check_name(name)
    for known in services.same(name):
        if record := store.find(known):
            return SecretUse(name=known, read_only=read_only), record.binding
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


def _variable(store: Store, use: SecretUse) -> str:
    if use.variable:
        return use.variable
    record = store.find(use.name)
    return record.source.words[0] if record is not None and record.source.kind is Kind.ENV else ""


def _said(use: SecretUse, bound: Binding) -> str:
    origin = f" is {use.variable} of your shell;" if use.variable else ""
    hosts, variables = ", ".join(bound.hosts), ", ".join(bound.env)
    return f"secret {use.name}:{origin} goes to {hosts}; the box has a placeholder in {variables}"
