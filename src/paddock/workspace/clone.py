"""Clone mode: the box works on a checkout of its own, on a branch of its own, at the path of the workspace.

The gitdir is the same private twin as in the other modes (gitdir.py), with the host's objects read-only behind it, so
nothing is copied but the files; the files are written by a git that knows no filter, hook or attribute of the host's.
What is not committed on the host is not in the clone. Nothing of it is ever seen by the host's git: home.py brings
the commits.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from paddock import fs, limits
from paddock.errors import UserError
from paddock.model import Mount
from paddock.text import neutralise
from paddock.workspace import git, gitdir, refs, repository
from paddock.workspace.git import Place
from paddock.workspace.gitdir import Private
from paddock.workspace.repository import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.workspace.gitdir import Identity, Unit
    from paddock.workspace.repository import Repository

_TREE = "tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    tree: str  # the files on the host, in the box's storage
    branch: str
    private: Private  # its first mount shows `tree` at the workspace's path


def make(
    private_dir: str,
    found: Repository,
    *,
    branch: str,
    who: Identity,
    shown: tuple[str, ...] = (),
    same_ids: bool = True,
    keep: Callable[[tuple[Unit, ...]], None] = lambda _: None,
) -> Clone:
    """Check out HEAD of the host's repository on the new branch `branch`; UserError if it cannot be.

    `keep` is called before the files are written, which takes its time: the host may collect garbage meanwhile.
    """
    check(found, branch)
    private = gitdir.make(private_dir, found, who=who, shown=shown, same_ids=same_ids)
    keep(private.units)
    tree, fresh = os.path.join(private_dir, _TREE), os.path.join(private_dir, f"{_TREE}.new")
    fs.remove_tree(fresh)  # of an attempt that did not finish
    fs.make_private_dir(fresh)
    os.chmod(fresh, os.stat(found.workspace).st_mode & 0o777 | 0o700)  # the directory around it is closed
    _pointer(found, fresh)
    _check_out(found, private, fresh, branch)
    os.rename(fresh, tree)
    mounts = (Mount(source=tree, target=found.workspace), *private.mounts)
    return Clone(tree=tree, branch=branch, private=replace(private, mounts=mounts))


def load(private_dir: str, found: Repository, branch: str) -> Clone | None:
    """What make() made here before."""
    private = gitdir.load(private_dir, found)
    tree = os.path.join(private_dir, _TREE)
    if private is None or not os.path.isdir(tree):
        return None
    mounts = (Mount(source=tree, target=found.workspace), *private.mounts)
    return Clone(tree=tree, branch=branch, private=replace(private, mounts=mounts))


def check(found: Repository, branch: str) -> None:
    """UserError unless there is a repository, and the branch can be made in a clone of it."""
    if found.kind is Kind.NONE:
        hint = "give the top of a repository, or use --review"
        raise UserError(f"{found.workspace} is no repository that could be cloned", hint=hint, code="no-repository")
    name = f"refs/heads/{branch}"
    if not refs.is_name(name) or not refs.is_plain(branch) or branch == "HEAD":
        hint = "use letters, digits and . _ - / as in fix/login"
        raise UserError(f"'{neutralise(branch, 80)}' is not a branch name", hint=hint, code="bad-branch")
    taken = repository.read_refs(found)
    for other in (*taken.ids, *taken.symbolic):
        if other == name or other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            short = neutralise(other.removeprefix("refs/heads/"), 80)
            message = f"the repository has a branch '{short}' already"
            raise UserError(message, hint="choose another --branch", code="branch-exists")


def _pointer(found: Repository, tree: str) -> None:
    """What the gitdir is mounted on, or the file that points to where it is."""
    if found.kind is Kind.PLAIN:
        os.mkdir(os.path.join(tree, ".git"), 0o700)
        return
    with repository.opened(found.workspace) as root, open(os.path.join(tree, ".git"), "x", encoding="utf-8") as file:
        file.write(f"gitdir: {repository.pointed_at(refs.read_small(root, '.git'), found.workspace)}\n")


def _check_out(found: Repository, private: Private, tree: str, branch: str) -> None:
    unit = private.units[0]
    own = os.path.normpath(os.path.join(unit.place, os.path.relpath(found.git_dir, found.common_dir)))
    for name in os.listdir(own):
        if name == "index" or name.startswith("sharedindex."):  # of the host's files
            os.unlink(os.path.join(own, name))
    place = Place(git_dir=own, borrowed=(found.objects, *found.borrowed), work_tree=tree)
    words = ["symbolic-ref", "HEAD", f"refs/heads/{branch}"]
    if unit.base and repository.read_refs(found).resolve(repository.read_refs(found).head):
        words = ["checkout", "-q", "-f", "--no-track", "-b", branch, "HEAD"]
    done = git.hardened(words, place, timeout_s=limits.CLONE_TIMEOUT_S, config=(("core.worktree", tree),))
    if done.code:
        raise git.failed("checkout", done, hint="free some space and try again")
