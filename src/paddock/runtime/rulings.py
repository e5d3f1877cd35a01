"""What people ask and decide about policies: shown, checked, changed, suggested, approved, exported.

Each function is one verb of the daemon. A change is on disk and in force when it returns.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from paddock import fs
from paddock.errors import Unavailable, UserError
from paddock.gateway import records
from paddock.gateway.records import Decision, Event
from paddock.model import BoxId, Network, NetworkRule
from paddock.policy import Action, Default, Host, Pattern, Request, edit, explain
from paddock.policy.suggest import Refused
from paddock.policy.suggest import suggest as suggestions
from paddock.reports import NetworkLog, PendingInfo
from paddock.runtime.flags import merge, no_rule, request_of, without
from paddock.runtime.policies import of_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.policy import Layer
    from paddock.reports import PolicyInfo, VerdictInfo
    from paddock.runtime.core import Runtime
    from paddock.runtime.network import Networks

    Answer = Literal["once", "box", "always", "no"]
    Layout = Literal["paddock", "docker", "agent-sandbox"]

T = TypeVar("T")
_CONTENT, _DIGEST_CHARS = "@", 16


def networks(runtime: Runtime) -> Networks:
    if runtime.network is None:
        raise Unavailable("this daemon has no gateway", hint="run `paddock doctor`", code="gateway")
    runtime.network.look()
    return runtime.network


# -- looking -----------------------------------------------------------------------------------------------------------


def show(runtime: Runtime, name: str) -> PolicyInfo:
    """The rules of a box, or of every new box when no name is given."""
    policies = networks(runtime).policies
    if not name:
        return policies.info("", Network(), "")
    box = runtime.find(name)
    return policies.info(box.name, *of_box(box))


def check(runtime: Runtime, name: str, target: str, method: str = "") -> VerdictInfo:
    """Of a host, or of a request when there is a method or `target` is a URL."""
    policies = networks(runtime).policies
    if not name:
        return policies.check(target, "", Network(), "", method)
    box = runtime.find(name)
    return policies.check(target, box.name, *of_box(box), method)


def logs(runtime: Runtime, name: str) -> list[NetworkLog]:
    """Of one box, by its name even after it is gone, or of all."""
    kept = networks(runtime).logs
    if any(name in {box.name, box.row.id} for box in runtime.register.listed()):
        box = runtime.find(name)
        return [NetworkLog(box=box.name, id=box.row.id, paths=kept.paths(box.row.id))]
    names: dict[str, str] = {box.row.id: box.name for box in runtime.boxes.values()}
    found = [(box_id, names.get(box_id) or kept.name(box_id)) for box_id in kept.ids()]
    chosen = [NetworkLog(box=box, id=box_id, paths=kept.paths(box_id)) for box_id, box in found if name in {"", box}]
    if name and not chosen:
        runtime.find(name)  # by the beginning of an id, or an error
    return chosen


def suggest(runtime: Runtime, name: str) -> list[str]:
    """The narrowest patterns that would allow what the box was refused, the most frequent first."""
    box = runtime.find(name)
    policies = networks(runtime).policies
    refused = [
        Refused(host=one.host, port=one.port)
        for one in records.read(networks(runtime).logs.paths(box.row.id))
        if one.event is Event.DECISION and one.decision in {Decision.DENY, Decision.OBSERVE} and one.port
    ]
    found = suggestions(refused, policies.evaluator(*of_box(box)))
    return [one.pattern for one in found if one.pattern]


# -- changing ----------------------------------------------------------------------------------------------------------


async def change(runtime: Runtime, name: str, wanted: Network) -> PolicyInfo:
    if wanted.publish:
        raise UserError("ports are published when a box is made", hint="remove and make it again", code="different")
    box = runtime.find(name)
    await runtime.set_network(box, lambda network: merge(network, wanted))
    return show(runtime, name)


async def remove(runtime: Runtime, name: str, patterns: tuple[str, ...]) -> PolicyInfo:
    if name:
        await runtime.set_network(runtime.find(name), lambda network: without(network, patterns))
        return show(runtime, name)

    def drop(text: str, path: str) -> str:
        for pattern in patterns:
            changed = edit.remove(text, path, pattern)
            if changed == text:
                raise no_rule(pattern)
            text = changed
        return text

    return await _edit_user(runtime, drop)


async def add_for_user(runtime: Runtime, rules: tuple[NetworkRule, ...]) -> PolicyInfo:
    def add(text: str, path: str) -> str:
        for rule in rules:
            request = request_of(rule)
            if request is not None:
                text = edit.add_request(text, path, rule.action, request.text)
            else:
                text = edit.add(text, path, "bypass" if rule.bypass else rule.action, rule.pattern)
        return text

    return await _edit_user(runtime, add)


async def _edit_user(runtime: Runtime, act: Callable[[str, str], str]) -> PolicyInfo:
    """Change the user's file and leave everything in it that is not meant as it is."""
    network = networks(runtime)
    file = network.policies.user
    async with network.editing:
        text = act(file.text() or "", file.path)
        fs.make_private_dir(runtime.paths.config)
        await asyncio.to_thread(fs.write_atomic, file.path, text.encode())
        network.policies.reload()
    await network.push_all()
    return show(runtime, "")


