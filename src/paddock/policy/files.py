"""Policy files. `policy.toml` of the organisation and of the user:

    default = "deny"                # deny, allow or observe
    on-deny = "ask"                 # deny or ask
    presets = ["github", "python"]
    allow   = ["*.example.com", "api.example.org:443", "localhost:5432", "10.0.0.0/8"]
    deny    = ["ads.example.com"]
    bypass  = ["pinned.example.com"]
    allow-requests = ["GET api.example.com", "POST api.example.com/v1/things/**"]
    deny-requests  = ["* api.example.com/admin/**"]

A project's `paddock.toml` has the same in its table `[network]`, without on-deny, and with no other default than deny.
Whatever else stands there is an error that names file and line.
"""

from __future__ import annotations

import enum
import hashlib
import json
from typing import TYPE_CHECKING, NoReturn, TypeVar

from paddock import limits
from paddock.errors import UserError
from paddock.policy import presets
from paddock.policy.layering import Statement
from paddock.policy.pattern import Pattern
from paddock.policy.positions import Path, is_deep, positions
from paddock.policy.requests import Request
from paddock.policy.rules import Default, OnDeny, Source, SourceKind
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=enum.Enum)

_LISTS: dict[str, Callable[[str], object]] = {
    "presets": presets.find,
    "allow": Pattern,
    "deny": Pattern,
    "bypass": Pattern,
    "allow-requests": Request,
    "deny-requests": Request,
}
KEYS = ("default", "on-deny", *_LISTS)
PROJECT_KEYS = ("default", *_LISTS)
PROJECT_TABLE = "network"


def parse_policy_toml(text: str, path: str, kind: SourceKind = SourceKind.USER) -> Statement:
    """A policy.toml; raises UserError that begins with `path:line:`."""
    reader = _Reader(text, path)
    return reader.statement((), KEYS, Source(kind, path))


def parse_project_toml(text: str, path: str) -> Statement | None:
    """The `[network]` of a paddock.toml, None without one; such a file has no other table."""
    reader = _Reader(text, path)
    reader.only((PROJECT_TABLE,), ())
    if PROJECT_TABLE not in reader.data:
        return None
    statement = reader.statement((PROJECT_TABLE,), PROJECT_KEYS, Source(SourceKind.PROJECT, path))
    if statement.default not in {None, Default.DENY}:
        reader.fail((PROJECT_TABLE, "default"), "a project may only deny by default", "remove it or write deny")
    return statement


def digest(statement: Statement) -> str:
    """What an approval is bound to: all that a project says, and not how it is laid out."""
    parts: dict[str, str | tuple[str, ...]] = {
        "default": statement.default.value if statement.default else "",
        "presets": statement.presets,
        "allow": statement.allow,
        "deny": statement.deny,
        "bypass": statement.bypass,
    }
    said = {"allow-requests": statement.allow_requests, "deny-requests": statement.deny_requests}
    parts |= {key: texts for key, texts in said.items() if texts}  # what was approved before there were any stays so
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class _Reader:
    """A decoded file and where its parts stand."""

    def __init__(self, text: str, path: str) -> None:
        import tomllib

        self._path = neutralise(path)
        if len(text) > limits.POLICY_FILE_BYTES:
            raise UserError(f"{self._path} is over {limits.POLICY_FILE_BYTES >> 20} MiB", code="policy-size")
        if is_deep(text):
            raise self._bad(1, "too deeply nested", "lists of words are all it needs")
        try:
            self.data: dict[str, object] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._bad(_line(str(error), text), neutralise(str(error)), "it is no TOML") from error
        except RecursionError:
            raise self._bad(1, "too deeply nested", "lists of words are all it needs") from None
        self._text = text

    def only(self, known: tuple[str, ...], at: Path) -> dict[str, object]:
        """The table at `at`, which may have these keys."""
        table: object = self.data
        for part in at:
            table = table[part] if isinstance(table, dict) else None
        if not isinstance(table, dict):
            self.fail(at, f"{at[-1]} must be a table", f"write [{at[-1]}]")
        for key in table:
            if key not in known:
                hint = f"known here: {', '.join(known)}"
                self.fail((*at, key), f"unknown key '{neutralise(key, 80)}'", hint, "unknown-key")
        return table

    def statement(self, at: Path, known: tuple[str, ...], source: Source) -> Statement:
        table = self.only(known, at)
        lists = {
            key.replace("-", "_"): self._words((*at, key), table.get(key, []), check) for key, check in _LISTS.items()
        }
        default = self._word((*at, "default"), table.get("default"), Default)
        on_deny = self._word((*at, "on-deny"), table.get("on-deny"), OnDeny)
        try:
            return Statement(source=source, default=default, on_deny=on_deny, **lists)
        except UserError as error:
            raise self._bad(1, error.message, error.hint, error.code) from error

    def _word(self, at: Path, value: object, words: type[E]) -> E | None:
        if value is None:
            return None
        known = {word.value: word for word in words}
        if type(value) is not str or value not in known:
            self.fail(at, f"{at[-1]} must be one of {', '.join(known)}", "check the spelling")
        return known[value]

    def _words(self, at: Path, value: object, check: Callable[[str], object]) -> tuple[str, ...]:
        if not isinstance(value, list):
            self.fail(at, f"{at[-1]} must be a list of strings", f'write {at[-1]} = ["..."]')
        for number, word in enumerate(value):
            if not isinstance(word, str):
                self.fail((*at, number), f"{at[-1]} must be a list of strings", "put it in quotes")
            try:
                check(word)
            except UserError as error:
                self.fail((*at, number), error.message, error.hint, error.code)
        return tuple(value)

    def fail(self, at: Path, message: str, hint: str, code: str = "bad-policy") -> NoReturn:
        lines = [spot.line for path, spot in positions(self._text).items() if path[: len(at)] == at]
        raise self._bad(min(lines, default=1), message, hint, code)

    def _bad(self, line: int, message: str, hint: str, code: str = "bad-policy") -> UserError:
        return UserError(f"{self._path}:{line}: {message}", hint=hint, code=code)


def _line(message: str, text: str) -> int:
    """tomllib says `... (at line 3, column 5)` or `... (at end of document)`."""
    digits = message.rpartition("(at line ")[2].partition(",")[0]
    return int(digits) if digits.isdecimal() else len(text.splitlines()) or 1
