"""Where definitions are: those that come with Paddock beside this file, a user's own in their configuration."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from paddock.agents.definition import FILE_BYTES, Agent, parse
from paddock.errors import UserError
from paddock.text import neutralise

DEFAULT = "shell"
_DIRECTORY = os.path.dirname(__file__)
_ENDING = ".toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    agent: Agent
    definition: str = ""  # its text, if it does not come with Paddock
    source: str = ""


@functools.cache
def built_in() -> tuple[str, ...]:
    return _names(_DIRECTORY)


def directory(config: str) -> str:
    """Of the user's own definitions."""
    return f"{config}/agents"


def names(config: str = "") -> tuple[str, ...]:
    return tuple(sorted({*built_in(), *_names(directory(config))})) if config else built_in()


def find(name: str, config: str = "") -> Found:
    """A user's own definition comes before ours of that name."""
    if config and name in _names(directory(config)):
        found = read(f"{directory(config)}/{name}{_ENDING}")
        if found.agent.name != name:
            hint = f"name the file {found.agent.name}.toml"
            raise UserError(f"{found.source} defines {found.agent.name!r}", hint=hint, code="bad-agent")
        return found
    if name not in built_in():
        raise unknown(name, names(config))
    return Found(agent=_load(name))


def unknown(name: str, known: tuple[str, ...], *, also: str = "") -> UserError:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return UserError(
        f"there is no agent{also} {neutralise(name, 80)!r}",
        hint=f"{guess}agents: {', '.join(known)}; any command runs with `paddock run -- COMMAND`",
        code="unknown-agent",
    )


def read(path: str) -> Found:
    """A file that a user names, or has among their own."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"cannot read the agent file {path!r}: {reason}", code="bad-agent") from error
    return Found(agent=parse(text, path), definition=text, source=path)


def of(name: str, definition: str) -> Agent:
    """The agent of a box, as the box has it."""
    if not definition:
        if name not in built_in():
            raise unknown(name, built_in())
        return _load(name)
    agent = parse(definition)
    if agent.name != name:
        raise UserError(f"the definition of {name[:80]!r} is of {agent.name!r}", code="bad-agent")
    return agent


@functools.cache
def _load(name: str) -> Agent:
    with open(f"{_DIRECTORY}/{name}{_ENDING}", encoding="utf-8") as file:
        return parse(file.read(), f"agents/{name}{_ENDING}")


def _names(place: str) -> tuple[str, ...]:
    try:
        files = os.listdir(place)
    except OSError:
        return ()
    return tuple(sorted(name.removesuffix(_ENDING) for name in files if name.endswith(_ENDING)))
