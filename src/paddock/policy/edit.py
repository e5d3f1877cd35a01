"""Changes one list of a policy.toml and leaves every other character, comments included, as its owner wrote it.

The changed text is parsed again and must say just what was wanted, or nothing is returned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from paddock.errors import Unavailable
from paddock.policy.files import parse_policy_toml
from paddock.policy.pattern import Pattern
from paddock.policy.positions import Spot, positions

if TYPE_CHECKING:
    from paddock.policy.layering import Statement

_COMMA = re.compile(r"[ \t]*,")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?\r?\n")
List = Literal["allow", "deny", "bypass"]
_LISTS: tuple[List, ...] = ("allow", "deny", "bypass")


def add(text: str, path: str, key: List, pattern: str) -> str:
    """`text` with `pattern` in the list `key` and in no other."""
    before = parse_policy_toml(text, path)
    pattern = Pattern(pattern).text
    changed = text if pattern in getattr(before, key) else _insert(text, key, pattern)
    for other in _LISTS:
        if other != key:
            changed = _drop(changed, other, pattern)
    return _checked(changed, path, before.saying(key, pattern))


def remove(text: str, path: str, pattern: str) -> str:
    """`text` without `pattern`; the same text if it says nothing of it."""
    before = parse_policy_toml(text, path)
    pattern = Pattern(pattern).text
    changed = text
    for key in _LISTS:
        changed = _drop(changed, key, pattern)
    return _checked(changed, path, before.without(pattern))


def _insert(text: str, key: str, pattern: str) -> str:
    spots = positions(text)
    spot = spots.get((key,))
    if spot is None:
        return f'{key} = ["{pattern}"]\n{text}'  # at the top: after a table it would belong to the table
    elements = _elements(spots, key)
    if not elements:
        return f'{text[: spot.value + 1]}"{pattern}"{text[spot.value + 1 :]}'
    last = elements[-1]
    if last.line == spot.line:
        lead = ", "
    else:
        indent = text[text.rfind("\n", 0, last.start) + 1 : last.start]
        lead = ", " if indent.strip() else f",\n{indent}"
    return f'{text[: last.end]}{lead}"{pattern}"{text[last.end :]}'


def _drop(text: str, key: str, pattern: str) -> str:
    while True:
        elements = _elements(positions(text), key)
        gone = next((spot for spot in elements if _says(text, spot, pattern)), None)
        if gone is None:
            return text
        start, end = gone.start, gone.end
        if comma := _COMMA.match(text, end):
            end = comma.end()
        line, rest = text.rfind("\n", 0, start) + 1, _REST.match(text, end)
        if rest and not text[line:start].strip():  # it had a line of its own, with a remark perhaps
            start, end = line, rest.end()
        text = text[:start] + text[end:]


def _says(text: str, spot: Spot, pattern: str) -> bool:
    import tomllib

    word = tomllib.loads(f"word = {text[spot.value : spot.end]}")["word"]
    return Pattern(word).text == pattern


def _elements(spots: dict[tuple[str | int, ...], Spot], key: str) -> list[Spot]:
    found: list[Spot] = []
    while spot := spots.get((key, len(found))):
        found.append(spot)
    return found


def _checked(text: str, path: str, wanted: Statement) -> str:
    now = parse_policy_toml(text, path)
    if any(set(getattr(now, key)) != set(getattr(wanted, key)) for key in _LISTS):
        raise Unavailable(f"cannot change {path} by itself", hint="edit the file", code="policy-edit")
    return text
