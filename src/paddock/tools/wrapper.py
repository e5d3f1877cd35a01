"""The program of a tool as boxes have it on their PATH: a few lines of ours that start what the package brought."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from paddock import fs, text
from paddock.errors import UserError
from paddock.tools.packages import architecture, entry_of
from paddock.tools.store import ROOT

if TYPE_CHECKING:
    from paddock.agents import Agent

# By its own path, and not PYTHONPATH: what the agent starts would have that too, and find its packages first.
_PYTHON: Final = """\
#!/usr/bin/env python3
import runpy, sys
sys.path.insert(0, {lib!r})
sys.argv[0] = {entry!r}
runpy.run_path({entry!r}, run_name="__main__")
"""


def program_of(agent: Agent) -> str:
    """The name of its program, if the definition has a path."""
    return os.path.basename(agent.program)


def write(agent: Agent, tree: str) -> None:
    """Into a tree that is ours, and not yet closed; UserError when the package has no such program."""
    entry = entry_of(agent)
    place = f"{tree}/{entry}"
    inside = fs.is_beneath(os.path.realpath(place), os.path.realpath(tree))
    if entry.startswith("/") or ".." in entry.split("/") or not inside or not os.path.isfile(place):
        raise UserError(
            f"the package has no '{text.neutralise(entry)}', which is to be the program of {agent.name}",
            hint="another version may have it; [install] entry of the agent's file says which file it is",
            code="no-program",
        )
    if not agent.install.pip:
        os.chmod(os.path.realpath(place), 0o700)  # npm makes only those executable that a package names
    os.makedirs(f"{tree}/bin", 0o700, exist_ok=True)
    target = f"{tree}/bin/{program_of(agent)}"
    if os.path.lexists(target):
        os.unlink(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(target, flags, 0o700), "w", encoding="utf-8") as file:
        file.write(_script(agent, f"{ROOT}/{agent.name}", entry))


def _script(agent: Agent, root: str, entry: str) -> str:
    if agent.install.pip:
        return _PYTHON.format(lib=f"{root}/lib", entry=f"{root}/{entry}")
    words = [f"{root}/{entry}"]
    if agent.install.node:
        words.insert(0, f"{root}/node_modules/node-linux-{architecture()}/bin/node")
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
