"""Live mode's further mounts: the places inside a workspace that the host's git obeys, closed to the box.

Five kinds. Repositories inside the workspace become read-only. The `.git` files of worktrees and submodules stay as
they are, since the box's own gitdir has what they point to. Where the index names a submodule that is not checked out,
the host's `git status` would start a git in whatever a box puts there: the box gets an empty directory of its own
instead. What the repository's own settings make git obey among the files is read-only too (obeyed.py). And where there
is no repository at all, `.git` becomes a directory of the box's own, so that it can `git init` without the host's git
obeying what it made.
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass

from paddock import fs, limits
from paddock.errors import Unavailable, UserError
from paddock.model import Mount
from paddock.text import neutralise
from paddock.workspace import gitdir, index, nested, obeyed, refs, repository
from paddock.workspace.repository import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.nested import Nested
    from paddock.workspace.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """`placeholders` are directories made on the host to be mounted on; tidy() takes them away after the box."""

    mounts: tuple[Mount, ...]  # outer ones first
    placeholders: tuple[str, ...] = ()  # relative to the workspace


def guards(private_dir: str, found: Repository, known: tuple[Nested, ...], home: str = "") -> Guards:
    """What is closed in live mode; `known` are the repositories that nested.find() saw. Makes the placeholders.

    `home` is the user's, whose own settings of git count too.
    """
    closing = _Closing(private_dir, found.workspace)
    if len(known) > limits.NESTED_MAX:
        message = f"over {limits.NESTED_MAX} repositories lie in {found.workspace}, too many to protect each"
        raise UserError(message, hint="give a smaller directory, or use --review", code="nested-repositories")
    with repository.opened(found.workspace) as root:
        if found.kind is Kind.NONE:
            if _may_be_filled(root):
                closing.cover(root, ".git")
        elif found.kind is not Kind.PLAIN:
            closing.close(root, ".git")
        for item in known:
            if item.path == "." or item.form is nested.Form.LINK:
                raise _unprotectable(found.workspace, item.path)
            closing.close(root, item.path)
        for path in _pointers(found):
            closing.close(root, path)
        for path in _gitlinks(found):
            closing.link(root, path)
        for path, is_hooks in _obeyed(found, home):
            closing.obeyed(root, path, is_hooks=is_hooks)
    return closing.done()


def tidy(workspace: str, placeholders: tuple[str, ...]) -> None:
    """Take away what was made to be mounted on; what is not empty is not ours any more."""
    with repository.opened(workspace) as root:
        for path in reversed(placeholders):
            parent, _, name = path.rpartition("/")
            try:
                at = fs.open_beneath(root, parent or ".", os.O_PATH | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                os.rmdir(name, dir_fd=at)
            except OSError:
                continue
            finally:
                os.close(at)


class _Closing:
    def __init__(self, private_dir: str, workspace: str) -> None:
        self._private_dir = private_dir
        self._workspace = workspace
        self._mounts: list[Mount] = []
        self._placeholders: list[str] = []

    def done(self) -> Guards:
        ordered = sorted(dict.fromkeys(self._mounts), key=lambda mount: mount.target.count("/"))
        return Guards(mounts=tuple(ordered), placeholders=tuple(self._placeholders))

    def close(self, root: int, path: str) -> None:
        """Read-only, as it is."""
        if self._look(root, path) is not None:
            self._mounts += nested.closing(self._workspace, path)

    def cover(self, root: int, path: str) -> None:
        """Behind an empty directory that is the box's own."""
        self._make(root, path)
        # By its path, so that the box finds at its next start what it left there.
        own = os.path.join(self._private_dir, "covers", hashlib.sha256(os.fsencode(path)).hexdigest()[:16])
        os.makedirs(own, 0o700, exist_ok=True)
        *pins, _ = nested.closing(self._workspace, path)
        self._mounts += [*pins, Mount(source=own, target=f"{self._workspace}/{path}")]

    def link(self, root: int, path: str) -> None:
        """A submodule of the index: what is there is closed or covered, so that no box can fill it for the host."""
        here = self._look(root, path)
        if here is None or (here and not self._entries(root, path)):
            self.cover(root, path)
        elif not here:
            raise _unprotectable(self._workspace, path)
        elif self._look(root, f"{path}/.git") is None:
            self.cover(root, f"{path}/.git")
        else:
            self.close(root, f"{path}/.git")

    def obeyed(self, root: int, path: str, *, is_hooks: bool) -> None:
        """What git obeys wherever it lies: closed, or covered so that no box can make it."""
        if self._look(root, path) is not None:
            self.close(root, path)
        elif is_hooks:
            self.cover(root, path)
        else:
            message = f"git obeys {self._workspace}/{neutralise(path)}, which does not exist and a box could make"
            raise UserError(message, hint="make it, or take it out of git's settings, or use --review", code="git-link")

    def _look(self, root: int, path: str) -> bool | None:
        """None if nothing is there, else whether it is a directory."""
        try:
            fd = fs.open_beneath(root, path, os.O_PATH)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _unprotectable(self._workspace, path) from error
            raise
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        return (mode & 0o170000) == 0o040000

    def _entries(self, root: int, path: str) -> list[str]:
        fd = fs.open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def _make(self, root: int, path: str) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            step, parent = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
            if self._look(root, step) is None and self._mkdir(root, parent, parts[depth - 1]):
                self._placeholders.append(step)

    def _mkdir(self, root: int, parent: str, name: str) -> bool:
        """Whether it is new: another box that starts in this moment may have made it, and has it on its list."""
        try:
            at = fs.open_beneath(root, parent or ".", os.O_PATH | os.O_DIRECTORY)
            try:
                os.mkdir(name, 0o755, dir_fd=at)
            finally:
                os.close(at)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            message = f"cannot make {neutralise(name)} in {self._workspace}/{neutralise(parent)}: {error.strerror}"
            raise Unavailable(message, code="placeholder") from error


