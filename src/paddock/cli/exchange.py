"""policy export|import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paddock import text
from paddock.cli.main import warn
from paddock.cli.policy import target
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.limits import POLICY_FILE_BYTES
from paddock.model import Network, NetworkRule
from paddock.policy import Request, files, foreign
from paddock.policy.foreign import Imported

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from paddock.policy.layering import Statement

_FORMATS = ("paddock", "docker", "agent-sandbox")


def export(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        content, notes = paddock.policy.export(options.box, options.format)
    sys.stdout.write(content)
    for note in notes:
        warn(note)
    return 0


def import_(options: argparse.Namespace) -> int:
    """A foreign file is read here: it may need PyYAML, which the daemon does not have."""
    box = target(options)
    found = _parse(_read(options.file), options.file, options.format)
    said = found.statement
    with Paddock() as paddock:
        if box:
            paddock.policy.change(box, _network(said))
        else:
            paddock.policy.add(_network(said).rules)
    if not box and (said.default or said.presets):
        warn("its default and its presets are not in your policy file: they are yours to write there")
    for note in found.notes:
        warn(note)
    for rule in said.rules():
        if not rule.limited:
            print(text.neutralise(f"{'bypass' if rule.bypass else rule.action.value} {rule.pattern}"))
    for about in said.requests():
        print(text.neutralise(f"{about.action.value} {about.request}"))
    return 0


def _parse(content: str, name: str, layout: str) -> Imported:
    match layout:
        case "docker":
            return foreign.read_docker(content, name)
        case "agent-sandbox":
            return foreign.read_agent_sandbox(content, name)
        case "paddock":
            return Imported(statement=files.parse_policy_toml(content, name))
        case "":
            own = name.endswith(".toml")
            return Imported(statement=files.parse_policy_toml(content, name)) if own else foreign.read(content, name)
        case _:
            raise UserError(f"unknown format {layout[:40]!r}", hint=f"one of: {', '.join(_FORMATS)}", code="usage")


def _network(said: Statement) -> Network:
    """What a file says, as the flags of a box."""
    return Network(
        default=said.default.value if said.default else "",
        on_deny=said.on_deny.value if said.on_deny else "",
        presets=said.presets,
        rules=(*_hosts(said), *_requests(said)),
    )


def _hosts(said: Statement) -> Iterator[NetworkRule]:
    for rule in said.rules():
        if not rule.limited:
            yield NetworkRule(action=rule.action.value, pattern=rule.pattern, bypass=rule.bypass)


def _requests(said: Statement) -> Iterator[NetworkRule]:
    for rule in said.requests():
        about = Request(rule.request)
        methods = about.methods or ("*",)
        yield NetworkRule(action=rule.action.value, pattern=about.pattern.text, methods=methods, path=about.path)


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(POLICY_FILE_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(POLICY_FILE_BYTES + 1)
        if len(data) > POLICY_FILE_BYTES:
            raise UserError(f"{name} is over {POLICY_FILE_BYTES // 1024} KiB", code="bad-policy")
        return data.decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}", hint="check the path", code="no-file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 text", code="bad-policy") from error
