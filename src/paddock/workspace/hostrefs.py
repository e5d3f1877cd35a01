"""References of ours in a repository of the host: below `refs/paddock/`, and nowhere else.

What came home from a box is written by a hardened git, all or none. What a box started from is kept alive as
`refs/paddock/@base/<id>/<n>`, so that neither a rebase nor `git gc --prune=now` on the host takes away objects that the
box's gitdir borrows. Those are written at the start of a box, so without git: a loose reference is a file with an id,
and the branch it was read from a moment ago says that the object is there. (References in another format than files
are refused by repository.py.) Where git has packed ours meanwhile, git takes them out again.
"""

from __future__ import annotations

import contextlib
import os
import stat

from paddock import fs, limits
from paddock.errors import UserError
from paddock.model import check_name
from paddock.text import neutralise
from paddock.workspace import git, refs, repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.gitdir import Unit
    from paddock.workspace.repository import Repository

ROOT = "refs/paddock"
BASES = f"{ROOT}/@base"  # no box can have that name
_TRIES = 5
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# -- what a box started from -------------------------------------------------------------------------------------------


def keep(unit: Unit, box_id: str, *, durable: bool = True) -> None:
    """Let the host's git keep what a box starts from, read from its branches just now.

    `durable`: on disk when this returns; a box of one command does not outlive a power cut.
    """
    if not unit.base:
        return
    found = unit.repository
    with repository.opened(found.common_dir) as common, _made(common, f"{BASES}/{check_name(box_id)}", found) as at:
        _write(at, {str(number): oid for number, oid in enumerate(unit.base)}, found, durable=durable)


def keep_on(unit: Unit, box_id: str) -> None:
    """At a later start: what someone has removed is written again, by a git that knows whether the object is there."""
    prefix = f"{BASES}/{check_name(box_id)}"
    with repository.opened(unit.repository.common_dir) as common:
        there = _names(common, prefix)
    if len(there) >= len(unit.base):
        return
    known = repository.read_refs(unit.repository).ids
    wanted = [(f"{prefix}/{number}", oid, None) for number, oid in enumerate(unit.base)]
    for change in wanted:
        if change[0] not in known:
            update(unit.repository, [change])


def release(unit: Unit, box_id: str) -> None:
    """Let go of what a box started from."""
    found, prefix = unit.repository, f"{BASES}/{check_name(box_id)}"
    with repository.opened(found.common_dir) as common:
        packed = refs.read_bytes(common, "packed-refs", limits.GIT_REFS_BYTES)
        with contextlib.suppress(FileNotFoundError):
            _remove(common, prefix)
    if f" {prefix}/".encode() in packed:
        ids = repository.read_refs(found).ids
        update(found, [(name, "", None) for name in ids if name.startswith(f"{prefix}/")])


@contextlib.contextmanager
def _made(common: int, path: str, found: Repository) -> Iterator[int]:
    """A directory below `refs`, open to whom `refs` is; no link is followed on the way."""
    at = -1
    for attempt in range(1, _TRIES + 1):
        try:
            at = _descend(common, path, found)
            break
        except FileNotFoundError:  # another box let go of the last one in it
            if attempt == _TRIES:
                raise
    try:
        yield at
    finally:
        os.close(at)


def _descend(common: int, path: str, found: Repository) -> int:
    first, *rest = path.split("/")
    at = os.open(first, fs.LISTABLE, dir_fd=common)
    mode = os.fstat(at).st_mode & 0o7777
    for name in rest:
        try:
            try:
                os.mkdir(name, 0o700, dir_fd=at)
                is_new = True
            except FileExistsError:
                is_new = False
            below = os.open(name, fs.LISTABLE, dir_fd=at)
        finally:
            os.close(at)
        at = below
        if is_new and not os.listdir(at):  # nobody put another in its place
            os.fchmod(at, mode)
            give(at, found)
    return at


