"""Which program of the host a box starts by its name: the first on the box's own PATH that it can see to its end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from paddock.engines.process import toolchains
from paddock.engines.process.boundary import is_below

SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_SHOWN: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_HOPS: Final = 40  # as the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgram:
    path: str = ""  # as the box has it; empty if it has none
    why: str = ""  # it has none though the caller does


def find(program: str, caller_path: str, home: str) -> HostProgram:
    """Of a box whose caller has this PATH and this home."""
    shown = toolchains.find(caller_path, home)
    places = [program] if program.startswith("/") else [f"{entry}/{program}" for entry in (*shown.path, *SYSTEM_PATH)]
    why = ""
    for place in places:
        if not _is_program(place):
            continue
        hidden = _hidden(place, shown)
        if not hidden:
            return HostProgram(path=place)
        leads = f" leads to {hidden}," if hidden != place else " is"
        why = why or f"{place}{leads} which a box does not see"
    return HostProgram(why=why or _elsewhere(program, caller_path))


def _elsewhere(program: str, caller_path: str) -> str:
    entries = [] if program.startswith("/") else caller_path.split(":")
    for entry in entries:
        if entry.startswith("/") and _is_program(f"{entry}/{program}"):
            return f"{entry}/{program} is in a directory that a box does not see"
    return ""


def _is_program(place: str) -> bool:
    return os.path.isfile(place) and os.access(place, os.X_OK)


def _hidden(place: str, shown: toolchains.Toolchains) -> str:
    """The first name on the way to the file that is not there in a box."""
    for _ in range(_HOPS):
        real = f"{os.path.realpath(os.path.dirname(place))}/{os.path.basename(place)}"
        for name in (place, real):
            if not is_below(name, (*_SHOWN, *shown.trees)) or name in shown.covers:
                return name
        if not os.path.islink(real):
            return ""
        place = os.path.normpath(os.path.join(os.path.dirname(real), os.readlink(real)))
    return place
