"""All that a tree holds, as a value: to say that two are the same, or that one did not change."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Facts = tuple[object, ...]


def tree_of(top: str | Path) -> dict[str, Facts]:
    """By path: kind and permissions, content or target, marks of the user's. Names of one file are told apart."""
    found: dict[str, Facts] = {}
    first: dict[tuple[int, int], str] = {}
    for directory, names, files in os.walk(top):
        for name in sorted([*names, *files]):
            path = f"{directory}/{name}"
            status = os.lstat(path)
            inner = os.path.relpath(path, top)
            same = first.setdefault((status.st_dev, status.st_ino), inner) if stat.S_ISREG(status.st_mode) else inner
            found[inner] = (oct(status.st_mode), same, _content(path, status), _marks(path, status))
    return found


def _content(path: str, status: os.stat_result) -> object:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return status.st_rdev if stat.S_ISCHR(status.st_mode) else ""
    with open(path, "rb") as file:
        return file.read()


def _marks(path: str, status: os.stat_result) -> dict[str, bytes]:
    if stat.S_ISLNK(status.st_mode) or stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return {}
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")}
