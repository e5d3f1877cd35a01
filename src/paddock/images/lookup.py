"""A root that is still a chain of layers, as the box would see it: one small file of it, and where a path leads.

No link is followed on the host; where one counts, it is read and begun anew from the root of the chain.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.images import marks
from paddock.images.tar import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINKS_MAX: Final = 40  # as many as the kernel follows
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read(trees: Sequence[str], path: str, bytes_max: int) -> bytes:
    """What `path` holds over these directories, lowest first; empty if there is no such file."""
    for tree in reversed(trees):
        with contextlib.ExitStack() as opened:
            found = _in_layer(tree, path.strip("/").split("/"), bytes_max, opened)
        if found is not None:
            return found
    return b""


def _in_layer(tree: str, names: list[str], bytes_max: int, opened: contextlib.ExitStack) -> bytes | None:
    """None if lower layers are to be asked."""
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened.callback(os.close, fd)
    hides = False
    for number, name in enumerate(names):
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return b"" if hides else None
        if marks.is_whiteout(status):
            return b""
        last = number == len(names) - 1
        if not (stat.S_ISREG if last else stat.S_ISDIR)(status.st_mode):
            raise refused(f"it is no {'file' if last else 'directory'} of its own", "/".join(names[: number + 1]))
        fd = os.open(name, _FILE if last else fs.LISTABLE, dir_fd=fd)
        opened.callback(os.close, fd)
        hides = hides or (not last and marks.is_opaque(fd))
    return _content(fd, bytes_max)


def _content(fd: int, bytes_max: int) -> bytes:
    data = b""
    while len(data) < bytes_max and (part := os.read(fd, bytes_max - len(data))):
        data += part
    return data


# -- where a path leads ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path of the root leads, whether there is something or not."""

    path: str  # without links in it, and without / around it; the root is ""
    is_directory: bool
    directories: tuple[
        tuple[str, os.stat_result], ...
    ]  # that are there on the way, with itself if it is one; not the root


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    status: os.stat_result
    link: str = ""


def place(trees: Sequence[str], path: str) -> Place:
    """Through the links of the root itself, as a program in it would go; refused where they go round."""
    left, done = path.split("/")[::-1], list[str]()
    there: list[tuple[str, os.stat_result]] = []
    links = 0
    is_directory = True
    while left:
        name = left.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            done, there = done[:-1], [row for row in there if len(row[0].split("/")) < len(done)]
            is_directory = len(there) == len(done)
            continue
        found = _find(trees, [*done, name]) if len(there) == len(done) else None
        if found is not None and stat.S_ISLNK(found.status.st_mode):
            links += 1
            if links > _LINKS_MAX:
                raise refused("its links go round", path)
            if found.link.startswith("/"):
                done, there = [], []
            left += found.link.split("/")[::-1]
            continue
        done.append(name)
        is_directory = found is not None and stat.S_ISDIR(found.status.st_mode)
        if found is not None and is_directory:
            there.append(("/".join(done), found.status))
        elif found is not None and any(part not in {"", "."} for part in left):
            raise refused("it is no directory", "/".join(done))
    return Place(path="/".join(done), is_directory=is_directory, directories=tuple(there))


def _find(trees: Sequence[str], names: list[str]) -> _Found | None:
    """What is at a path whose parents are directories, in the highest layer that says something of it."""
    for tree in reversed(trees):
        with contextlib.ExitStack() as opened:
            found, is_last_word = _within(tree, names, opened)
        if found is not None or is_last_word:
            return found
    return None


def _within(tree: str, names: list[str], opened: contextlib.ExitStack) -> tuple[_Found | None, bool]:
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened.callback(os.close, fd)
    hides = False
    for name in names[:-1]:
        try:
            fd = os.open(name, fs.LISTABLE, dir_fd=fd)
        except FileNotFoundError:
            return None, hides
        except OSError as error:  # a link or a file, or a mark that there is nothing: lower ones are hidden
            if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
                raise
            return None, True
        opened.callback(os.close, fd)
        hides = hides or marks.is_opaque(fd)
    try:
        status = os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None, hides
    if marks.is_whiteout(status):
        return None, True
    link = os.readlink(names[-1], dir_fd=fd) if stat.S_ISLNK(status.st_mode) else ""
    return _Found(status=status, link=link), True
