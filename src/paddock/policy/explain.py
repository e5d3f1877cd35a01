"""A refusal in plain words: what, which rule and where it is from, why, and the command that would allow it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from paddock.errors import UserError
from paddock.policy.host import Host
from paddock.policy.layering import ORGANISATION
from paddock.policy.pattern import HOST_ALIAS, LOCALHOST, Pattern
from paddock.policy.requests import Request
from paddock.text import neutralise

if TYPE_CHECKING:
    from paddock.policy.requests import RequestVerdict
    from paddock.policy.rules import Verdict


def refusal(verdict: Verdict, host_text: str, port: int, box: str) -> str:
    """Some lines for whoever tried, in a box or outside; `host_text` may be anything a box sent."""
    lines = [
        f"paddock: {_target(host_text, port)} is denied for box {neutralise(box)}",
        f"why: {neutralise(verdict.reason)}",
        f"rule: {_rule(verdict)}",
    ]
    if verdict.layer == ORGANISATION:
        lines.append("this machine's administrator decides about it: /etc/paddock/policy.toml")
    elif command := allow_command(host_text, port, box, verdict):
        lines.append(f"to allow it, run outside the box: {command}")
        pattern = shlex.quote(allow_pattern(host_text, port, verdict))
        lines.append(f"or start a box with it: paddock run --allow-host {pattern} ...")
    else:
        lines.append("no rule can allow it")
    return "\n".join(lines) + "\n"


def allow_command(host_text: str, port: int, box: str, verdict: Verdict | None = None) -> str:
    """The narrowest rule that allows it, as a command; empty if there is none."""
    pattern = allow_pattern(host_text, port, verdict)
    return f"paddock policy allow --box {shlex.quote(box)} {shlex.quote(pattern)}" if pattern else ""


def allow_request_command(method: str, host: Host, port: int, path: str, box: str, verdict: RequestVerdict) -> str:
    """The narrowest rule about requests that allows it, as a command; empty if there is none."""
    if verdict.final or verdict.layer == ORGANISATION or "*" in path:
        return ""
    try:
        request = Request.of(Pattern(host.with_port(port)).text, (method,), path)
    except UserError:
        return ""
    words = [request.pattern.text, "--method", method, "--path", request.path]
    return f"paddock policy allow --box {shlex.quote(box)} {shlex.join(words)}"


def allow_pattern(host_text: str, port: int, verdict: Verdict | None = None) -> str:
    """The pattern of that rule. A name that was refused for where it leads needs a rule for the address."""
    if verdict is not None and verdict.final:
        return ""
    try:
        host = Host(verdict.address if verdict is not None and verdict.address else host_text)
        if host.text == HOST_ALIAS:
            host = Host(LOCALHOST)
        return Pattern(host.with_port(port)).text
    except UserError:
        return ""


def _target(host_text: str, port: int) -> str:
    try:
        return Host(host_text).with_port(port)
    except UserError:
        return f"'{neutralise(host_text)}' port {port}"


def _rule(verdict: Verdict) -> str:
    if verdict.rule is not None:
        return neutralise(str(verdict.rule))
    return f"the default of the {verdict.layer} policy" if verdict.layer else "built in"
