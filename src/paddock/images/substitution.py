"""Quotes, escapes and variables in the arguments of a Dockerfile, which are those of a small shell.

As BuildKit's shell/lex.go: `$x`, `${x}`, `${x:-y}`, `${x:+y}`, `${x:?y}` and the forms without a colon, which ask
whether x is set rather than empty. Its patterns (`${x#y}`, `${x/y/z}`) are not taken, and said to be not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from paddock.limits import DOCKERFILE_VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_BLANK: Final = " \t\v\f\r"
_DEPTH_MAX: Final = 32  # of a variable in the default of another


class Unsupported(ValueError):
    """What stands in the text cannot be expanded; the message says why."""


def expand(text: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """The text without its quotes and escapes, and with the values of its variables."""
    return _Expansion(text, variables, escape).until("")


def expand_heredoc(text: str, variables: Mapping[str, str]) -> str:
    """The body of a here-document: variables and escaped dollars alone; quotes are text there."""
    return _Expansion(text, variables, "\\").body()


def split(text: str, escape: str = "\\") -> list[str]:
    """The words of a text, quotes and escapes still in them: blanks inside of quotes or after an escape are kept."""
    words: list[str] = []
    quote = ""
    at = begun = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == escape and quote != "'" and at < len(text):
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in _BLANK:
            words += [text[begun : at - 1]] if begun < at - 1 else []
            begun = at
        else:
            quote = char if char in "'\"" else ""
    return [*words, text[begun:]] if begun < at else words


def _joined(parts: list[str]) -> str:
    """One value, which is not made if it would be too long."""
    if sum(map(len, parts)) <= DOCKERFILE_VALUE_BYTES:
        value = "".join(parts)
        if len(value.encode("utf-8", "surrogatepass")) <= DOCKERFILE_VALUE_BYTES:
            return value
    raise Unsupported("a value grows too long")


class _Expansion:
    def __init__(self, text: str, variables: Mapping[str, str], escape: str) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._at = 0
        self._depth = 0

    def until(self, stop: str) -> str:
        """Everything up to a character that is not quoted, which is passed; "" stands for the end."""
        found: list[str] = []
        while self._at < len(self._text):
            char = self._next()
            if char == stop:
                return _joined(found)
            if char == "'":
                found.append(self._single())
            elif char == '"':
                found.append(self._double())
            elif char == "$":
                found.append(self._dollar())
            elif char == self._escape:
                found.append(self._next() if self._at < len(self._text) else "")
            else:
                found.append(char)
        if stop:
            raise Unsupported(f"a closing {stop} is missing")
        return _joined(found)

    def body(self) -> str:
        found: list[str] = []
        while self._at < len(self._text):
            char = self._next()
            if char == "$":
                found.append(self._dollar())
            elif char == self._escape and self._text[self._at : self._at + 1] in {"$", self._escape}:
                found.append(self._next())
            else:
                found.append(char)
        return _joined(found)

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _single(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise Unsupported("a closing ' is missing")
        found, self._at = self._text[self._at : end], end + 1
        return found

    def _double(self) -> str:
        found: list[str] = []
        while self._at < len(self._text):
            char = self._next()
            if char == '"':
                return _joined(found)
            if char == "$":
                found.append(self._dollar())
            elif char == self._escape and self._text[self._at : self._at + 1] in {'"', "$", self._escape}:
                found.append(self._next())
            else:
                found.append(char)
        raise Unsupported('a closing " is missing')

    def _dollar(self) -> str:
        if self._text[self._at : self._at + 1] != "{":
            name = self._name()
            return self._variables.get(name, "") if name else "$"
        self._at += 1
        name = self._name()
        if not name:
            raise Unsupported("a bad substitution")
        value = self._variables.get(name)
        sign = self._next() if self._at < len(self._text) else ""
        if sign == "}":
            return value or ""
        if sign == ":":
            sign = self._next() if self._at < len(self._text) else ""
            value = value or None  # with a colon, empty counts as missing
        if sign not in {"-", "+", "?"} or not sign:
            raise Unsupported(f"${{{name}...}} is of a form that is not supported")
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise Unsupported("variables are nested too deep")
        word = self.until("}")
        self._depth -= 1
        return self._chosen(name, value, sign, word)

    def _chosen(self, name: str, value: str | None, sign: str, word: str) -> str:
        if sign == "+":
            return word if value is not None else ""
        if value is not None:
            return value
        if sign == "?":
            raise Unsupported(f"{name}: {word or 'it is not set'}")
        return word

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]
