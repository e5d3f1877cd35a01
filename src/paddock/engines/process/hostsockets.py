"""Unix sockets of the host that lie in a directory a box will see.

A socket is authority: connecting needs no write access, and a read-only mount does not stop it. The kernel's table
names the bound ones, but only those of our network namespace, and by the name used at bind. So the upper part of every
directory is looked through in any case, and all of it while a socket is bound whose name does not say where it lies.
"""

from __future__ import annotations

import os
import re
import stat

from paddock import fs
from paddock.limits import SOCKET_LOOK_ENTRIES, SOCKET_SCAN_ENTRIES

TABLE = "/proc/net/unix"
_ROW = re.compile(r"[0-9a-f]+: \S+ \S+ \S+ \S+ \S+ +\d+(?: (.+))?\Z", re.DOTALL)
_OURS = re.compile(r"/proc/self/fd/\d+/(init|daemon)\.sock\Z")  # at a path too long for an address: no reason to walk


class Bound:
    """The table, read once for all directories of a box; sockets below `ours` are not looked at."""

    def __init__(self, table: str = TABLE, ours: str = "") -> None:
        self._names: list[str] = []
        self._unplaced = False
        self._resolved = {"/": "/"}
        try:
            with open(table, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().removesuffix("\n").split("\n")[1:]
        except OSError:
            self._unplaced = True  # no table: look for ourselves
            return
        for line in lines:
            row = _ROW.match(line)
            if row is None:  # part of a name that holds a line feed
                self._unplaced = True
            elif row[1] and not row[1].startswith("@") and not (ours and row[1].startswith(ours)):
                self._place(row[1])

    def __repr__(self) -> str:
        return f"<Bound {len(self._names)} names{', and some without a place' if self._unplaced else ''}>"

    def listed(self, directory: str) -> set[str]:
        """Sockets at or below `directory` (already resolved) that the table places there."""
        prefix = directory.rstrip("/") + "/"
        return {path for path in map(self._real, self._names) if path.startswith(prefix) and _is_socket(path)}

    def beneath(self, directory: str) -> list[str]:
        """Sockets at or below `directory` (already resolved)."""
        most = SOCKET_SCAN_ENTRIES if self._unplaced else SOCKET_LOOK_ENTRIES
        return sorted(self.listed(directory) | _look(directory, most))

    def _place(self, name: str) -> None:
        if name.startswith("/") and not name.startswith("/proc/"):
            self._names.append(name)
        elif not _OURS.match(name):
            self._unplaced = True  # relative to a directory, or through a descriptor, of the process that bound it

    def _real(self, name: str) -> str:
        parent, _, base = name.rpartition("/")
        return os.path.join(self._resolve(parent or "/"), base)

    def _resolve(self, path: str) -> str:
        """As os.path.realpath, but each directory is looked at once: the sockets of boxes share most of theirs."""
        known = self._resolved.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            known = os.path.join(self._resolve(above or "/"), name)
            if name in {"", ".", ".."} or os.path.islink(known):
                try:
                    known = os.path.realpath(path)
                except OSError:  # removed while we look: nobody can reach it by that name
                    known = path
            self._resolved[path] = known
        return known


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _look(directory: str, most: int) -> set[str]:
    """Sockets among the first `most` entries, nearest to the top first."""
    found: set[str] = set()
    level = [directory]
    while level:
        below: list[str] = []
        for place in level:
            try:
                entries = os.scandir(place)
            except OSError as error:
                if fs.is_scarcity(error):
                    raise
                continue
            with entries:
                for entry in entries:
                    most -= 1
                    if most < 0:  # in the middle of a directory, too: a box may have filled it
                        return found
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and _is_socket(entry.path):
                        found.add(entry.path)
        level = below
    return found
