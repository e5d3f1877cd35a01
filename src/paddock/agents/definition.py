"""What is known of an agent, as data: one TOML file each, read strictly. docs/agents.md describes every key.

A definition is its user's word, or ours: it names programs, hosts and secrets. It never comes from a workspace.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Literal

from paddock import codec
from paddock.errors import UserError

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\Z")
_PROGRAM = re.compile(r"[A-Za-z0-9_+.@-]{1,64}\Z|/[^\0]{1,400}\Z")
_RENAMED = {"continue": "go_on"}  # a word of Python's own
_MODES = ("words", "interactive", "headless")
FILE_BYTES = 256 * 1024

Strings = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """How we get it, without its own installer: as a package, whose scripts do not run."""

    npm: str = ""
    pip: str = ""
    entry: str = ""  # the program in the tree; {arch}
    node: str = ""  # the version of Node that runs the entry
    also: Strings = ()
    otherwise: str = ""  # what a person does when we cannot

    @property
    def package(self) -> str:
        """Its name on npm's registry or on pip's; empty if we cannot install it."""
        return self.npm or self.pip


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Words of its command line by what they say; in a mode, None is as in both."""

    argv: Strings = ()
    full: Strings | None = None
    ask: Strings | None = None
    model: Strings | None = None
    go_on: Strings | None = None
    resume: Strings | None = None
    prompt: Strings | None = None
    json: Strings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    full: Strings = ()  # dropped from what a user says: they are on already
    values: Strings = ()  # the next word is their value
    hidden: Strings = ()  # there, but not in its help
    since: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Secrets that it works with, any of which is enough."""

    any: Strings = ()
    lend: Literal["first", "all"] = "first"
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    allow: Strings = ()
    domains: Strings = ()
    ports: tuple[int, ...] = (443,)
    login: Strings = ()
    telemetry: Strings = ()
    of_secrets: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    paths: Strings = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A file of the box's home: JSON whose missing keys are added, or text where there is no file."""

    path: str
    json: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Where a line of its machine output with these fields has what, as dotted paths."""

    where: dict[str, str] = field(default_factory=dict)
    final: str = ""
    session: str = ""
    cost: str = ""
    input: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    format: Literal["text", "json", "jsonl"] = "text"
    event: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    reason: Literal["auth", "quota", "flag"]
    match: Strings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    paths: Strings = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mcp:
    file: str = ""
    key: str = ""
    format: Literal["json", "toml"] = "json"
    shape: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    name: str
    title: str
    program: str
    fallback: str = ""  # the program where there is no such one
    plain: bool = False  # a command and no agent: its words are passed as they are, and there is no prompt
    verified: str = ""
    stand_in: bool = False
    stuck_after_s: float = 900.0
    version: Strings = ()  # words that have it print its version; none: it is not asked
    help: tuple[Strings, ...] = ()  # pages of its help
    install: Install = field(default_factory=Install)
    words: Words = field(default_factory=Words)
    interactive: Words = field(default_factory=Words)
    headless: Words = field(default_factory=Words)
    flags: Flags = field(default_factory=Flags)
    keys: Keys = field(default_factory=Keys)
    hosts: Hosts = field(default_factory=Hosts)
    env: dict[str, str] = field(default_factory=dict)
    state: State = field(default_factory=State)
    seed: tuple[Seed, ...] = ()
    output: Output = field(default_factory=Output)
    failure: tuple[Failure, ...] = ()
    settings: Settings = field(default_factory=Settings)
    mcp: Mcp = field(default_factory=Mcp)

    def words_of(self, mode: Words, key: str) -> Strings | None:
        """What says `key` in a mode, which may have words of its own; None if nothing does."""
        own: Strings | None = getattr(mode, key)
        common: Strings | None = getattr(self.words, key)
        return common if own is None else own

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            hint = "1 to 32 of a-z 0-9 and -, with a letter or digit at both ends"
            raise UserError(f"{self.name[:80]!r} is not a name of an agent", hint=hint, code="bad-agent")
        for program in (self.program, self.fallback or self.program):
            if not _PROGRAM.match(program):
                hint = "its name as on the PATH, or an absolute path"
                raise UserError(f"{program[:80]!r} is not a program", hint=hint, code="bad-agent")
        places = (*self.state.paths, *self.settings.paths, *(one.path for one in self.seed), self.mcp.file)
        for path in filter(None, places):
            _check_place(self.name, path)
        if not 1 <= self.stuck_after_s <= 7 * 86400:
            raise UserError(f"{self.name}: stuck_after_s must be 1 s to 7 days", code="bad-agent")


def _check_place(agent: str, path: str) -> None:
    parts = path.split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        hint = "a path in the home directory, such as .claude/settings.json"
        raise UserError(f"{agent}: {path[:80]!r} is not a place in a home", hint=hint, code="bad-agent")


@functools.lru_cache(maxsize=64)
def parse(text: str, source: str = "agent") -> Agent:
    """`source` is what errors name: a file."""
    import tomllib  # 3 ms that commands about other things do not need

    if len(text) > FILE_BYTES:
        raise UserError(f"{source} is over {FILE_BYTES // 1024} KiB", code="bad-agent")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{source}: {error}", hint="docs/agents.md describes the file", code="bad-agent") from None
    for key in _MODES:
        if isinstance(table := data.get(key), dict):
            data[key] = {_RENAMED.get(word, word): value for word, value in table.items()}
    return codec.from_wire(Agent, data, source)