# -- what waits --------------------------------------------------------------------------------------------------------


async def pending(runtime: Runtime) -> list[PendingInfo]:
    network = networks(runtime)
    gateway = network.supervisor.gateway
    names = {box.row.id: box.name for box in runtime.boxes.values()}
    waiting = [
        PendingInfo(
            id=ask.ask,
            box=names.get(BoxId(ask.box), ask.box),
            kind="connection",
            host=ask.host,
            port=ask.port,
            protocol=ask.protocol,
            time=ask.time,
            held=ask.held,
        )
        for ask in (await gateway.pending() if gateway else ())
    ]
    for box in runtime.boxes.values():
        if asked := network.policies.asks(*of_box(box)):
            waiting.append(PendingInfo(id=box.name, box=box.name, kind="project", asks=asked))
        if newer := network.policies.newer(*of_box(box)):
            content, asked = newer
            name = f"{box.name}{_CONTENT}{content[:_DIGEST_CHARS]}"
            waiting.append(PendingInfo(id=name, box=box.name, kind="project", asks=asked))
    return waiting


async def answer(runtime: Runtime, ask: str, decision: Answer) -> None:
    network = networks(runtime)
    if decision in {"once", "no"}:
        await (await network.supervisor.ready()).answer(ask, "once" if decision == "once" else "no")
        return
    found = next((one for one in await pending(runtime) if one.id == ask and one.kind == "connection"), None)
    if found is None:
        raise UserError(f"no question {ask[:80]!r} is open", hint="see `paddock policy pending`", code="no-ask")
    box = runtime.find(found.box)
    verdict = network.policies.evaluator(*of_box(box)).decide(Host(found.host), found.port)
    pattern = explain.allow_pattern(found.host, found.port, verdict)
    if not pattern:
        raise UserError(f"no rule can allow {found.host}:{found.port}", hint=verdict.reason, code="no-rule")
    rule = NetworkRule(action="allow", pattern=pattern)
    if decision == "box":
        await change(runtime, box.name, Network(rules=(rule,)))
    else:
        await add_for_user(runtime, (rule,))


async def approve(runtime: Runtime, name: str) -> list[str]:
    """Accept what a box's project file asks for: the one it goes by, or as BOX@DIGEST the one `pending` listed so."""
    name, marked, content = name.partition(_CONTENT)
    if marked and len(content) < _DIGEST_CHARS:
        raise UserError("this does not say which project file", hint="see `paddock policy pending`", code="changed")
    box = runtime.find(name)
    asked: list[str] = []

    def take(network: Network) -> Network:
        changed, patterns = networks(runtime).policies.approve(network, box.row.spec.workspace, content)
        asked.extend(patterns)
        return changed

    await runtime.set_network(box, take)
    for other in runtime.boxes.values():  # the same project with another agent
        if other is not box and other.row.spec.workspace == box.row.spec.workspace:
            await networks(runtime).push(other)
    return asked


# -- export ------------------------------------------------------------------------------------------------------------


def export(runtime: Runtime, name: str, layout: Layout) -> tuple[str, tuple[str, ...]]:
    """The rules of a box's own layer as the text of a file, and what could not be said in it."""
    policies = networks(runtime).policies
    network, workspace = of_box(runtime.find(name)) if name else (Network(), "")
    *others, layer = policies.of(network, workspace).layers
    notes = tuple(f"the {other.name} policy holds as well and is not exported" for other in others)
    if layout == "paddock":
        return _toml(layer), notes
    from paddock.policy import foreign

    layer, left_out = _unlimited(layer)
    made = foreign.write_docker(layer) if layout == "docker" else foreign.write_agent_sandbox(layer)
    return made.text, (*notes, *left_out, *made.notes)


def _unlimited(layer: Layer) -> tuple[Layer, tuple[str, ...]]:
    """Without what it allows only in part: another program would allow it all."""
    limited = [Request(rule.request).pattern for rule in layer.requests]
    closed = [rule for rule in layer.rules if any(Pattern(rule.pattern).meets(one) for one in limited)]
    kept = tuple(rule for rule in layer.rules if rule.action is Action.DENY or rule not in closed)
    default = layer.default if not limited else Default.DENY
    gone = dict.fromkeys(rule.pattern for rule in layer.rules if rule not in kept)
    note = f"left out, because their requests are held to rules: {', '.join(gone)}"
    return replace(layer, rules=kept, requests=(), default=default), (note,) if gone else ()


def _toml(layer: Layer) -> str:
    lists: dict[str, list[str]] = {"allow": [], "deny": [], "bypass": [], "allow-requests": [], "deny-requests": []}
    for rule in layer.rules:
        if not rule.limited:
            lists["bypass" if rule.bypass else rule.action.value].append(rule.pattern)
    for about in layer.requests:
        lists[f"{about.action.value}-requests"].append(about.request)
    lines = [f'default = "{layer.default.value}"']
    for key, patterns in lists.items():
        if patterns:
            lines += [f"{key} = [", *(f"    {json.dumps(pattern)}," for pattern in dict.fromkeys(patterns)), "]"]
    return "\n".join(lines) + "\n"
