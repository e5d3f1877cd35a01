"""Colours for a diff on a terminal. What is painted was neutralised: these are the only escape codes in it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BOLD, _RED, _GREEN, _YELLOW, _CYAN, _PLAIN = (f"\x1b[{code}m" for code in ("1", "31", "32", "33", "36", "0"))
_SIGNS = {"+": _GREEN, "-": _RED, "@": _CYAN}
_WARNINGS = ("danger: ", "refused: ")


def is_wanted() -> bool:
    """By a terminal that has colours, unless its user wants none (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def painted(lines: Iterable[str]) -> Iterator[str]:
    """The lines of one file's diff: its head up to the first hunk, then signed lines."""
    is_head = True
    for number, line in enumerate(lines):
        is_head = is_head and not line.startswith("@@ ")
        colour = _head(number, line) if is_head else _SIGNS.get(line[:1], "")
        yield f"{colour}{line}{_PLAIN}" if colour else line


def _head(number: int, line: str) -> str:
    if line.startswith(_WARNINGS):
        return _YELLOW
    return _BOLD if number == 0 else ""
