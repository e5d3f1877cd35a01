"""The files of a tool: copied out of what a package manager made in a box, checked on the way, and known by digest.

The source is an agent's work as far as we know: it is walked without following a link, nothing but files, directories
and links that stay inside is taken, and what comes out has names that a person can read and no bit to write or to
change an identity by. Content is copied, never linked: nobody else holds a descriptor to it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Final

from paddock import fs, limits, text
from paddock.errors import UserError

_PIECE_BYTES: Final = 1 << 20
_DIRECTORY, _PROGRAM, _FILE = 0o555, 0o555, 0o444
_NAMED_MAX: Final = 20  # files of a difference
_LISTABLE: Final = os.O_RDONLY | os.O_DIRECTORY


@dataclass(slots=True)
class Copied:
    """Of a tree: its manifest, and how much it is."""

    manifest: str = ""
    files: int = 0
    size_bytes: int = 0


def digest(manifest: str) -> str:
    return hashlib.sha256(manifest.encode()).hexdigest()


def copy(source: str, target: str) -> None:
    """Make `target`, which must not exist, from `source`; UserError for what no tool may hold, and then it is not."""
    try:
        _Copy(source, target).run()
        _check_links(target)
    except BaseException:
        fs.remove_tree(target)
        raise


def close(tree: str) -> None:
    """Take the bits to write from all of a tree that is ours."""
    for directory, names, files in os.walk(tree, topdown=False):
        for name in files:
            path = f"{directory}/{name}"
            if not os.path.islink(path):
                os.chmod(path, _PROGRAM if os.stat(path).st_mode & stat.S_IXUSR else _FILE)
        for name in names:
            if not os.path.islink(f"{directory}/{name}"):
                os.chmod(f"{directory}/{name}", _DIRECTORY)
    os.chmod(tree, _DIRECTORY)


def describe(tree: str) -> Copied:
    """The manifest of a tree of ours: mode, size, sha256 and path of everything in it, a line each, by path."""
    made = Copied()
    lines = []
    for directory, names, files in os.walk(tree):
        for name in (*names, *files):
            path = f"{directory}/{name}"
            status = os.lstat(path)
            made.files += 1
            made.size_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
            lines.append((path[len(tree) + 1 :], f"{status.st_mode:o} {_size(status)} {_content(path, status)}"))
    made.manifest = "".join(f"{facts} {path}\n" for path, facts in sorted(lines))
    return made


def difference(manifest: str, tree: str) -> tuple[str, ...]:
    """The paths of a tree, some of them, that are not as its manifest says."""
    known, found = set(manifest.splitlines()), set(describe(tree).manifest.splitlines())
    paths = sorted({line.split(" ", 3)[3] for line in known ^ found})
    return tuple(paths[:_NAMED_MAX])


def _size(status: os.stat_result) -> int:
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def _content(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    if not stat.S_ISREG(status.st_mode):
        return "-"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Copy:
    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target
        self._entries = 0
        self._size_bytes = 0

    def run(self) -> None:
        os.mkdir(self._target, 0o700)
        root = os.open(self._source, _LISTABLE | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            waiting = [""]
            while waiting:
                waiting += self._directory(root, waiting.pop())
        finally:
            os.close(root)

    def _directory(self, root: int, path: str) -> list[str]:
        """Copy what lies in one directory; the directories in it, which are made and wait for their turn."""
        below = []
        at = fs.open_beneath(root, path or ".", _LISTABLE, one_mount=True)
        try:
            for name in sorted(os.listdir(at)):
                inner = f"{path}/{name}" if path else name
                self._count(inner)
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(status.st_mode):
                    raise _refused(inner, "would run as another user")
                if stat.S_ISDIR(status.st_mode):
                    os.mkdir(f"{self._target}/{inner}", 0o700)
                    below.append(inner)
                elif stat.S_ISLNK(status.st_mode):
                    self._link(os.readlink(name, dir_fd=at), inner)
                elif stat.S_ISREG(status.st_mode):
                    self._file(at, name, inner)
                else:
                    raise _refused(inner, "is neither a file nor a directory")
        finally:
            os.close(at)
        return below

    def _count(self, path: str) -> None:
        self._entries += 1
        if self._entries > limits.TOOL_ENTRIES:
            raise UserError(f"the package has over {limits.TOOL_ENTRIES} files", code="tool-refused")
        if len(os.fsencode(path)) > limits.TOOL_PATH_BYTES:
            raise _refused(path, "has too long a name")
        if text.neutralise(path, limits.TOOL_PATH_BYTES) != path:
            raise _refused(path, "has a name that is not plain text")

    def _link(self, to: str, path: str) -> None:
        if to.startswith("/") or not to:
            raise _refused(path, "leads out of the package")
        os.symlink(to, f"{self._target}/{path}")

    def _file(self, at: int, name: str, path: str) -> None:
        source = fs.open_beneath(at, name, os.O_RDONLY, one_mount=True)
        try:
            is_program = bool(os.fstat(source).st_mode & stat.S_IXUSR)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            target = os.open(f"{self._target}/{path}", flags, 0o700 if is_program else 0o600)
            try:
                self._bytes(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _bytes(self, source: int, target: int) -> None:
        while data := os.read(source, _PIECE_BYTES):
            self._size_bytes += len(data)
            if self._size_bytes > limits.TOOL_BYTES:
                raise UserError(f"the package has over {text.size(limits.TOOL_BYTES)}", code="tool-refused")
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(target, rest) :]


def _check_links(tree: str) -> None:
    """Of the copy, which nobody changes: the names of a link alone do not tell where it leads, other links may turn."""
    root = os.path.realpath(tree)
    for directory, names, files in os.walk(tree):
        for name in (*names, *files):
            path = f"{directory}/{name}"
            if os.path.islink(path) and not fs.is_beneath(os.path.realpath(path), root):
                raise _refused(path[len(tree) + 1 :], "leads out of the package")


def _refused(path: str, why: str) -> UserError:
    return UserError(
        f"'{text.neutralise(path)}' of the package {why}",
        hint="nothing was installed; this package cannot be a tool",
        code="tool-refused",
    )
