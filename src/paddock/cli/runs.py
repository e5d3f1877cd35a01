"""runs: what agents did."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import amounts
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.client.answers import expect_list
from paddock.errors import UserError
from paddock.metering.budget import dollars

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from paddock.reports import ChangedInfo, HostCount, ModelUse, RunInfo

_SHOWN = 20
_LINE_CHARS = 600
_HEAD = ("RUN", "STARTED (UTC)", "BOX", "AGENT", "MODE", "RESULT", "TIME", "CHANGED", "COST")


def runs(options: argparse.Namespace) -> int:
    if options.what == "show":
        return _show(options)
    if options.run:
        raise UserError(f"{options.what!r} is no verb of runs", hint="`paddock runs show ID`", code="usage")
    limit = amounts.count(options.limit, "--limit") or (0 if options.json else _SHOWN)
    with Paddock() as paddock:
        found = paddock.runs(options.what, limit)
        damaged = expect_list(paddock.call("runs_damaged"))
    if options.json:
        print(json.dumps([codec.to_wire(info) for info in found], indent=2))
    elif found:
        print(text.table(map(_row, found), _HEAD))
    else:
        print("no run of an agent yet; `paddock run claude . -- PROMPT` makes one", file=sys.stderr)
    if damaged:
        warn(f"left out, because they cannot be read: {', '.join(map(str, damaged[:_SHOWN]))}")
    return 0


def _show(options: argparse.Namespace) -> int:
    if not options.run:
        raise UserError("no run is named", hint="`paddock runs` lists them; `paddock runs show ID`", code="usage")
    with Paddock() as paddock:
        info = paddock.run_record(options.run)
    if options.json:
        print(json.dumps(codec.to_wire(info), indent=2))
    else:
        print("\n".join(f"{key:12} {text.neutralise(value, _LINE_CHARS)}" for key, value in _lines(info)))
    return 0


def _row(info: RunInfo) -> tuple[str, ...]:
    files = "" if info.reason == "running" else files_word(info.changed)
    cost = dollars(info.cost_picodollars) if info.metered else ""
    started = info.started[:19].replace("T", " ")
    return info.id, started, info.box, info.agent, info.mode, info.reason, _took(info), files, cost


def _lines(info: RunInfo) -> Iterable[tuple[str, str]]:
    yield "run", info.id
    yield "box", f"{info.box} ({info.box_id})"
    yield "agent", f"{info.agent} {info.version}".strip()
    yield "mode", info.mode
    yield "prompt", f"sha256 {info.prompt_sha256}" if info.prompt_sha256 else "none"
    yield "started", info.started
    yield "ended", f"{info.ended}, after {_took(info)}" if info.ended else "-"
    yield "result", info.reason + (f": {info.why}" if info.why else "")
    yield "exit code", "-" if info.exit_code is None else str(info.exit_code)
    yield "session", info.session or "-"
    yield "changed", changed(info.changed)
    yield "refused", refused(info)
    yield "cost", cost(info)
    yield "network", f"{info.network.connections} connections, {info.network.requests} requests seen let through"
    for use in info.usage:
        yield "usage", _use(use)
    for line in info.final.splitlines():
        yield "said", line


def _took(info: RunInfo) -> str:
    if not info.ended:
        return ""
    return text.duration((datetime.fromisoformat(info.ended) - datetime.fromisoformat(info.started)).total_seconds())


# -- what a person wants to know ---------------------------------------------------------------------------------------


def files_word(found: ChangedInfo) -> str:
    count = f"{found.count} file{'' if found.count == 1 else 's'}"
    return count if found.complete else f"{count} or more"


def changed(found: ChangedInfo, most: int = 20) -> str:
    if not found.count:
        return "nothing" if found.complete else "not all of the workspace was looked at"
    rest = found.count - len(found.names[:most])
    return f"{files_word(found)}: {', '.join(found.names[:most])}" + (f" and {rest} more" if rest else "")


def refused(info: RunInfo) -> str:
    parts = [_hosts(info.network.refused)] if info.network.refused else []
    if info.network.telemetry:
        parts.append(f"telemetry, which it does not need: {_hosts(info.network.telemetry)}")
    if not info.network.complete:
        parts.append("some of the log is lost")
    return "; ".join(parts) or "nothing"


def _hosts(hosts: Iterable[HostCount], most: int = 5) -> str:
    every = [f"{one.host} ({one.count})" if one.count > 1 else one.host for one in hosts]
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if every[most:] else "")


def cost(info: RunInfo) -> str:
    if not info.metered:
        return "not counted: the box has no key that we lend, and no budget"
    if not info.usage:
        return "nothing was used of a model"
    tokens = sum(use.input + use.output + use.cache_read + use.cache_write for use in info.usage)
    requests = sum(use.requests for use in info.usage)
    models = ", ".join(sorted({use.model or use.provider for use in info.usage}))
    return f"{dollars(info.cost_picodollars)}: {requests} requests, {tokens} tokens of {text.neutralise(models, 120)}"


def _use(use: ModelUse) -> str:
    cached = use.cache_read + use.cache_write
    what = f"{use.requests} requests, {use.input} in, {use.output} out, {cached} cached"
    return f"{text.neutralise(use.model or use.provider)}: {what}, {dollars(use.picodollars)}"
