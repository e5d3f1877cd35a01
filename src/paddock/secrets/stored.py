"""Secrets of the store as a box is lent them: by which name, where their values come from, what a person is told."""

from __future__ import annotations

from paddock.model import SecretUse
from paddock.secrets import services
from paddock.secrets.record import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.secrets.binding import Binding
    from paddock.secrets.store import Store


def use(store: Store, name: str, *, read_only: bool = False) -> tuple[SecretUse, Binding] | None:
    """The one of this name, or of another name of the same service; None if the store has none."""
    for known in services.same(name):
        if record := store.find(known):
            return SecretUse(name=known, read_only=read_only), record.binding
    return None


def variable(store: Store, lent: SecretUse) -> str:
    """Of the caller's environment, which the value comes from; empty if it comes from elsewhere."""
    if lent.variable:
        return lent.variable
    record = store.find(lent.name)
    return record.source.words[0] if record is not None and record.source.kind is Kind.ENV else ""


def said(lent: SecretUse, bound: Binding) -> str:
    """Where it goes, and what the box has in its place."""
    origin = f" is {lent.variable} of your shell;" if lent.variable else ""
    hosts, variables = ", ".join(bound.hosts), ", ".join(bound.env)
    return f"secret {lent.name}:{origin} goes to {hosts}; the box has a placeholder in {variables}"


def said_new(lent: SecretUse, box: str) -> str:
    """Of a box that was there before: a process has the environment that it was started with."""
    return f"secret {lent.name}: new to {box}; commands that start from now on have it"