def _write(at: int, ids: dict[str, str], found: Repository, *, durable: bool) -> None:
    """As git does: locks beside them, renamed when they are whole."""
    with contextlib.ExitStack() as stack:
        fds = []
        for name, oid in ids.items():
            fds.append(_locked(at, f"{name}.lock", oid, found))
            stack.callback(os.close, fds[-1])
        if durable:
            fs.sync_all(fds)
    for name in ids:
        os.rename(f"{name}.lock", name, src_dir_fd=at, dst_dir_fd=at)
    if durable:
        os.fsync(at)


def _locked(at: int, lock: str, oid: str, found: Repository) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(lock, dir_fd=at)  # of an attempt that broke off: nobody else writes here
    fd = os.open(lock, _NEW, 0o600, dir_fd=at)
    try:
        os.write(fd, f"{oid}\n".encode("ascii"))
        os.fchmod(fd, os.fstat(at).st_mode & 0o666)
        give(fd, found)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _names(common: int, path: str) -> list[str]:
    try:
        at = fs.open_beneath(common, path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return []
    try:
        return [name for name in os.listdir(at) if name.isdigit()]
    finally:
        os.close(at)


def _remove(common: int, path: str) -> None:
    at = fs.open_beneath(common, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in os.listdir(at):
            os.unlink(name, dir_fd=at)
    finally:
        os.close(at)
    while path != "refs":
        parent, _, name = path.rpartition("/")
        at = fs.open_beneath(common, parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.rmdir(name, dir_fd=at)
        except OSError:
            return  # others are in it
        finally:
            os.close(at)
        path = parent


# -- by git ------------------------------------------------------------------------------------------------------------


def update(found: Repository, changes: list[tuple[str, str, str | None]], *, log: bool = False) -> None:
    """Write references of ours, all or none: name, new id (empty: delete), and the old one if it must be that."""
    if not changes:
        return
    _check_place(found)
    lines = []
    for name, new, old in changes:
        assert name.startswith(f"{ROOT}/")
        word = f"update {name}\0{new}\0" if new else f"delete {name}\0"
        lines.append(f"{word}{old or ''}\0")
    words = ["update-ref", *(["--create-reflog"] if log else []), "-m", "paddock", "--no-deref", "-z", "--stdin"]
    place = git.owned(found.common_dir, found.owner)
    git.output(words, place, stdin="".join(lines).encode("utf-8", "surrogateescape"))
    if os.geteuid() == 0 and found.owner[0] != 0 and place.owner is None:
        _give_all(found)


def _check_place(found: Repository) -> None:
    """A link there would lead git's writes elsewhere."""
    with repository.opened(found.common_dir) as common:
        for path in ("logs", "logs/refs", ROOT, f"logs/{ROOT}"):
            try:
                fd = fs.open_beneath(common, path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _led_astray(f"{found.common_dir}/{path}") from error
            try:
                _check_no_links(fd, f"{found.common_dir}/{path}", deep=path.endswith(ROOT))
            finally:
                os.close(fd)
        if os.path.islink(f"{found.common_dir}/packed-refs"):
            raise _led_astray(f"{found.common_dir}/packed-refs")


def _check_no_links(fd: int, path: str, *, deep: bool) -> None:
    for _, directories, names, at in os.fwalk(".", dir_fd=fd) if deep else ():
        for name in (*directories, *names):
            kind = stat.S_IFMT(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
            if kind not in {stat.S_IFDIR, stat.S_IFREG}:
                raise _led_astray(f"{path}/.../{neutralise(name)}")


def _led_astray(path: str) -> UserError:
    message = f"{path} is a link or no directory, by which git would write elsewhere"
    return UserError(message, hint="look at who put it there, and remove it", code="git-link")


def give(fd: int, found: Repository) -> None:
    """Root works in the repository of someone else: what it leaves there is theirs."""
    if os.geteuid() == 0 and os.fstat(fd).st_uid != found.owner[0]:
        os.fchown(fd, *found.owner)


def _give_all(found: Repository) -> None:
    for top in (ROOT, f"logs/{ROOT}"):
        for _, _, names, at in os.fwalk(os.path.join(found.common_dir, top)):
            os.fchown(at, *found.owner)
            for name in names:
                os.chown(name, *found.owner, dir_fd=at, follow_symlinks=False)
