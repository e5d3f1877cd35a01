"""policy pending|approve."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.client import Paddock
from paddock.errors import UserError

if TYPE_CHECKING:
    import argparse

    from paddock.client._sync.policies import Decision
    from paddock.reports import PendingInfo

_DECISIONS: dict[str, Decision] = {"once": "once", "for_box": "box", "always": "always", "no": "no"}


def pending(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        waiting = paddock.policy.pending()
    if options.json:
        print(json.dumps([codec.to_wire(item) for item in waiting], indent=2))
    elif waiting:
        rows = [(item.id, item.box, what(item), "waits" if item.held else "refused", item.time) for item in waiting]
        print(text.table(rows, ("ASK", "BOX", "WHAT", "NOW", "SINCE")))
    else:
        print("nothing waits", file=sys.stderr)
    return 0


def what(item: PendingInfo) -> str:
    if item.kind == "project":
        return f"paddock.toml asks for {', '.join(item.asks)}"
    host = f"[{item.host}]" if ":" in item.host else item.host
    return f"{host}:{item.port} ({item.protocol})"


def approve(options: argparse.Namespace) -> int:
    chosen = [word for key, word in _DECISIONS.items() if getattr(options, key)]
    if len(chosen) + options.project > 1:
        raise UserError("two answers", hint="give one of --once, --for-box, --always, --no, --project", code="usage")
    with Paddock() as paddock:
        if not options.project:
            paddock.policy.answer(options.what, chosen[0] if chosen else "once")
            return 0
        for pattern in paddock.policy.approve(options.what):
            print(f"approved {text.neutralise(pattern)}")
    return 0
