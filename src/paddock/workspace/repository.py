"""Which repository a workspace belongs to, found by looking at files and by running nothing.

Whatever lies inside a workspace may have been written by an earlier box: a `.git` file that points at another project,
a `commondir`, links, alternates. So a path that leads out of the workspace is followed only where the other side, which
no box can write, points back at this workspace, as git's own worktrees and submodules do. Otherwise a box could have
its successor shown the objects of any repository on the machine.
"""

from __future__ import annotations

import contextlib
import enum
import os
import stat
from dataclasses import dataclass

from paddock import fs
from paddock.errors import UserError
from paddock.text import neutralise
from paddock.workspace import refs, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.settings import Settings

_ALTERNATES_MAX = 16
_ALTERNATES_DEPTH = 5  # as git
# Extensions change the format of a repository; one that is not known here may change what is read above.
_EXTENSIONS = frozenset({
    "noop", "noop-v1", "preciousobjects", "partialclone", "objectformat", "worktreeconfig", "relativeworktrees",
    "refstorage",
})  # fmt: skip


class Kind(enum.Enum):
    PLAIN = "plain"  # .git is the repository
    WORKTREE = "worktree"  # .git is a file; references and objects are those of another checkout
    SEPARATE = "separate"  # .git is a file and the repository lies elsewhere: a submodule, or --separate-git-dir
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Paths are real. For Kind.NONE all but `workspace` and `above` are empty."""

    kind: Kind
    workspace: str
    git_dir: str = ""
    common_dir: str = ""
    objects: str = ""
    borrowed: tuple[str, ...] = ()  # object directories named by alternates, nearest first
    object_format: str = "sha1"
    owner: tuple[int, ...] = (0, 0)
    above: str = ""  # the repository around a workspace that is none itself

    def __repr__(self) -> str:
        return f"<Repository {self.kind.value} {self.git_dir or self.workspace}>"

    @property
    def settings(self) -> Settings:
        with opened(self.common_dir) as common:
            return _settings(common, self.common_dir)


def find(workspace: str) -> Repository:
    """The repository of the work tree at `workspace`, a real path; UserError says why one cannot be used."""
    with opened(workspace) as root:
        kind = _kind(root, ".git")
        if kind is None or (kind == stat.S_IFDIR and not _is_git_dir(f"{workspace}/.git")):
            return _without(workspace, root)
        if kind == stat.S_IFDIR:
            return _described(Kind.PLAIN, workspace, f"{workspace}/.git", f"{workspace}/.git")
        if kind == stat.S_IFREG:
            return _elsewhere(workspace, refs.read_small(root, ".git"))
    what = "a symbolic link" if kind == stat.S_IFLNK else "neither a directory nor a file"
    hint = "move the repository's .git into the workspace"
    raise UserError(f"{workspace}/.git is {what}, which cannot be protected", hint=hint, code="git-link")


def around(found: Repository) -> Repository | None:
    """The repository whose files a workspace has: its own, or the one it is a part of; UserError as from find()."""
    if found.kind is not Kind.NONE:
        return found
    return find(found.above) if found.above else None


def read_refs(repository: Repository) -> refs.Refs:
    with opened(repository.git_dir) as git_dir, opened(repository.common_dir) as common:
        return refs.read(git_dir, common)


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A directory of the host by its real path, or UserError; a link on the way means that somebody swapped it."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = fs.open_beneath(top, path.lstrip("/") or ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if fs.is_scarcity(error):
            raise
        message = f"{neutralise(path)} cannot be opened: {error.strerror}"
        raise UserError(message, hint="check that it is there and yours", code="git-unreadable") from error
    finally:
        os.close(top)
    try:
        yield fd
    finally:
        os.close(fd)


def pointed_at(text: str, directory: str) -> str:
    """Where the `.git` file with this text, lying in `directory`, points to; empty if it is none."""
    if not text.startswith("gitdir: ") or "\0" in text:
        return ""
    return os.path.normpath(os.path.join(directory, text[len("gitdir: ") :].rstrip("\r\n")))


def _kind(root: int, name: str) -> int | None:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _is_git_dir(path: str) -> bool:
    """Whether git would take it for a repository. An empty `.git` may be what is left of a mount of ours."""
    return os.path.lexists(f"{path}/HEAD")


def _without(workspace: str, root: int) -> Repository:
    if _kind(root, "HEAD") is not None and (
        _kind(root, "commondir") is not None or None not in {_kind(root, "objects"), _kind(root, "refs")}
    ):
        hint = "give the directory of its working tree, or mount it read-only"
        raise UserError(f"{workspace} is git's own directory", hint=hint, code="git-directory")
    above = os.path.dirname(workspace)
    while above != "/" and not _is_git_dir(f"{above}/.git") and not os.path.isfile(f"{above}/.git"):
        above = os.path.dirname(above)
    return Repository(kind=Kind.NONE, workspace=workspace, above="" if above == "/" else above)


def _elsewhere(workspace: str, text: str) -> Repository:
    named = pointed_at(text, workspace)
    if not named:
        raise _refused(workspace, f"{workspace}/.git is a file that names no repository", "remove it")
    git_dir = os.path.realpath(named)
    if not _is_git_dir(git_dir):
        message = f"{workspace}/.git points to {neutralise(git_dir)}, where there is no repository"
        raise _refused(workspace, message, "run `git worktree repair` in the repository it belongs to, or remove it")
    if git_dir == workspace or git_dir.startswith(f"{workspace}/"):
        message = f"the repository of {workspace} lies inside it, at {neutralise(git_dir)}"
        raise _refused(workspace, message, "move it to .git")
    with opened(git_dir) as fd:
        common = refs.read_small(fd, "commondir").rstrip("\r\n")
        if common:
            common_dir = os.path.realpath(os.path.join(git_dir, common))
            back = os.path.join(git_dir, refs.read_small(fd, "gitdir").rstrip("\r\n"))
            fits = os.path.dirname(git_dir) == f"{common_dir}/worktrees"
            kind = Kind.WORKTREE
        else:
            common_dir = git_dir
            tree = settings.last(_settings(fd, git_dir), "core.worktree")
            back = os.path.join(git_dir, tree, ".git") if tree else ""
            fits = True
            kind = Kind.SEPARATE
    if not fits or not back or os.path.realpath(back) != f"{workspace}/.git":
        message = f"{workspace}/.git points to {neutralise(git_dir)}, which does not point back"
        mend = "worktree repair" if common else f"config core.worktree {workspace}"
        hint = f"remove it if you did not make it, else run `git --git-dir={neutralise(git_dir)} {mend}`"
        raise _refused(workspace, message, hint)
    return _described(kind, workspace, git_dir, common_dir)


def _described(kind: Kind, workspace: str, git_dir: str, common_dir: str) -> Repository:
    with opened(common_dir) as common:
        _check_parts(workspace, common, common_dir)
        found = _settings(common, common_dir)
        _check_format(workspace, found, kind)
        status = os.fstat(common)
    objects = f"{common_dir}/objects"
    return Repository(
        kind=kind,
        workspace=workspace,
        git_dir=git_dir,
        common_dir=common_dir,
        objects=objects,
        borrowed=_borrowed(workspace, objects),
        object_format=settings.last(found, "extensions.objectformat", "sha1").lower(),
        owner=(status.st_uid, status.st_gid),
    )


def _check_parts(workspace: str, common: int, common_dir: str) -> None:
    for name in ("objects", "refs"):
        if _kind(common, name) != stat.S_IFDIR:
            hint = "a repository made by git-new-workdir: use `git worktree add` instead"
            raise _refused(workspace, f"{common_dir}/{name} is not a directory", hint)
    if _kind(common, "commondir") is not None:
        # No git makes one here. It redirects configuration and hooks, so it is what an attack would leave.
        hint = "look at it, and remove it if you did not write it"
        raise _refused(workspace, f"{common_dir}/commondir makes git obey another directory", hint)


def _check_format(workspace: str, found: Settings, kind: Kind) -> None:
    unknown = {key[len("extensions.") :] for key, _ in found if key.startswith("extensions.")} - _EXTENSIONS
    storage = settings.last(found, "extensions.refstorage", "files")
    version = settings.last(found, "core.repositoryformatversion", "0")
    if unknown or version not in {"0", "1"}:
        what = f"extension {neutralise(min(unknown))}" if unknown else f"format {neutralise(version)}"
        raise _refused(workspace, f"the repository of {workspace} has the {what}, which is not known here")
    if storage != "files":
        hint = "run `git refs migrate --ref-format=files`"
        raise _refused(workspace, f"the repository of {workspace} keeps its references as {neutralise(storage)}", hint)
    if settings.last(found, "extensions.objectformat", "sha1").lower() not in {"sha1", "sha256"}:
        raise _refused(workspace, f"the repository of {workspace} has objects of an unknown format")
    tree = settings.last(found, "core.worktree")
    if kind is Kind.PLAIN and tree and os.path.realpath(os.path.join(workspace, ".git", tree)) != workspace:
        hint = "give the directory that core.worktree names"
        raise _refused(workspace, f"the work tree of {workspace}/.git is {neutralise(tree)}", hint)
    if kind is Kind.PLAIN and settings.is_true(found, "core.bare"):
        hint = "give one of its worktrees (`git worktree list`)"
        raise _refused(workspace, f"{workspace}/.git is a bare repository, without a work tree", hint)


def _settings(common: int, common_dir: str) -> Settings:
    return settings.parse(refs.read_small(common, "config"), f"{common_dir}/config")


def _borrowed(workspace: str, objects: str) -> tuple[str, ...]:
    """The object directories that alternates name, and theirs; each is real and a directory."""
    found: list[str] = []
    waiting = [(objects, 0)]
    while waiting:
        place, depth = waiting.pop(0)
        with opened(place) as fd:
            lines = refs.read_small(fd, "info/alternates").split("\n")
        for line in lines if depth < _ALTERNATES_DEPTH else ():
            if not line or line.startswith("#") or "\0" in line:
                continue
            path = os.path.realpath(os.path.join(place, line))
            if path in {objects, *found} or not os.path.isdir(path):
                continue
            found.append(path)
            waiting.append((path, depth + 1))
            if len(found) > _ALTERNATES_MAX:
                message = f"the repository of {workspace} borrows from over {_ALTERNATES_MAX} others"
                raise _refused(workspace, message, "run `git repack -a -d`, then remove objects/info/alternates")
    return tuple(found)


def _refused(workspace: str, message: str, hint: str = "") -> UserError:
    hint = hint or f"keep git out of the box: copy what it needs out of {workspace}"
    return UserError(message, hint=hint, code="git-unsupported")
