"""What a program says of itself, its version and its flags, and which of the flags we use it no longer has.

Whatever it prints is hostile text: it is searched for words that look like a version or a flag, and nothing else of it
is kept. What was learned counts for as long as the program is the same.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import codec, fs, limits
from paddock.errors import PaddockError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.agents import Agent
    from paddock.agents.definition import Words

_VERSION: Final = re.compile(r"(?<![\w.])v?([0-9]{1,9}\.[0-9]{1,9}(?:\.[0-9]{1,9})?(?:[-+.][0-9A-Za-z.+-]{1,40})?)")
_FLAG: Final = re.compile(r"(?<![\w-])(--?[A-Za-z0-9][\w-]{0,63})")
_FLAGS_MAX: Final = 4096
_KINDS: Final = ("argv", "full", "ask", "model", "go_on", "resume", "prompt", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    version: str = ""
    flags: tuple[str, ...] = ()
    problem: str = ""  # why it could not be asked

    def lacks(self, flag: str) -> bool:
        return flag not in self.flags


def version_in(said: str) -> str:
    found = _VERSION.search(said)
    return found[1] if found else ""


def flags_in(said: Iterable[str]) -> tuple[str, ...]:
    found = {flag for page in said for flag in _FLAG.findall(page)}
    return tuple(sorted(found)[:_FLAGS_MAX])


def used(agent: Agent) -> tuple[str, ...]:
    """The flags that its definition uses and that its help shows."""
    found: dict[str, None] = {}
    for words in (agent.words, agent.interactive, agent.headless):
        for word in _all(words):
            if re.fullmatch(_FLAG, name := word.partition("=")[0]):
                found[name] = None
    return tuple(flag for flag in found if flag not in agent.flags.hidden)


def missing(agent: Agent, probe: Probe, argv: Sequence[str] | None = None) -> tuple[str, ...]:
    """Those of them, or of those that a command line has, that the program does not know."""
    if not agent.help or probe.problem:
        return ()
    wanted = used(agent)
    if argv is not None:
        there = {word.partition("=")[0] for word in argv}
        wanted = tuple(flag for flag in wanted if flag in there)
    return tuple(flag for flag in wanted if probe.lacks(flag))


def has_it(agent: Agent, flag: str, version: str) -> str:
    """Which versions have a flag that this one lacks, in words; empty if nobody knows."""
    if since := agent.flags.since.get(flag):
        return f"{since} and later have it"
    return f"{agent.verified} has it" if agent.verified not in {"", version} else ""


def refuse_missing(agent: Agent, probe: Probe, argv: Sequence[str]) -> None:
    """UserError before a run whose words its program would not understand."""
    lacking = missing(agent, probe, argv)
    if not lacking:
        return
    flag = lacking[0]
    version = f" {probe.version}" if probe.version else ""
    known = has_it(agent, flag, probe.version)
    raise UserError(
        f"{agent.name}{version} has no {', '.join(lacking)}" + (f": {known}" if known else ""),
        hint=f"`paddock agent install {agent.name}`; `paddock agent check {agent.name}` says what else does not match",
        code="no-flag",
    )


class Probes:
    """What was learned, by the identity of the program; a file that is damaged or missing knows nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Probes {self.path}>"

    def find(self, identity: str) -> Probe | None:
        try:
            return codec.from_wire(Probe, self._rows()[identity], "probe")
        except (KeyError, PaddockError):
            return None

    def keep(self, identity: str, probe: Probe) -> None:
        """The newest are kept."""
        rows = self._rows()
        rows.pop(identity, None)
        rows[identity] = codec.to_wire(probe)
        kept = dict(list(rows.items())[-limits.PROBES_MAX :])
        fs.make_private_dir(os.path.dirname(self.path))
        fs.write_atomic(self.path, json.dumps(kept).encode(), sync=False)

    def _rows(self) -> dict[str, object]:
        try:
            with open(self.path, "rb") as file:
                rows = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return {}
        return rows if isinstance(rows, dict) else {}


def _all(words: Words) -> Iterable[str]:
    for kind in _KINDS:
        yield from getattr(words, kind) or ()
