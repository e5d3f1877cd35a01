"""References of a repository, read from its files without running git, and written as git would.

A name from a repository or a bundle is a path on the host once it is written: nothing passes here that could leave
`refs/` or that git itself would not have made.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from paddock import fs, limits
from paddock.errors import UserError

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_NAME_BYTES = 1024
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.(?:/|\Z)|/\Z")  # git-check-ref-format(1)
_PLAIN = re.compile(r"[A-Za-z0-9._/@+=-]+\Z")
_DEPTH_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Refs:
    """`head` is a reference's name or an object's id; `symbolic` are references that name another one."""

    head: str
    ids: dict[str, str]
    symbolic: dict[str, str]

    def resolve(self, name: str) -> str:
        """The id behind a name or an id; empty if it leads nowhere, as on a branch without a commit."""
        for _ in range(5):
            if OID.match(name):
                return name
            if name in self.ids:
                return self.ids[name]
            name = self.symbolic.get(name, "")
        return ""


def is_name(name: str) -> bool:
    """Whether `name` is a full reference's name that git accepts, below refs/."""
    return (
        name.startswith("refs/")
        and name.count("/") >= 2
        and len(name.encode("utf-8", "surrogateescape")) <= _NAME_BYTES
        and not _BAD.search(name)
        and all(part and not part.startswith("-") for part in name.split("/"))
    )


def is_plain(name: str) -> bool:
    """Of characters that neither a shell, a prompt nor a terminal takes for more than letters."""
    return bool(_PLAIN.match(name))


def read(git_dir: int, common: int) -> Refs:
    """All references, the loose ones over the packed; HEAD is that of `git_dir`, the others are shared in `common`."""
    ids, symbolic = _packed(common), dict[str, str]()
    _loose(common, ids, symbolic)
    return Refs(head=read_head(git_dir), ids=ids, symbolic=symbolic)


def read_head(git_dir: int) -> str:
    value = _target(read_small(git_dir, "HEAD"))
    if not value:
        raise UserError("the repository's HEAD is neither a branch nor a commit", code="git-unsupported")
    return value


def packed_text(ids: dict[str, str]) -> str:
    """A packed-refs file."""
    rows = sorted((name.encode("utf-8", "surrogateescape"), oid) for name, oid in ids.items())
    lines = [f"{oid} {os.fsdecode(name)}\n" for name, oid in rows]
    return "".join(["# pack-refs with: sorted \n", *lines])


def read_small(root: int, path: str, limit: int = limits.GIT_FILE_BYTES) -> str:
    """The text of a regular file below `root`, empty if there is none; no link is followed, nothing waited for."""
    return os.fsdecode(read_bytes(root, path, limit))


def read_bytes(root: int, path: str, limit: int) -> bytes:
    try:
        fd = fs.open_beneath(root, path, os.O_RDONLY)
    except OSError as error:
        if fs.is_scarcity(error):
            raise
        return b""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        return b""
    with open(fd, "rb") as file:
        if status.st_size > limit:
            raise UserError(f"{path} of the repository has over {limit} bytes", code="git-unsupported")
        return file.read(limit + 1)


def _target(text: str) -> str:
    """What the file of a reference says: an id, or the name of another reference."""
    line = text.partition("\n")[0].rstrip()
    if line.startswith("ref:"):
        name = line[4:].strip()
        return name if is_name(name) else ""
    return line if OID.match(line) else ""


def _packed(common: int) -> dict[str, str]:
    ids: dict[str, str] = {}
    for line in read_small(common, "packed-refs", limits.GIT_REFS_BYTES).split("\n"):
        oid, _, name = line.partition(" ")
        if OID.match(oid) and is_name(name):
            ids[name] = oid
    return ids


def _loose(common: int, ids: dict[str, str], symbolic: dict[str, str]) -> None:
    waiting = ["refs"]
    left = limits.GIT_REFS_MAX
    while waiting:
        place = waiting.pop()
        try:
            fd = fs.open_beneath(common, place, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if fs.is_scarcity(error):
                raise
            continue
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        message = f"the repository has over {limits.GIT_REFS_MAX} references"
                        raise UserError(message, hint="run `git pack-refs --all`", code="git-unsupported")
                    name = f"{place}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        if name.count("/") < _DEPTH_MAX:
                            waiting.append(name)
                    elif is_name(name):
                        _take(_target(read_small(common, name)), name, ids, symbolic)
        finally:
            os.close(fd)


def _take(value: str, name: str, ids: dict[str, str], symbolic: dict[str, str]) -> None:
    if OID.match(value):
        ids[name] = value
        symbolic.pop(name, None)
    elif value:
        symbolic[name] = value
        ids.pop(name, None)
