"""Docker's `proxy-config.json`."""

from __future__ import annotations

import json
import re

from paddock.errors import UserError
from paddock.policy.foreign.values import Exported, Imported
from paddock.policy.layering import Statement
from paddock.policy.pattern import Pattern
from paddock.policy.rules import Action, Default, Layer, Source, SourceKind
from paddock.text import neutralise

_POLICY_KEYS = ("default", "logBlocked", "logAllowed")
_DOMAINS = ("allowedDomains", "blockedDomains", "bypassDomains")
_NETWORK_KEYS = (*_DOMAINS, "blockedCIDRs", "bypassCIDRs")


def read_docker(text: str, path: str) -> Imported:
    file = _Json(text, path)
    top = file.table(file.data, ("policy", "network"), "the file")
    policy = file.table(top.get("policy", {}), _POLICY_KEYS, "policy")
    network = file.table(top.get("network", {}), _NETWORK_KEYS, "network")
    default = policy.get("default", "deny")
    if default not in ("allow", "deny"):
        raise file.bad("default", "default must be allow or deny")
    lists = {key: file.patterns(network.get(key, []), key) for key in _NETWORK_KEYS}
    allowed, notes = lists["allowedDomains"], []
    bypass = []
    for one in (*lists["bypassDomains"], *lists["bypassCIDRs"]):
        if default == "allow" or any(other.covers(one) for other in allowed):
            bypass.append(one.text)
        else:
            notes.append(f"bypass {one} is left out: the file does not allow it, and ours would")
    if lists["blockedCIDRs"]:
        notes.append("blocked ranges are blocked for allowed names too, unlike there")
    statement = Statement(
        source=Source(SourceKind.USER, path),
        default=Default(default),
        allow=tuple(one.text for one in allowed if one.text not in bypass),
        deny=tuple(one.text for one in (*lists["blockedDomains"], *lists["blockedCIDRs"])),
        bypass=tuple(bypass),
    )
    return Imported(statement=statement, notes=tuple(notes))


def write_docker(layer: Layer) -> Exported:
    """Its file has no list of allowed ranges; those are left out and noted."""
    network: dict[str, list[str]] = {key: [] for key in _NETWORK_KEYS}
    notes = []
    for rule in layer.rules:
        pattern = Pattern(rule.pattern)
        is_range = pattern.network is not None
        if rule.action is Action.DENY:
            network["blockedCIDRs" if is_range else "blockedDomains"].append(
                _cidr(pattern) if is_range else pattern.text
            )
        elif is_range:
            notes.append(f"allow {pattern} is left out: there is no list of allowed ranges")
        else:
            network["allowedDomains"].append(pattern.text)
            if rule.bypass:
                network["bypassDomains"].append(pattern.text)
    if layer.default is Default.OBSERVE:
        notes.append("observe is written as allow")
    default = "deny" if layer.default is Default.DENY else "allow"
    document = {"policy": {"default": default}, "network": {key: list(dict.fromkeys(network[key])) for key in network}}
    return Exported(text=json.dumps(document, indent=2) + "\n", notes=tuple(notes))


def _cidr(pattern: Pattern) -> str:
    if pattern.port:
        raise UserError(f"{pattern} cannot be written: ranges have no ports there", code="not-expressible")
    return str(pattern.network)


class _Json:
    """A decoded JSON file and, as good as a search can tell, the lines of its keys."""

    def __init__(self, text: str, path: str) -> None:
        self._text, self._path = text, neutralise(path)
        try:
            self.data: object = json.loads(text, object_pairs_hook=self._once)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{self._path}:{error.lineno}: {error.msg}", hint="it is no JSON", code="bad-import"
            ) from error
        except RecursionError:
            raise UserError(f"{self._path}:1: too deeply nested", code="bad-import") from None

    def _once(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(pairs)
        if len(table) != len(pairs):
            twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
            raise self.bad(twice, f"key '{neutralise(twice, 80)}' appears twice")
        return table

    def table(self, value: object, known: tuple[str, ...], where: str) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.bad(where, f"{where} must be an object")
        for key in value:
            if key not in known:
                raise self.bad(key, f"unknown key '{neutralise(key, 80)}'", f"known here: {', '.join(known)}")
        return value

    def patterns(self, value: object, key: str) -> tuple[Pattern, ...]:
        if not isinstance(value, list):
            raise self.bad(key, f"{key} must be a list")
        found = []
        for text in value:
            if not isinstance(text, str):
                raise self.bad(key, f"{key} must be a list of strings")
            try:
                pattern = Pattern(text)
            except UserError as error:
                raise self.bad(text, error.message, error.hint) from error
            if (pattern.network is not None) != key.endswith("CIDRs") and key.endswith("CIDRs"):
                raise self.bad(text, f"'{pattern}' is not a range")
            found.append(pattern)
        return tuple(found)

    def bad(self, word: str, message: str, hint: str = "") -> UserError:
        match = re.search(re.escape(json.dumps(word)), self._text) or re.search(re.escape(f'"{word}"'), self._text)
        line = self._text.count("\n", 0, match.start()) + 1 if match else 1
        return UserError(f"{self._path}:{line}: {message}", hint=hint, code="bad-import")
