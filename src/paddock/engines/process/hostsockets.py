"""Unix sockets of the host that lie in a directory a box will see.

A socket is authority: connecting needs no write access, and a read-only mount does not stop it. The kernel's table
names the bound ones; it gives the name used at bind, so a relative name makes us walk the directory. A name in /proc is
as good as relative: /proc/self is the binder's. Our own sockets are bound so (fs.bind_unix), where no box looks.
"""

from __future__ import annotations

import os
import stat

from paddock.limits import SOCKET_SCAN_ENTRIES

_OURS = ("/daemon.sock", "/init.sock")


def beneath(directory: str, table: str = "/proc/net/unix") -> list[str]:
    """Paths of sockets at or below `directory` (already resolved)."""
    absolute, relative = _bound(table)
    prefix = directory.rstrip("/") + "/"
    found = {path for path in (_real(name) for name in absolute) if path.startswith(prefix) and _is_socket(path)}
    if relative:
        found.update(_walk(directory))
    return sorted(found)


def _bound(table: str) -> tuple[list[str], bool]:
    absolute: list[str] = []
    relative = False
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return [], True  # no table: look for ourselves
    for line in lines:
        fields = line.split(None, 7)
        if len(fields) < 8 or fields[7].startswith("@"):
            continue
        if fields[7].startswith("/proc/self/fd/") and fields[7].endswith(_OURS):
            continue
        if fields[7].startswith("/") and not fields[7].startswith("/proc/"):
            absolute.append(fields[7])
        else:
            relative = True
    return absolute, relative


def _real(name: str) -> str:
    parent, _, base = name.rpartition("/")
    return os.path.join(os.path.realpath(parent or "/"), base)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _walk(directory: str) -> list[str]:
    found: list[str] = []
    pending = [directory]
    seen = 0
    while pending and seen < SOCKET_SCAN_ENTRIES:
        try:
            entries = os.scandir(pending.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and _is_socket(entry.path):
                    found.append(entry.path)
    return found
