#!/usr/bin/env python3
"""Makes the blocking SDK from the async one. `--check` only says whether it is in step (a test runs that)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent.parent / "src" / "paddock" / "client"
SUBSTITUTIONS = (
    (r"\basync def\b", "def"),
    (r"\basync for\b", "for"),
    (r"\basync with\b", "with"),
    (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"Awaitable\[(\w+)\]", r"\1"),
    (r"AsyncIterator, Awaitable, Callable", "Callable, Iterator"),
    (r"Iterator, Awaitable, Callable", "Callable, Iterator"),
    (r"Iterator, Sequence", "Iterator, Sequence"),
    (r"\baio_transport\b", "transport"),
    (r"\b_async\b", "_sync"),
    (r"\bAsync(Paddock|Box|Command|Channel|Transport|Files|Policies|Templates|Calls|Build|Builds|Starts)\b", r"\1"),
    (r"on an event loop: the source of both", "on blocking calls"),
    (
        r"Written once, async; scripts/unasync\.py makes _sync/ from it\.",
        "Made by scripts/unasync.py from _async/: edit that.",
    ),
)


def convert(text: str) -> str:
    for pattern, replacement in SUBSTITUTIONS:
        text = re.sub(pattern, replacement, text)
    return text


def main() -> int:
    stale = []
    for source in sorted((CLIENT / "_async").glob("*.py")):
        target = CLIENT / "_sync" / source.name
        wanted = convert(source.read_text())
        if not target.exists() or target.read_text() != wanted:
            stale.append(target.name)
            if "--check" not in sys.argv:
                target.parent.mkdir(exist_ok=True)
                target.write_text(wanted)
    if stale and "--check" in sys.argv:
        print("not in step with _async/:", ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
