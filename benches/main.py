"""`./bench`: runs groups of figures, each in a daemon of its own, and prints one JSON document; people get a table."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benches import (
    agent,
    boxes1000,
    build,
    bulk,
    checkpoints,
    cli,
    command,
    container,
    files,
    gateway,
    gvisor,
    inspected,
    machine,
    memory,
    phases,
    policy,
    run,
    workspace,
)
from benches.installation import Installation
from paddock._version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.figures import Figure, Json, Target

FORMAT = 1
GROUPS: dict[str, Callable[[Installation], list[Figure]]] = {
    "run": run.measure,
    "exec": command.measure,
    "container": container.measure,
    "cli": cli.measure,
    "memory": memory.measure,
    "bulk": bulk.measure,
    "files": files.measure,
    "phases": phases.measure,
    "policy": policy.measure,
    "gateway": gateway.measure,
    "inspected": inspected.measure,
    "workspace": workspace.measure,
    "agent": agent.measure,
    "gvisor": gvisor.measure,
    "checkpoints": checkpoints.measure,
    "build": build.measure,
    "boxes1000": boxes1000.measure,
}
LONG = ("checkpoints", "boxes1000")


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as ctrl-c: what was started is ended
    if options.json:
        _write(options.json, "")  # or the figures would be lost after minutes of work
    names = options.only or [name for name in GROUPS if options.full or name not in LONG]
    document: Json = {
        "format": FORMAT,
        "paddock": VERSION,
        "began_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
    }
    document["groups"] = {name: _group(name) for name in names}
    text = json.dumps(document, indent=1)
    print(text)
    if options.json:
        _write(options.json, text + "\n")
    return 0


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        say(f"error: cannot write {path}: {error.strerror}")
        sys.exit(2)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./bench", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group (may be given several times)")
    parser.add_argument("--full", action="store_true", help=f"also what takes long: {', '.join(LONG)}")
    parser.add_argument("--json", metavar="FILE", help="write the document to a file too")
    return parser.parse_args(argv)


def _group(name: str) -> Json:
    begun = time.monotonic()
    with Installation() as installation:
        before = machine.look(installation.ours())
        figures = GROUPS[name](installation)
        quiet = machine.Quiet(before=before, after=machine.look(installation.ours()))
    _show(name, figures, quiet)
    return {
        "machine": quiet.to_json(),
        "seconds": round(time.monotonic() - begun, 1),
        "figures": [figure.to_json(quiet=not quiet.why_not) for figure in figures],
    }


def _show(name: str, figures: list[Figure], quiet: machine.Quiet) -> None:
    say(f"== {name}{f' (unclear: {quiet.why_not})' if quiet.why_not else ''}")
    for figure in figures:
        samples = figure.samples
        spread = f" p95 {samples.p95:<8.4g}" if len(samples.values) >= 20 else " " * 13
        verdict = figure.verdict(quiet=not quiet.why_not)
        goal = "" if figure.target is None else f" {verdict} ({_goal(figure.target)})"
        say(f"  {samples.p50:>9.4g}{spread} {figure.unit:5} {figure.what}{goal}")
        for yardstick in figure.yardsticks:
            if yardstick.samples is None:
                say(f"  {'':>9} {'':12} {'':5}   {yardstick.name}: {yardstick.absent}")
            else:
                ratio = samples.p50 / yardstick.samples.p50
                say(f"  {yardstick.samples.p50:>9.4g} {'':12} {figure.unit:5}   {yardstick.name}: x {ratio:.3g}")


def _goal(target: Target) -> str:
    words = ((target.p50_most, "p50 <="), (target.p95_most, "p95 <="), (target.p50_least, "p50 >="))
    return ", ".join(f"{word} {value:g}" for value, word in words if value is not None)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