def _may_be_filled(root: int) -> bool:
    """Whether a box, which is its owner or has our own rights, could make something there at all."""
    return os.getuid() in {0, os.fstat(root).st_uid} or os.access(f"/proc/self/fd/{root}", os.W_OK)


def _pointers(found: Repository) -> Iterator[str]:
    """The `.git` files inside that belong to the workspace's own worktrees and submodules, at every depth."""
    if found.kind is Kind.NONE:
        return
    for one in _all(found):
        if one is not found:
            yield os.path.relpath(f"{one.workspace}/.git", found.workspace)
        for _, pointer in gitdir.worktrees(one):
            if pointer != f"{found.workspace}/.git":
                yield os.path.relpath(pointer, found.workspace)


def _gitlinks(found: Repository) -> Iterator[str]:
    for one in _around(found):
        with repository.opened(one.git_dir) as fd:
            for name in ("index", *(name for name in os.listdir(fd) if name.startswith("sharedindex."))):
                data = refs.read_bytes(fd, name, limits.GIT_INDEX_BYTES)
                for path in index.gitlinks(data, one.object_format):
                    place = f"{one.workspace}/{path}"
                    if place.startswith(f"{found.workspace}/"):
                        yield os.path.relpath(place, found.workspace)


def _obeyed(found: Repository, home: str) -> Iterator[tuple[str, bool]]:
    for one in _around(found):
        obeyed.check_links(one, found.workspace)
        yield from obeyed.places(one, home, found.workspace)


def _around(found: Repository) -> Iterator[Repository]:
    """All whose git looks at files of the workspace: its own repository, or the one it is a part of."""
    one = repository.around(found)
    if one is not None:
        yield from _all(one)


def _all(found: Repository) -> Iterator[Repository]:
    """The repository, its submodules, and theirs."""
    yield found
    for _, module in gitdir.modules(found):
        yield from _all(module)


def _unprotectable(workspace: str, path: str) -> UserError:
    message = f"{workspace}/{neutralise(path)} is a link or a repository that cannot be protected in the workspace"
    return UserError(message, hint="remove it, or use --review", code="git-link")
