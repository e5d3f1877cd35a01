"""template: what the roots of container boxes are made of."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import networds, placing
from paddock.cli.ticking import Ticking
from paddock.client import Paddock

if TYPE_CHECKING:
    import argparse

    from paddock.reports import TemplateInfo

_WORDS_CHARS = 400


def ls(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        found = paddock.templates.ls()
    if options.json:
        print(json.dumps([codec.to_wire(info) for info in found], indent=2))
    elif options.quiet:
        print("".join(f"{info.name}\n" for info in found), end="")
    elif found:
        rows = [
            (info.name, info.source, info.created_at[:19].replace("T", " "), str(len(info.layers)), _boxes(info))
            for info in found
        ]
        print(text.table(rows, ("TEMPLATE", "FROM", "MADE (UTC)", "LAYERS", "BOXES")))
    else:
        print("no templates; `paddock template load FILE` takes what `docker save` writes", file=sys.stderr)
    return 0


def _boxes(info: TemplateInfo) -> str:
    return str(len(info.boxes) or "-")


def inspect(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        info = paddock.templates.inspect(options.template)
    if options.json:
        print(json.dumps(codec.to_wire(info), indent=2))
        return 0
    shown = {
        "template": info.name,
        "from": info.source,
        "digest": info.digest,
        "made": info.created_at[:19].replace("T", " "),
        "architecture": info.architecture,
        "user": info.user or "root",
        "workdir": info.workdir,
        "entrypoint": " ".join(info.entrypoint),
        "command": " ".join(info.command),
        "variables": " ".join(info.env_names),
        "boxes": " ".join(info.boxes),
        "disk": text.size(info.disk_bytes),
    }
    for key, value in shown.items():  # TRUST: an image's words, neutralised
        if value:
            print(f"{key:13} {text.neutralise(value, _WORDS_CHARS)}")
    for layer in info.layers:
        print(f"{'layer':13} {layer}")
    return 0


def rm(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        for name in options.templates:
            paddock.templates.remove(name)
            print(name)
    return 0


def load(options: argparse.Namespace) -> int:
    path = placing.incoming(options.file)
    with Paddock() as paddock, Ticking(f"{paddock.paths.layers}/staging"):
        found = paddock.templates.load(path, options.name)
    _show(found, as_json=options.json)
    return 0


def _show(found: list[TemplateInfo], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([codec.to_wire(info) for info in found], indent=2))
    else:
        print("\n".join(info.name for info in found))


def save(options: argparse.Namespace) -> int:
    with Paddock() as paddock, placing.outgoing(paddock, options.output) as (place, directory):
        digest = paddock.templates.save(options.template, place, directory)
    done = {"template": options.template, "file": place, "digest": digest}
    print(json.dumps(done, indent=2) if options.json else place)
    return 0


def save_box(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        box = paddock.named(options.box)
        if not options.output:
            info, place = box.save(options.name, stop=options.stop), ""
        else:
            with placing.outgoing(paddock, options.output) as (place, directory):
                info = box.save(options.name, place, stop=options.stop, directory=directory)
    print(json.dumps(codec.to_wire(info), indent=2) if options.json else place or info.name)
    return 0


def pull(options: argparse.Namespace) -> int:
    with Paddock() as paddock, Ticking(f"{paddock.paths.layers}/staging"):
        network = networds.network(options)
        info = paddock.templates.pull(
            options.image, options.name, network=network, secret=options.secret, user=options.user
        )
    _show([info], as_json=options.json)
    return 0


def push(options: argparse.Namespace) -> int:
    with Paddock() as paddock, Ticking(f"{paddock.paths.layers}/staging"):
        network = networds.network(options)
        digest = paddock.templates.push(
            options.template, options.image, network=network, secret=options.secret, user=options.user
        )
    done = {"template": options.template, "image": options.image, "digest": digest}
    print(json.dumps(done, indent=2) if options.json else digest)
    return 0
