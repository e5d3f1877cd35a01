"""What of its caller's terminal a command in a box can use: an editor, if it is there.

A command without a terminal has nobody who would turn a page: programs of agents are told so, or they wait for ever
where an agent gives its own commands a terminal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_EDITORS: Final = ("EDITOR", "VISUAL")
_UNPAGED: Final = {"PAGER": "cat", "GIT_PAGER": "cat"}
_SHOWN: Final = ("/usr/", "/bin/", "/sbin/")  # boxes have these of the host
_USUAL: Final = "xterm-256color"


def fitted(env: Mapping[str, str], wanted: Mapping[str, str], *, tty: bool) -> dict[str, str]:
    """`env` is the box's, `wanted` the caller's for one command; an editor that is not there is left out."""
    merged = {**env, **wanted}
    for variable in _EDITORS:
        if variable in wanted and not _is_there(wanted[variable], merged.get("PATH", "")):
            merged.pop(variable)
            merged.update({variable: env[variable]} if variable in env else {})
    if not tty:
        return {**_UNPAGED, **merged}
    return {"TERM": _USUAL, **merged}


def _is_there(command: str, path: str) -> bool:
    """By its first word. Where a program of the box's own directories is meant, the box knows."""
    word = (command.split() or [""])[0]
    if "/" in word:
        return not word.startswith(_SHOWN) or os.access(word, os.X_OK)
    return bool(word) and any(os.access(f"{place}/{word}", os.X_OK) for place in path.split(":") if place)
