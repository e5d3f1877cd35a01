"""The words of secrets that a box is to have. Names go to the daemon; values only those that this environment has."""

from __future__ import annotations

import os
from dataclasses import replace

from paddock.errors import UserError
from paddock.model import Lent, SecretUse
from paddock.secrets import services, stored
from paddock.secrets.binding import check_name
from paddock.secrets.boxes import Exported, exported
from paddock.secrets.store import opened

_LOGINS = ("claude",)  # of which `paddock secret login` gets a token
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.agents import Agent
    from paddock.agents.definition import Keys
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
        said.append(stored.said(use, bound))
    return Lent(uses=tuple(uses), given=own_values(uses, paths), said=tuple(said))


def keys(wanted: Keys, paths: Paths) -> Lent:
    """Those of an agent's keys that its user has: stored ones before exported ones, in the agent's own order."""
    store = opened(paths.secrets, os.environ)
    kept = [name for name in wanted.any if store.find(name)]
    shells = [name for name in wanted.any if name not in kept and _exported(name)]
    found = [*kept, *shells]
    return lend(found if wanted.lend == "all" else found[:1], paths)


def with_key(agent: Agent, lent: Lent, paths: Paths, has: Iterable[SecretUse] = ()) -> Lent:
    """What was lent, and a key of the agent's if none is among that or what its box `has`; UserError if there is none.

    `said` is of the key alone.
    """
    names = {use.name for use in (*has, *lent.uses)}
    if not agent.keys.any or names.intersection(agent.keys.any):
        return replace(lent, said=())
    found = keys(agent.keys, paths)
    if not found.uses and not agent.keys.optional:
        raise no_key(agent)
    return Lent(uses=(*lent.uses, *found.uses), given={**lent.given, **found.given}, said=found.said)


def no_key(agent: Agent) -> UserError:
    """Before anything runs, and with what mends it."""
    names = agent.keys.any
    known = [service for name in names if (service := services.find(name))]
    variables = list(dict.fromkeys(service.env[0] for service in known))
    unset = f", and {_unset(variables)}" if variables else ""
    first = known[0].name if known else names[0]
    ways = [f"`paddock secret set {known[-1].name if len(known) == len(names) else first}`"]
    if agent.name in _LOGINS:
        ways.insert(0, f"`paddock secret login {agent.name}`")
    if agent.hosts.login:
        ways.append(f"`--allow-login {agent.name}` to log in in the box, which then holds a token")
    shown = " or ".join(f"'{name}'" for name in names)
    return UserError(
        f"{agent.name} has no key: there is no secret {shown}{unset}", hint=", or ".join(ways), code="no-key"
    )


def _unset(variables: list[str]) -> str:
    *others, last = variables
    return f"neither {', '.join(others)} nor {last} is set" if others else f"{last} is not set"


def own_values(uses: Iterable[SecretUse], paths: Paths) -> dict[str, str]:
    """Of those whose value comes from a variable, what this environment has in it now."""
    store = opened(paths.secrets, os.environ)
    return {use.name: value for use in uses if (value := os.environ.get(stored.variable(store, use), ""))}


def _use(store: Store, name: str, *, read_only: bool) -> tuple[SecretUse, Binding]:
    check_name(name)
    if kept := stored.use(store, name, read_only=read_only):
        return kept
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
