"""Changes the lists of a policy.toml and leaves every other character, comments included, as its owner wrote it.

The changed text is parsed again and must say just what was wanted, or nothing is returned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from paddock.errors import Unavailable
from paddock.policy.files import parse_policy_toml
from paddock.policy.layering import HOSTS
from paddock.policy.pattern import Pattern
from paddock.policy.positions import Spot, positions
from paddock.policy.requests import Request, is_request

if TYPE_CHECKING:
    from paddock.policy.layering import Requests, Statement

_COMMA = re.compile(r"[ \t]*,")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?\r?\n")
List = Literal["allow", "deny", "bypass"]
Action = Literal["allow", "deny"]
_REQUESTS: Final = ("allow-requests", "deny-requests")


def add(text: str, path: str, key: List, pattern: str) -> str:
    """`text` with `pattern` in the list `key` and in no other of hosts."""
    before = parse_policy_toml(text, path)
    pattern = Pattern(pattern).text
    wanted = before.saying(key, pattern)
    changed = text if pattern in getattr(before, key) else _insert(text, key, pattern)
    for other in HOSTS:
        if other != key:
            changed = _drop(changed, other, pattern)
    return _checked(changed, path, wanted)


def add_request(text: str, path: str, action: Action, word: str) -> str:
    """`text` with a rule about requests, and without what would make it void."""
    before = parse_policy_toml(text, path)
    request = Request(word)
    key: Requests = "allow_requests" if action == "allow" else "deny_requests"
    changed = text if request.text in getattr(before, key) else _insert(text, f"{action}-requests", request.text)
    for other in _REQUESTS:
        if other != f"{action}-requests":
            changed = _drop(changed, other, request.text)
    for hosts in ("bypass", "deny") if action == "allow" else ("bypass",):
        changed = _drop(changed, hosts, request.pattern.text)
    return _checked(changed, path, before.saying_request(key, request.text))


def remove(text: str, path: str, word: str) -> str:
    """`text` without a rule about requests, or without a pattern and all that is said of its requests."""
    before = parse_policy_toml(text, path)
    changed = text
    if is_request(word):
        gone = [Request(word).text]
    else:
        pattern = Pattern(word).text
        gone = [one for one in (*before.allow_requests, *before.deny_requests) if Request(one).pattern.text == pattern]
        for hosts in HOSTS:
            changed = _drop(changed, hosts, pattern)
    for request in gone:
        for key in _REQUESTS:
            changed = _drop(changed, key, request)
    return _checked(changed, path, before.without(word))


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
    return (Request(word).text if is_request(word) else Pattern(word).text) == pattern


def _elements(spots: dict[tuple[str | int, ...], Spot], key: str) -> list[Spot]:
    found: list[Spot] = []
    while spot := spots.get((key, len(found))):
        found.append(spot)
    return found


def _checked(text: str, path: str, wanted: Statement) -> str:
    now = parse_policy_toml(text, path)
    keys = (*HOSTS, "allow_requests", "deny_requests")
    if any(set(getattr(now, key)) != set(getattr(wanted, key)) for key in keys):
        raise Unavailable(f"cannot change {path} by itself", hint="edit the file", code="policy-edit")
    return text
