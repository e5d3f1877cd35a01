"""cp: files and directories into and out of a box.

TRUST: names, modes and contents that come out of a box are the box's word. They are written beneath the chosen
directory through descriptors that follow no link, with setuid bits and foreign owners dropped; a symbolic link is
recreated only when it stays inside what was copied.
"""

from __future__ import annotations

import os
import posixpath
import stat
import sys
from typing import TYPE_CHECKING

from paddock import frames, fs, text
from paddock.client import Paddock
from paddock.client._sync.files import finish_write
from paddock.errors import PaddockError, UserError
from paddock.limits import FRAME_DATA_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from paddock.client import Entry
    from paddock.client._sync.files import Files

_DEPTH = 200


def cp(options: argparse.Namespace) -> int:
    source_box, source = _side(options.source)
    target_box, target = _side(options.destination)
    if bool(source_box) == bool(target_box):
        raise UserError(
            "one side must be BOX:PATH", hint="`paddock cp BOX:/tmp/x .` or `paddock cp x BOX:/tmp/`", code="usage"
        )
    with Paddock() as paddock:
        box = paddock.named(source_box or target_box)
        box.refresh()
        workdir = box.info.workdir
        if source_box:
            return _out(box.files, posixpath.normpath(posixpath.join(workdir, source)), target)
        return _into(box.files, source, target, workdir)


def _side(word: str) -> tuple[str, str]:
    """BOX:PATH, or a host path. A path with a slash before its colon is a host path."""
    name, colon, path = word.partition(":")
    if colon and "/" not in name and name:
        return name, path or "."
    return "", word


# -- out of a box ------------------------------------------------------------------------------------------------------


def _out(files: Files, source: str, target: str) -> int:
    top = files.stat(source, follow=True)
    parent, name = (
        (target, posixpath.basename(source)) if os.path.isdir(target) else os.path.split(os.path.abspath(target))
    )
    if not name or name in {".", ".."}:
        raise UserError(f"{target!r} names no file", hint="give a name", code="usage")
    try:
        root = os.open(parent or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(
            f"cannot open {parent}: {error.strerror}", hint="give a directory that exists", code="no-file"
        ) from error
    skipped = 0
    try:
        if top.kind == "file":
            _fetch(files, source, root, name, top.mode)
        elif top.kind == "directory":
            _make_directory(root, name)
            for entry in files.list(source, depth=_DEPTH):
                skipped += not _take(files, entry, source, root, name)
        else:
            raise UserError(
                f"{source} is neither a file nor a directory", hint="copy what it points to", code="not-a-file"
            )
    finally:
        os.close(root)
    return 1 if skipped else 0


def _take(files: Files, entry: Entry, source: str, root: int, name: str) -> bool:
    relative = _relative(entry.path, source)
    if relative is None:
        return _skip(entry, "its name leaves the copied directory")
    place = f"{name}/{relative}"
    try:
        if entry.kind == "directory":
            _make_directory(root, place)
        elif entry.kind == "file":
            _fetch(files, entry.path, root, place, entry.mode)
        elif entry.kind == "symlink" and _stays_inside(relative, entry.link):
            _make_link(root, place, entry.link)
        else:
            return _skip(entry, "not copied: a special file, or a link that leaves the copied directory")
    except OSError as error:
        return _skip(entry, error.strerror or str(error))
    return True


def _relative(path: str, source: str) -> str | None:
    prefix = source.rstrip("/") + "/"
    if not path.startswith(prefix):
        return None
    parts = path[len(prefix) :].split("/")
    return None if any(part in {"", ".", ".."} or "\0" in part for part in parts) else "/".join(parts)


def _stays_inside(relative: str, link: str) -> bool:
    if not link or link.startswith("/") or "\0" in link:
        return False
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(relative), link))
    return not (resolved == ".." or resolved.startswith("../"))


def _fetch(files: Files, path: str, root: int, place: str, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    fd = fs.open_beneath(root, place, flags, mode & 0o777)
    with os.fdopen(fd, "wb") as out:
        for chunk in files.stream(path):
            out.write(chunk)


def _make_directory(root: int, place: str) -> None:
    parent, _, name = place.rpartition("/")
    at = fs.open_beneath(root, parent or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.mkdir(name, 0o755, dir_fd=at)
    except FileExistsError:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
    finally:
        os.close(at)


def _make_link(root: int, place: str, link: str) -> None:
    parent, _, name = place.rpartition("/")
    at = fs.open_beneath(root, parent or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.symlink(link, name, dir_fd=at)
    finally:
        os.close(at)


def _skip(entry: Entry, why: str) -> bool:
    print(f"warning: {text.neutralise(entry.path)}: {text.neutralise(why)}", file=sys.stderr)
    return False


# -- into a box --------------------------------------------------------------------------------------------------------


def _into(files: Files, source: str, target: str, workdir: str) -> int:
    try:
        info = os.stat(source)
    except OSError as error:
        raise UserError(
            f"cannot read {source}: {error.strerror}", hint="give a file that exists", code="no-file"
        ) from error
    place = posixpath.normpath(posixpath.join(workdir, target))
    if target.endswith("/") or _is_directory(files, place):
        place = posixpath.join(place, os.path.basename(os.path.abspath(source)))
    if stat.S_ISREG(info.st_mode):
        _send(files, source, place, info.st_mode)
        return 0
    if not stat.S_ISDIR(info.st_mode):
        raise UserError(f"{source} is neither a file nor a directory", hint="copy a file", code="not-a-file")
    files.make_dir(place)
    for path, relative, kind in _walk(source):
        inside = posixpath.join(place, relative)
        if kind == "directory":
            files.make_dir(inside)
        elif kind == "symlink":
            files.symlink(inside, os.readlink(path))
        else:
            _send(files, path, inside, os.stat(path).st_mode)
    return 0


def _is_directory(files: Files, place: str) -> bool:
    try:
        return files.stat(place, follow=True).kind == "directory"
    except PaddockError:
        return False


def _walk(top: str) -> Iterator[tuple[str, str, str]]:
    pending = [top]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                relative = os.path.relpath(entry.path, top)
                if entry.is_symlink():
                    yield entry.path, relative, "symlink"
                elif entry.is_dir():
                    yield entry.path, relative, "directory"
                    pending.append(entry.path)
                elif entry.is_file():
                    yield entry.path, relative, "file"


def _send(files: Files, path: str, place: str, mode: int) -> None:
    channel = files.writer(place, mode=mode & 0o777)
    try:
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(FRAME_DATA_BYTES):
                channel.send(frames.FILE, chunk)
        finish_write(channel)
    finally:
        channel.close()
