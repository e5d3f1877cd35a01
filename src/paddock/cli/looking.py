"""ls, inspect, ports, env."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import environment
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.model import Enforcement
from paddock.reports import LeaveReport

if TYPE_CHECKING:
    import argparse

    from paddock.model import BoxInfo, LimitReport, Publish

_LINE_CHARS = 8192  # a plan is for checking: no path in it is shortened
_UNSET = {"all", "none"}  # what a limit reads like that nobody asked for
_HELD = {
    Enforcement.KERNEL: "held by the kernel",
    Enforcement.PER_PROCESS: "per process",
    Enforcement.WATCHED: "watched",
    Enforcement.NONE: "NOT ENFORCED",
}


def ls(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = paddock.ls()
    if options.json:
        print(json.dumps([codec.to_wire(box) for box in boxes], indent=2))
    elif options.quiet:
        for box in boxes:
            print(box.name)
    elif boxes:
        heads = ("NAME", "AGENT", "ENGINE", "STATE", "DOING", "NETWORK", "MODE", "WORKSPACE", "REASON")
        print(text.table([_row(box) for box in boxes], heads))
        for box in boxes:
            if box.untold:
                warn(f"{box.name} left something that nobody was told: `paddock inspect {box.name}`")
    else:
        print("no boxes; `paddock run shell .` makes one", file=sys.stderr)
    return 0


def _row(box: BoxInfo) -> tuple[str, ...]:
    state, view = box.state.value, box.mode.value
    network = f"{box.network}, token inside" if box.logins else box.network
    return box.name, box.agent, box.engine.value, state, box.doing, network, view, box.workspace, box.reason


def inspect(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]
        if options.plan:
            for box in boxes:
                for line in box.plan():
                    print(text.neutralise(line, _LINE_CHARS))
            return 0
        left = [box.pending() if box.info.untold else LeaveReport() for box in boxes]
    infos = [box.info for box in boxes]
    if options.json:
        print(json.dumps([_as_data(*pair) for pair in zip(infos, left, strict=True)], indent=2))
        return 0
    print("\n\n".join("\n".join((_shown(info), *_left(report))) for info, report in zip(infos, left, strict=True)))
    return 0


def _as_data(info: BoxInfo, report: LeaveReport) -> object:
    """The SDK's BoxInfo, and with it what it has to tell, if there is something."""
    row = codec.to_wire(info)
    return {**row, "left": codec.to_wire(report)} if info.untold and isinstance(row, dict) else row


def _left(report: LeaveReport) -> list[str]:
    rows = [f"{item.path}: {item.why}" for item in report.trusted]
    rows += [f"{path}: a git repository of the box's making" for path in report.nested]
    rows += [f"commits of {one.branch} in {one.ref}" for one in report.arrived]
    rows += report.problems
    if not report.complete:
        rows.append("the workspace is too large to look at all of it")
    return [f"{'left':12} {text.neutralise(row, _LINE_CHARS)}" for row in rows]


def _shown(info: BoxInfo) -> str:
    rows = [
        ("name", info.name),
        ("id", info.id),
        ("agent", info.agent),
        ("engine", info.engine.value),
        ("state", info.state.value + (f" ({info.reason})" if info.reason else "")),
        *([("doing", info.doing)] if info.doing else []),
        ("workspace", info.workspace),
        ("mode", f"{info.mode.value}{f' on {info.branch}' if info.branch else ''}"),
        *(("hidden", path) for path in info.masks),
        ("workdir", info.workdir),
        ("created", info.created_at),
        ("pid", str(info.pid or "-")),
        ("environment", " ".join(info.env_names) or "-"),
        ("network", info.network),
    ]
    rows += [("ssh key", f"{use.key}, to log in at {use.host}:{use.port}") for use in info.ssh_keys]
    rows += [("login", f"{agent}: token inside") for agent in info.logins]
    rows += [("secret", use.name + (", read-only" if use.read_only else "")) for use in info.secrets]
    rows += [("port", _port(published)) for published in info.ports]
    rows += [("mount", f"{m.source} at {m.target}{', read-only' if m.read_only else ''}") for m in info.mounts]
    rows += [(report.name, _limit(report)) for report in info.limits]
    return "\n".join(f"{key:12} {text.neutralise(value, _LINE_CHARS)}" for key, value in rows)


def _limit(report: LimitReport) -> str:
    if report.value in _UNSET:
        return report.value
    return f"{report.value}, {_HELD[report.enforcement]}" + (f": {report.note}" if report.note else "")


def _port(published: Publish) -> str:
    address = f"[{published.address}]" if ":" in published.address else published.address
    return f"{address}:{published.port} -> {published.box_port}"


def ports(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        info = paddock.get(options.box).info
    if options.json:
        print(json.dumps([codec.to_wire(published) for published in info.ports], indent=2))
        return 0
    for published in info.ports:
        print(_port(published))
    if not info.ports:
        print(f"{info.name} publishes no ports; `paddock run -p HOST:BOX` does", file=sys.stderr)
    return 0


def env(options: argparse.Namespace) -> int:
    values = dict(environment.pair(word) for word in options.values)
    with Paddock() as paddock:
        box = paddock.get(options.box)
        if values or options.unset:
            box.set_env(values, options.unset)
        for name in box.info.env_names:
            print(name)
    return 0
