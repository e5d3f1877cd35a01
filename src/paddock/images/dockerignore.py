"""Which files of a build directory its .dockerignore leaves out.

The patterns are those of Docker (moby/patternmatcher): one a line, `*` within a name, `**` over directories, `!` to
take something back, the last that matches wins, and what matches a directory holds for all in it. The file comes with
the repository, so an agent may have written it: a match takes no longer than the product of both lengths.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.limits import DOCKERIGNORE_BYTES, DOCKERIGNORE_PATTERNS_MAX
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(r"\\(.)|(\*+)|(\?)|\[(\^?)((?:\\.|[^\]\\])+)\]|(.)", re.DOTALL)
_RANGE: Final = re.compile(r"(\\.|[^\\])(?:-(\\.|[^\\]))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    names: tuple[re.Pattern[str] | None, ...]  # None for **
    takes_back: bool

    def matches(self, path: list[str]) -> bool:
        """A path, or a directory around it.

        Greedy: when it fails, the last ** takes one name more; what came before it need not be tried again.
        """
        at = begun = here = 0
        star = -1
        while here < len(path) and at < len(self.names):
            name = self.names[at]
            if name is None:
                if at == len(self.names) - 1:
                    return True
                star, begun = at, here
                at += 1
            elif name.fullmatch(path[here]):
                at, here = at + 1, here + 1
            elif star >= 0:
                begun += 1
                at, here = star + 1, begun
            else:
                return False
        return at == len(self.names)


class Dockerignore:
    """Parsed once; `ignores` answers for paths below the build directory."""

    def __init__(self, data: bytes = b"") -> None:
        if len(data) > DOCKERIGNORE_BYTES:
            raise UserError(f".dockerignore has over {DOCKERIGNORE_BYTES} bytes", code="dockerignore")
        lines = data.decode("utf-8-sig", "surrogateescape").split("\n")
        self._patterns = [found for number, line in enumerate(lines, 1) for found in _parsed(number, line)]
        if len(self._patterns) > DOCKERIGNORE_PATTERNS_MAX:
            raise UserError(f".dockerignore has over {DOCKERIGNORE_PATTERNS_MAX} patterns", code="dockerignore")

    def __repr__(self) -> str:
        return f"<Dockerignore {len(self._patterns)} patterns>"

    @property
    def takes_back(self) -> bool:
        """Whether something in a directory that is left out may be taken in again: such must be walked then."""
        return any(pattern.takes_back for pattern in self._patterns)

    def ignores(self, path: str) -> bool:
        names = path.split("/")
        ignored = False
        for pattern in self._patterns:
            if pattern.takes_back == ignored and pattern.matches(names):
                ignored = not pattern.takes_back
        return ignored


def _parsed(number: int, line: str) -> Iterator[_Pattern]:
    if line.startswith("#"):
        return
    text = line.strip()
    takes_back = text.startswith("!")
    text = text.removeprefix("!").strip()
    if not text:
        if takes_back:
            raise _wrong(number, "! alone means nothing")
        return
    text = posixpath.normpath(text).lstrip("/")
    if text in {"", "."}:
        return
    yield _Pattern(names=tuple(_names(number, text)), takes_back=takes_back)


def _names(number: int, text: str) -> Iterator[re.Pattern[str] | None]:
    parts = text.split("/")
    for index, part in enumerate(parts):
        if part.startswith("**"):
            yield None
            part = part.lstrip("*")  # noqa: PLW2901  # Docker reads **x as **/x
            if not part:
                continue
        if "**" in part:
            # x** at the end is x* and all below it, which a match of a directory means anyway.
            if index < len(parts) - 1 or part.find("**") != len(part.rstrip("*")):
                raise _wrong(number, f"** within a name is not supported: {text}")
            part = part.rstrip("*") + "*"  # noqa: PLW2901
        yield _compiled(number, part)


def _compiled(number: int, name: str) -> re.Pattern[str]:
    """One name. Each piece between stars is found at its first place and kept there, so nothing is tried twice."""
    pieces = [""]
    for escaped, stars, any_one, negated, members, plain in _TOKEN.findall(name):
        if stars:
            pieces.append("")
        elif any_one:
            pieces[-1] += "."
        elif members:
            pieces[-1] += _set(number, members, negated=bool(negated))
        else:
            if plain in {"[", "\\"}:
                raise _wrong(number, f"a pattern is malformed: {name}")
            pieces[-1] += re.escape(escaped or plain)
    first, *others = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1] if piece)
    return re.compile(first + (f"{middle}.*{others[-1]}" if others else ""), re.DOTALL)


def _set(number: int, members: str, *, negated: bool) -> str:
    found = ""
    for low, high in _RANGE.findall(members):
        low, high = low[-1], (high or low)[-1]  # noqa: PLW2901  # without the escape
        if low > high:
            raise _wrong(number, f"a pattern is malformed: [{members}]")
        found += f"{re.escape(low)}-{re.escape(high)}"
    return f"[{'^' if negated else ''}{found}]"


def _wrong(number: int, message: str) -> UserError:
    return UserError(f".dockerignore line {number}: {neutralise(message)}", code="dockerignore")
