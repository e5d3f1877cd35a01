"""Every process a test causes, seen from the test: orphans come to us instead of to init.

A daemon that is killed orphans its launcher and its boxes. While a Nursery is open this process adopts them, so that
all of an installation stays below us however it was started, and other installations on the machine do not.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Self

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def table() -> dict[int, tuple[str, int, int]]:
    """(state, parent, session) by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            found[int(name)] = (fields[0].decode(), int(fields[1]), int(fields[3]))
    return found


class Nursery:
    def __init__(self) -> None:
        self._before: set[int] = set()

    def __repr__(self) -> str:
        return f"<Nursery {len(self.living())} processes>"

    def __enter__(self) -> Self:
        self._before = self._below()
        assert _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        return self

    def __exit__(self, *_: object) -> None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self.reap()

    def living(self) -> list[int]:
        """What runs below us that did not when the nursery was opened."""
        self.reap()
        return sorted(self._below() - self._before)

    def named(self) -> list[str]:
        """Those, by what they are and do."""
        return [f"{pid} {table()[pid][0]} {_words(pid)}" for pid in self.living() if pid in table()]

    def reap(self) -> None:
        """Bury the dead we adopted. Those with our own session are children that some Popen waits for."""
        own = os.getsid(0)
        for pid, (state, parent, session) in table().items():
            if state == "Z" and parent == os.getpid() and session != own:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def _below(self) -> set[int]:
        processes = table()
        below: set[int] = set()
        frontier = {os.getpid()}
        while frontier:
            frontier = {pid for pid, (state, parent, _) in processes.items() if parent in frontier and state != "Z"}
            below |= frontier
        return below


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "gone"
