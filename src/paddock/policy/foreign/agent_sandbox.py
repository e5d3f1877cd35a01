"""The YAML of agent-sandbox: `services:` and `domains:`.

Hosts are allowed at the ports of HTTP, which is all it lets pass, and `*.example.com` there means example.com too.
Methods, paths, credentials and scoped repositories are things we could not hold it to, so they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.errors import Unavailable, UserError
from paddock.policy import presets
from paddock.policy.foreign.values import Exported, Imported
from paddock.policy.layering import Statement
from paddock.policy.pattern import LOCALHOST, Pattern
from paddock.policy.rules import Action, Default, Layer, Source, SourceKind
from paddock.text import neutralise

if TYPE_CHECKING:
    import yaml

_SERVICES = {"claude", "codex", "copilot", "gemini", "github", "opencode", "vscode"}  # as our presets are called
_SCHEMES = {"https": 443, "http": 80}


def read_agent_sandbox(text: str, path: str) -> Imported:
    """Raises UserError `bad-import` with file and line, or Unavailable where PyYAML is missing."""
    return _Yaml(text, path).imported()


def write_agent_sandbox(layer: Layer) -> Exported:
    """Refused for what has no form there and would widen: denials, or a default of allow."""
    if layer.default is not Default.DENY or any(rule.action is Action.DENY for rule in layer.rules):
        raise UserError("agent-sandbox knows no denials", hint="export it as docker", code="not-expressible")
    services = [name for name in presets.names() if name in _SERVICES and _has_all(layer, name)]
    covered = {rule.pattern for name in services for rule in presets.find(name).rules}
    hosts: dict[str, set[str]] = {}
    notes = []
    for rule in layer.rules:
        pattern = Pattern(rule.pattern)
        schemes = {0: set(_SCHEMES)}.get(
            pattern.port, {name for name, port in _SCHEMES.items() if port == pattern.port}
        )
        if pattern.text in covered and rule.source.kind is SourceKind.PRESET:
            continue
        if pattern.network is not None or not pattern.name or pattern.name == LOCALHOST or not schemes:
            notes.append(f"allow {pattern} is left out: it has no form there")
            continue
        if pattern.wildcard:
            notes.append(f"{pattern} means {pattern.name} too there")
        hosts.setdefault(f"*.{pattern.name}" if pattern.wildcard else pattern.name, set()).update(schemes)
    lines = ["services:", *(f"  - {name}" for name in services)] if services else []
    lines += ["domains:"] if hosts else []
    for host, schemes in hosts.items():
        if schemes == set(_SCHEMES):
            lines.append(f'  - "{host}"')
        else:
            lines += [f'  - host: "{host}"', "    rules:", f"      - schemes: [{', '.join(sorted(schemes))}]"]
    return Exported(text="\n".join(lines or ["domains: []"]) + "\n", notes=tuple(notes))


def _has_all(layer: Layer, name: str) -> bool:
    given = {rule.pattern for rule in layer.rules if rule.source == Source(SourceKind.PRESET, name)}
    return given >= {rule.pattern for rule in presets.find(name).rules}


class _Yaml:
    """A composed document: its nodes know their lines, and a key that stands twice is seen."""

    def __init__(self, text: str, path: str) -> None:
        try:
            import yaml
        except ImportError:
            message = f"cannot read {neutralise(path)}: PyYAML is not installed"
            raise Unavailable(message, hint="pip install pyyaml, or apt install python3-yaml", code="no-yaml") from None
        self._path = path
        try:
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "it is no YAML"
            raise self._bad(mark.line + 1 if mark else 1, neutralise(str(problem))) from error
        except RecursionError:
            raise self._bad(1, "too deeply nested") from None

    def imported(self) -> Imported:
        table = {} if self._root is None else self._table(self._root, ("services", "domains"))
        services: dict[str, None] = {}
        domains: dict[str, tuple[str, ...]] = {}
        for node in self._list(table.get("services")):
            name, replaces = self._entry(node, "name", ("merge_mode",))
            if name not in _SERVICES:
                known = ", ".join(sorted(_SERVICES))
                raise self._bad(_line(node), f"unknown service '{neutralise(name, 80)}'", f"known: {known}")
            services[name] = None
        for node in self._list(table.get("domains")):
            host, replaces = self._entry(node, "host", ("merge_mode", "rules"))
            patterns = self._patterns(node, host)
            domains[host] = patterns if replaces else (*domains.get(host, ()), *patterns)
        statement = Statement(
            source=Source(SourceKind.USER, self._path),
            default=Default.DENY,
            presets=tuple(services),
            allow=tuple(text for texts in domains.values() for text in texts),
        )
        wider = [
            name for name in services if any(Pattern(rule.pattern).port == 22 for rule in presets.find(name).rules)
        ]
        return Imported(statement=statement, notes=tuple(f"preset {name} opens ssh too" for name in wider))

    def _entry(self, node: yaml.Node, key: str, others: tuple[str, ...]) -> tuple[str, bool]:
        """The name of a service or domain, and whether it replaces what stood before."""
        if node.id == "scalar":
            return self._word(node), False
        table = self._table(node, (key, *others))
        if key not in table:
            raise self._bad(_line(node), f"missing key '{key}'")
        mode = self._word(table["merge_mode"]) if "merge_mode" in table else ""
        if mode not in {"", "replace"}:
            raise self._bad(_line(table["merge_mode"]), "merge_mode must be replace")
        return self._word(table[key]), bool(mode)

    def _patterns(self, node: yaml.Node, host: str) -> tuple[str, ...]:
        ports = list(_SCHEMES.values())
        if node.id != "scalar":
            table = self._table(node, ("host", "merge_mode", "rules"))
            if "rules" in table:
                ports = [port for rule in self._list(table["rules"]) for port in self._ports(rule)]
        names = [host.removeprefix("*."), host] if host.startswith("*.") else [host]
        try:
            parsed = [Pattern(name) for name in names]
            if any(one.port or not one.name for one in parsed):
                raise self._bad(_line(node), f"'{neutralise(host, 80)}' is not a domain")
            return tuple(Pattern(f"{name}:{port}").text for name in names for port in ports)
        except UserError as error:
            if error.code == "bad-import":
                raise
            raise self._bad(_line(node), error.message, error.hint) from error

    def _ports(self, rule: yaml.Node) -> list[int]:
        table = self._table(rule, ("schemes",), "we cannot hold it to methods, paths or queries")
        schemes = [self._word(node) for node in self._list(table.get("schemes"))]
        if not all(scheme in _SCHEMES for scheme in schemes):
            raise self._bad(_line(rule), "schemes are http and https")
        return [_SCHEMES[scheme] for scheme in schemes or _SCHEMES]

    def _table(self, node: yaml.Node, known: tuple[str, ...], hint: str = "") -> dict[str, yaml.Node]:
        if node.id != "mapping":
            raise self._bad(_line(node), "this must be a mapping")
        table: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self._word(key_node)
            if key not in known:
                hint = hint or f"known here: {', '.join(known)}"
                raise self._bad(_line(key_node), f"unknown key '{neutralise(key, 80)}'", hint)
            if key in table:
                raise self._bad(_line(key_node), f"key '{key}' appears twice")
            table[key] = value
        return table

    def _list(self, node: yaml.Node | None) -> list[yaml.Node]:
        if node is None or (node.id == "scalar" and node.tag == "tag:yaml.org,2002:null"):
            return []
        if node.id != "sequence":
            raise self._bad(_line(node), "this must be a list")
        return list(node.value)

    def _word(self, node: yaml.Node) -> str:
        if node.id != "scalar" or node.tag != "tag:yaml.org,2002:str":
            raise self._bad(_line(node), "this must be a word")
        return str(node.value)

    def _bad(self, line: int, message: str, hint: str = "") -> UserError:
        return UserError(f"{neutralise(self._path)}:{line}: {message}", hint=hint, code="bad-import")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
