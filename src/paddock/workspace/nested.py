"""Repositories inside a workspace: found at the start to be closed, and at the end because a box may have made them.

A bind mount cannot stop a box from making a directory called `.git`. Host git obeys such a repository as soon as
someone stands in it, an editor that looks for repositories does so by itself, and a bare one needs no `.git` at all. So
those that are there at the start become read-only mounts, with every directory on the way pinned as a mount point
(otherwise the way is renamed and built anew), and those that are new at the end are named, each with the command that
ends it. Nothing is moved or removed by us: it may be what the user asked the box to make.
"""

from __future__ import annotations

import enum
import os
import stat
import unicodedata
from dataclasses import dataclass

from paddock import fs, limits
from paddock.model import Mount
from paddock.text import shell_word
from paddock.workspace import refs, repository
from paddock.workspace.tree import Memory, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paddock.workspace.tree import Place

# What a user can tell their own git (`git config --global`), so that it obeys no repository it was not led into: none
# without a `.git`, and no submodule only because it looks at the repository around it.
ADVISED: tuple[tuple[str, str], ...] = (
    ("safe.bareRepository", "explicit"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
)

BARE = frozenset({"HEAD", "commondir", "objects", "refs"})  # in a repository without a .git
# Characters that HFS+ leaves out when it compares names.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_SHORT_NAMES = frozenset({"git~1", "git~2", "git~3", "git~4"})  # of .git, on Windows file systems


class Form(enum.Enum):
    DIRECTORY = "directory"  # .git, a repository
    POINTER = "pointer"  # .git, a file that names a repository elsewhere
    LINK = "link"  # .git, a symbolic link or something stranger
    BARE = "bare"  # a directory that is a repository itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    path: str  # relative to the workspace; the directory itself for a bare one
    form: Form
    changed_ns: int  # a box cannot set it
    inward: bool = False  # a pointer into the workspace's own .git, which no box can write


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    nested: tuple[Nested, ...]
    complete: bool  # False: a bound was reached, or a directory is closed to us


def is_dot_git(name: str) -> bool:
    """Whether some file system takes `name` for .git (FS-09): other case, ignored characters, Windows' ways."""
    if name == ".git":
        return True
    if name.isascii() and name[:1] not in {".", "g", "G"}:
        return False  # nearly all of them
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name.translate(_IGNORED))
    plain = name.partition(":")[0].rstrip(". ").casefold()
    return plain == ".git" or plain in _SHORT_NAMES


def marked(_: str, names: list[str]) -> list[str]:
    """The names by which a repository is known."""
    return [name for name in names if name in BARE or is_dot_git(name)]


def find(
    workspace: str,
    memory: Memory | None = None,
    *,
    entries_max: int = limits.NESTED_ENTRIES,
    seconds_max: float = limits.NESTED_S,
    look: Callable[[Place], None] | None = None,
) -> Found:
    """Every repository beneath the workspace but its own; what lies inside one is not looked at.

    `memory` marks at least what marked() does. `look` is given each place where something is marked, so that one
    walk serves all who ask. Links are not followed, and a tree in motion costs no more than the bounds.
    """
    walk = Walk(workspace, memory or Memory(marked), entries_max=entries_max, seconds_max=seconds_max)
    finder = _Finder(workspace, look)
    with repository.opened(workspace) as root:
        walk.run(root, finder.visit)
    return Found(nested=tuple(sorted(finder.found, key=lambda item: item.path)), complete=walk.complete)


def new(before: Found, after: Found, since_ns: int) -> tuple[Nested, ...]:
    """What a box made or changed: not there before, or touched since; and where before is incomplete, since alone.

    A pointer into the workspace's own .git is what `git worktree add` leaves, and leads nowhere on the host.
    """
    known = {(item.path, item.form, item.changed_ns) for item in before.nested}
    fresh = [item for item in after.nested if (item.path, item.form, item.changed_ns) not in known]
    return tuple(item for item in fresh if not item.inward and (before.complete or item.changed_ns >= since_ns))


def closing(workspace: str, path: str) -> tuple[Mount, ...]:
    """The mounts that make `path` read-only and keep every directory on the way where it is, outer ones first."""
    parts = path.split("/")
    steps = ["/".join((workspace, *parts[:depth])) for depth in range(1, len(parts) + 1)]
    pins = [Mount(source=step, target=step) for step in steps[:-1]]
    return (*pins, Mount(source=steps[-1], target=steps[-1], read_only=True))


def remedy(workspace: str, path: str) -> str:
    """The shell command after which git obeys the repository at `path` no more, safe to be printed.

    Of one without a `.git` only HEAD goes, by which git knows it: the rest may be files of the project.
    """
    target = path if is_dot_git(path.rpartition("/")[2]) else f"{path}/HEAD"
    return f"rm -rf -- {shell_word(os.path.normpath(os.path.join(workspace, target)))}"


class _Finder:
    def __init__(self, workspace: str, look: Callable[[Place], None] | None) -> None:
        self._workspace = workspace
        self._look = look
        self.found: list[Nested] = []

    def visit(self, place: Place) -> Sequence[str] | None:
        """The directories to look at next; None when a bound was reached."""
        if len(self.found) > limits.NESTED_MAX:
            return None
        if self._look:
            self._look(place)
        names = set(place.listing.marked)
        if "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names):
            # The workspace itself too: git takes it for one when its .git is none.
            changed_ns = _newest(place.fd, ".", os.fstat(place.fd))
            self.found.append(Nested(path=place.path or ".", form=Form.BARE, changed_ns=changed_ns))
            if place.path:
                return ()
        for name in filter(is_dot_git, place.listing.marked):
            if place.path or name != ".git":
                self._take(place.fd, name, f"{place.path}/" if place.path else "")
        return [path for path in place.listing.below if not is_dot_git(path.rpartition("/")[2])]

    def _take(self, fd: int, name: str, prefix: str) -> None:
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        form = Form.LINK
        inward = False
        if stat.S_ISDIR(status.st_mode):
            form = Form.DIRECTORY
        elif stat.S_ISREG(status.st_mode):
            form = Form.POINTER
            text = refs.read_small(fd, name) if status.st_size <= limits.GIT_FILE_BYTES else ""
            target = repository.pointed_at(text, os.path.join(self._workspace, prefix))
            inward = target.startswith(f"{self._workspace}/.git/")
        changed_ns = _newest(fd, name, status)
        self.found.append(Nested(path=prefix + name, form=form, changed_ns=changed_ns, inward=inward))


def _newest(fd: int, name: str, status: os.stat_result) -> int:
    """When a repository was last touched where git obeys it; a change of a file leaves its directory alone."""
    newest = status.st_ctime_ns
    for inner in ("HEAD", "config", "config.worktree", "commondir", "hooks", "index", "info", "objects/info"):
        try:
            found = fs.open_beneath(fd, f"{name}/{inner}", os.O_PATH)
        except OSError as error:
            if fs.is_scarcity(error):
                raise
            continue
        newest = max(newest, os.fstat(found).st_ctime_ns)
        os.close(found)
    return newest
