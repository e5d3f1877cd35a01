"""While something long goes on: how long it has, and how much there is by now, on one line of a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Final

from paddock import fs, limits, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_EVERY_S: Final = 1.0


class Ticking:
    """As a context manager; `directory` is what grows. Where standard error is no terminal nothing is said."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True) if os.isatty(2) else None
        self._width = 0

    def __repr__(self) -> str:
        return f"<Ticking {self._directory}>"

    def __enter__(self) -> Self:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread:
            self._thread.join()
            self._show("")

    def _tick(self) -> None:
        began = time.monotonic()
        while not self._done.wait(_EVERY_S):
            size_bytes = 0
            with contextlib.suppress(OSError):
                size_bytes, _ = fs.tree_bytes(self._directory, limits.TOOL_ENTRIES, _EVERY_S)
            self._show(f"  {text.duration(round(time.monotonic() - began))}, {text.size(size_bytes)} by now")

    def _show(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(f"\r{line:{self._width}}\r{line}", end="", file=sys.stderr, flush=True)
        self._width = len(line)
