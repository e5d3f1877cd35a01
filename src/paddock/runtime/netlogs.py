"""The files that hold what was decided about each box's network: <state>/network/<box id>.{0,1}.jsonl."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from paddock.gateway import audit, records
from paddock.limits import NETWORK_LOGS_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from paddock.model import BoxId

_SUFFIXES = (".0.jsonl", ".1.jsonl")


class NetLogs:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __repr__(self) -> str:
        return f"<NetLogs {self._directory}>"

    def paths(self, box_id: str) -> tuple[str, str]:
        first, second = (f"{self._directory}/{box_id}{suffix}" for suffix in _SUFFIXES)
        return first, second

    @contextlib.contextmanager
    def opened(self, box_id: BoxId) -> Iterator[tuple[int, int]]:
        """Two descriptors for the gateway to append to; the caller's are closed afterwards."""
        first, second = self.paths(box_id)
        with contextlib.ExitStack() as stack:
            fds = []
            for path in (first, second):
                fds.append(audit.open_log(path))
                stack.callback(os.close, fds[-1])
            yield fds[0], fds[1]

    def forget(self, box_id: str) -> None:
        """A box is gone. Its log stays for a while, unless nothing is in it."""
        with contextlib.suppress(FileNotFoundError):
            if not any(os.path.getsize(path) for path in self.paths(box_id)):
                self._remove(box_id)

    def prune(self, living: Collection[str]) -> None:
        """Keep the newest logs of boxes that are gone."""
        dead = [box_id for box_id in self.ids() if box_id not in living]
        for box_id in dead[:-NETWORK_LOGS_MAX]:
            self._remove(box_id)

    def ids(self) -> list[str]:
        """Of all boxes with a log, the one written to last comes last."""
        newest: dict[str, int] = {}
        with os.scandir(self._directory) as entries:
            for entry in entries:
                box_id = entry.name.partition(".")[0]
                with contextlib.suppress(FileNotFoundError):
                    newest[box_id] = max(newest.get(box_id, 0), entry.stat(follow_symlinks=False).st_mtime_ns)
        return sorted(newest, key=newest.__getitem__)

    def name(self, box_id: str) -> str:
        """What a box that is gone was called; empty when its log does not say."""
        found = records.read(self.paths(box_id))
        return found[-1].box if found else ""

    def _remove(self, box_id: str) -> None:
        for path in self.paths(box_id):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
