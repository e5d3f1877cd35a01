"""The lines of a Dockerfile as its own parser joins them: directives, comments, continuations, here-documents.

Follows BuildKit's parser (frontend/dockerfile/parser), the only specification there is of the corner cases: a comment
or an empty line inside a continued instruction is skipped, an escape at the end counts only if it stands alone, and a
here-document is read by what its opening line says, after that line.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import UserError
from paddock.limits import DOCKERFILE_BYTES, DOCKERFILE_INSTRUCTIONS_MAX
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTIVE: Final = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=(.*)")
_KNOWN_DIRECTIVES: Final = frozenset({"escape", "syntax", "check"})
_WITH_HEREDOC: Final = re.compile(r"\s*(?:RUN|COPY|ADD)\s", re.IGNORECASE)
# A word of its own, or after a descriptor's number: `<<EOF`, `3<<-"EOF"`; never `<<<word` and never arithmetic.
_HEREDOC: Final = re.compile(r"""(?<!\S)\d*<<(-?)(?:"([^"<>\s]+)"|'([^'<>\s]+)'|([^\s"'<>\\;|&()]+))(?=$|[\s;|&)>])""")
# Quotes that do not belong to the delimiter of a here-document, and what follows each up to its end.
_QUOTE: Final = re.compile(r"""(?<!<<)(?<!<<-)["']""")
_QUOTED: Final = {'"': re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL), "'": re.compile(r"[^']*+'")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heredoc:
    name: str
    content: str
    is_expanded: bool  # its delimiter had no quotes
    strips_tabs: bool

    @property
    def text(self) -> str:
        return re.sub(r"(?m)^\t+", "", self.content) if self.strips_tabs else self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One instruction with all its continuations."""

    number: int  # of its first line
    text: str
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    escape: str
    syntax: str
    lines: tuple[Line, ...]


def wrong(number: int, message: str, hint: str = "") -> UserError:
    return UserError(f"Dockerfile line {number}: {neutralise(message, 400)}", hint=hint, code="dockerfile")


def read(data: bytes) -> Lines:
    if len(data) > DOCKERFILE_BYTES:
        raise UserError(f"the Dockerfile has {len(data)} bytes, at most {DOCKERFILE_BYTES} are read", code="dockerfile")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise wrong(data[: error.start].count(b"\n") + 1, "it is not UTF-8") from None
    if "\0" in text:
        raise wrong(text[: text.index("\0")].count("\n") + 1, "it has a zero byte")
    physical = text.replace("\r\n", "\n").split("\n")
    directives = _directives(physical)
    escape = directives.get("escape", "\\")
    found = tuple(itertools.islice(_joined(physical, escape), DOCKERFILE_INSTRUCTIONS_MAX + 1))
    if len(found) > DOCKERFILE_INSTRUCTIONS_MAX:
        raise wrong(found[-1].number, f"it has more than {DOCKERFILE_INSTRUCTIONS_MAX} instructions")
    return Lines(escape=escape, syntax=directives.get("syntax", ""), lines=found)


def _directives(physical: list[str]) -> dict[str, str]:
    """The comments of the form `# key=value` at the very top; the first line that is none ends them."""
    found: dict[str, str] = {}
    for number, line in enumerate(physical, 1):
        match = _DIRECTIVE.match(line)
        key, value = (match[1].lower(), match[2].strip()) if match else ("", "")
        if key not in _KNOWN_DIRECTIVES or not value:
            break
        if key in found:
            raise wrong(number, f"the directive {key} is given twice")
        if key == "escape" and value not in {"\\", "`"}:
            raise wrong(number, f"escape must be a backslash or a backtick, not {value}")
        found[key] = value
    return found


def _joined(physical: list[str], escape: str) -> Iterator[Line]:
    continued = re.compile(rf"(?:^|[^{re.escape(escape)}])({re.escape(escape)}[ \t]*)$")
    rest = iter(enumerate(physical, 1))
    for number, first in rest:
        line = first.strip()
        if not line or line.startswith("#"):
            continue
        text, more = _without_escape(first.lstrip(), continued)
        while more:
            following = next(rest, None)
            if following is None:
                break  # BuildKit takes an escape on the last line, too
            if not following[1].strip() or following[1].lstrip().startswith("#"):
                continue
            added, more = _without_escape(following[1], continued)
            text += added
        heredocs = tuple(_heredocs(text, rest, number)) if _WITH_HEREDOC.match(text) else ()
        if text.strip():
            yield Line(number=number, text=text.strip(), heredocs=heredocs)


def _without_escape(line: str, continued: re.Pattern[str]) -> tuple[str, bool]:
    match = continued.search(line)
    return (line, False) if match is None else (line[: match.start(1)], True)


def _heredocs(text: str, rest: Iterator[tuple[int, str]], number: int) -> Iterator[Heredoc]:
    for match in _HEREDOC.finditer(_without_quotes(text)):
        dash, double, single, bare = match.groups()
        name = double or single or bare
        content = []
        for _, line in rest:
            if (line.lstrip("\t") if dash else line) == name:
                break
            content.append(f"{line}\n")
        else:
            raise wrong(number, f"the here-document {name} has no end")
        yield Heredoc(name=name, content="".join(content), is_expanded=bool(bare), strips_tabs=bool(dash))


def _without_quotes(text: str) -> str:
    """The line with quoted text blanked, unless the quotes belong to the delimiter of a here-document.

    Where one quote has no end, no later one of its kind has: nothing is looked at twice.
    """
    found, at = [], 0
    endless: set[str] = set()
    while match := _QUOTE.search(text, at):
        quote, begun = match[0], match.end()
        end = None if quote in endless else _QUOTED[quote].match(text, begun)
        if end is None:
            endless.add(quote)
            found.append(text[at:begun])
            at = begun
        else:
            found.append(text[at : match.start()] + " " * (end.end() - match.start()))
            at = end.end()
    return "".join((*found, text[at:]))
