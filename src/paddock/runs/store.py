"""The records of runs on disk: one file each, whole or not at all, the newest kept.

A record is written when its run begins and again when it ends, each time before anybody is told. The second time it is
the truth for good; a record that still says `running` when a daemon starts was left by one that died.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock import codec, fs
from paddock.errors import PaddockError, UserError
from paddock.limits import RUN_RECORD_BYTES
from paddock.metering.ledger import Line
from paddock.reports import RunInfo

if TYPE_CHECKING:
    from collections.abc import Collection

log = logging.getLogger(__name__)
_ENDING = ".json"
_NAME = re.compile(r"[0-9a-f]{8}\.json\Z")
_ID = re.compile(r"[0-9a-f]{1,8}\Z")
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """What only the end of a run needs to know of its beginning."""

    since_ns: int  # by the clock that stamps files
    lines: tuple[Line, ...] = ()  # what the box had spent
    stuck_after_s: float = 0.0  # zero: never


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    info: RunInfo
    began: Began


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was read: the newest first, and the files that could not be."""

    kept: tuple[Kept, ...]
    damaged: tuple[str, ...] = ()


class Store:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        fs.make_private_dir(directory)

    def __repr__(self) -> str:
        return f"<Store {self._directory}>"

    def write(self, kept: Kept) -> None:
        """On disk when this returns."""
        data = json.dumps(codec.to_wire(kept), separators=(",", ":")).encode()
        fs.write_atomic(self._path(kept.info.id), data)

    def is_taken(self, run: str) -> bool:
        return not fs.is_missing(self._path(run))

    def remove(self, run: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(run))

    def all(self) -> Found:
        kept: list[Kept] = []
        damaged: list[str] = []
        for name in self._names():
            try:
                kept.append(self._read(name))
            except FileNotFoundError:
                continue  # removed meanwhile
            except (OSError, ValueError, RecursionError, PaddockError) as error:
                log.warning("the record %s cannot be read: %s", name, error)
                damaged.append(name)
        kept.sort(key=lambda one: (one.info.started, one.info.id), reverse=True)
        return Found(kept=tuple(kept), damaged=tuple(damaged))

    def find(self, word: str) -> Kept:
        """By its id, or by a beginning of it that no other has."""
        if not _ID.match(word):
            raise UserError(f"{word[:40]!r} is not the id of a run", hint="`paddock runs` lists them", code="no-run")
        near = [name for name in self._names() if name.startswith(word)]
        if len(near) != 1:
            what = f"{len(near)} runs begin with {word!r}" if near else f"no run {word!r}"
            raise UserError(what, hint="`paddock runs` lists them", code="no-run")
        try:
            return self._read(near[0])
        except (OSError, ValueError, RecursionError, PaddockError) as error:
            log.warning("the record %s cannot be read: %s", near[0], error)
            message = f"the record of run {near[0].removesuffix(_ENDING)} cannot be read"
            raise UserError(message, hint="the daemon's log says why", code="no-run") from error

    def prune(self, running: Collection[str], most: int) -> None:
        """Drop the oldest, but none that runs."""
        ages: list[tuple[int, str]] = []
        for name in self._names():
            with contextlib.suppress(FileNotFoundError):
                ages.append((os.lstat(f"{self._directory}/{name}").st_mtime_ns, name.removesuffix(_ENDING)))
        for _, run in sorted(ages)[: max(0, len(ages) - most)]:
            if run not in running:
                self.remove(run)

    def _names(self) -> list[str]:
        return [name for name in os.listdir(self._directory) if _NAME.match(name)]

    def _read(self, name: str) -> Kept:
        fd = os.open(f"{self._directory}/{name}", _OPEN)
        with open(fd, "rb") as file:
            data = file.read(RUN_RECORD_BYTES + 1)
        if len(data) > RUN_RECORD_BYTES:
            raise ValueError(f"over {RUN_RECORD_BYTES} bytes")
        kept = codec.from_wire(Kept, json.loads(data))
        if f"{kept.info.id}{_ENDING}" != name:
            raise ValueError(f"it is of run {kept.info.id[:40]!r}")
        return kept

    def _path(self, run: str) -> str:
        return f"{self._directory}/{run}{_ENDING}"
