"""ls, inspect, env."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.client import Paddock
from paddock.errors import UserError

if TYPE_CHECKING:
    import argparse

    from paddock.model import BoxInfo


def ls(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = paddock.ls()
    if options.json:
        print(json.dumps([codec.to_wire(box) for box in boxes], indent=2))
    elif options.quiet:
        for box in boxes:
            print(box.name)
    elif boxes:
        rows = [(b.name, b.agent, b.engine.value, b.state.value, b.workspace, b.reason) for b in boxes]
        print(text.table(rows, ("NAME", "AGENT", "ENGINE", "STATE", "WORKSPACE", "REASON")))
    else:
        print("no boxes; `paddock run shell .` makes one")
    return 0


def inspect(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        boxes = [paddock.get(name) for name in options.boxes]
        if options.plan:
            for box in boxes:
                for line in box.plan():
                    print(text.neutralise(line))
            return 0
        infos = [box.info for box in boxes]
    if options.json:
        print(json.dumps([codec.to_wire(info) for info in infos], indent=2))
        return 0
    for info in infos:
        _show(info)
    return 0


def _show(info: BoxInfo) -> None:
    rows = [
        ("name", info.name),
        ("id", info.id),
        ("agent", info.agent),
        ("engine", info.engine.value),
        ("state", info.state.value + (f" ({info.reason})" if info.reason else "")),
        ("workspace", info.workspace),
        ("workdir", info.workdir),
        ("created", info.created_at),
        ("pid", str(info.pid or "-")),
        ("environment", " ".join(info.env_names) or "-"),
    ]
    rows += [("mount", f"{m.source} at {m.target}{' read-only' if m.read_only else ''}") for m in info.mounts]
    rows += [(r.name, f"{r.value}  [{r.enforcement.value}] {r.note}".rstrip()) for r in info.limits]
    for key, value in rows:
        print(f"{key:12} {text.neutralise(value)}")


def env(options: argparse.Namespace) -> int:
    values = {}
    for word in options.values:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word!r} is not K=V", hint=f"`paddock env {options.box} {word}=value`", code="usage")
        values[key] = value
    with Paddock() as paddock:
        box = paddock.get(options.box)
        if values or options.unset:
            box.set_env(values, options.unset)
        for name in box.info.env_names:
            print(name)
    return 0
