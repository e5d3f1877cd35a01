"""Host paths that a person names beside a tree that a box writes.

A workspace is such a tree: the box may put a link to ~/.ssh where a directory was. So a path is resolved by hand: links
outside such trees are the person's own and are followed; inside one they are refused, and the last steps are opened
through descriptors that follow none, because the box may change the tree while we look.
"""

from __future__ import annotations

import os

from paddock.errors import UserError
from paddock.fs.beneath import is_beneath, open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LINKS_MAX = 40  # as the kernel


def resolve(path: str, trees: Sequence[str]) -> str:
    """The absolute path without links; it need not exist. UserError for a link in one of the trees."""
    done = "/"
    waiting = os.path.join(_here(), path).split("/")[::-1]  # abspath would take a/.. away, also where a is a link
    links = 0
    while waiting:
        name = waiting.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            done = os.path.dirname(done)
            continue
        step = os.path.join(done, name)
        try:
            link = os.readlink(step)
        except OSError:  # no link, or not there at all
            done = step
            continue
        links += 1
        if _tree_of(done, trees) or links > _LINKS_MAX:
            hint = "a box may have made it: give the path that you mean"
            raise UserError(f"{step} is a symbolic link", hint=hint, code="link")
        done = "/" if link.startswith("/") else done
        waiting += link.split("/")[::-1]
    return done


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"  # it was removed; an absolute path needs none


def open_resolved(path: str, trees: Sequence[str], flags: int) -> int:
    """A descriptor of a file or directory at a path that `resolve` gave, or OSError."""
    tree = _tree_of(path, trees)
    if tree is None:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    root = os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, path[len(tree) :].strip("/") or ".", flags)
    finally:
        os.close(root)


def _tree_of(path: str, trees: Sequence[str]) -> str | None:
    return next((tree for tree in trees if is_beneath(path, tree)), None)
