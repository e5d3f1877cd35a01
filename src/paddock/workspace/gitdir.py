"""A gitdir of the box's own, written by us, in which git works as on the host and the host's `.git` is never touched.

The box has it mounted where the host has its `.git`, so every path is the same. References, HEAD and index are copies,
the configuration is an allow-list, the host's objects are shown read-only at OBJECTS and named as alternates: the host
may commit, repack and collect garbage meanwhile, and git looks again. What the box commits lies in its own gitdir, and
home.py brings it back. Once made it belongs to the box and is hostile: nothing here reads it again.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import dataclass, replace

from paddock import codec, fs, limits
from paddock.errors import Unavailable, UserError
from paddock.model import Mount
from paddock.secrets import githelper
from paddock.text import neutralise
from paddock.workspace import git, refs, repository, settings
from paddock.workspace.repository import Kind, Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.settings import Settings

OBJECTS = "/run/git"  # where a box finds the host's objects; it cannot write there
IDENTITY = "/etc/gitconfig"
BASE = "refs/paddock/base"  # in the box: the commits it started from
_LEFT_OUT = ("refs/paddock/", "refs/stash", "refs/bisect/", "refs/worktree/", "refs/rewritten/")
_COPIED = ("info/exclude", "info/attributes", "info/sparse-checkout")
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_RECORD = "git.json"
_MODULES_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One repository of the host, and its twin: the workspace's own first, then its submodules'."""

    repository: Repository
    place: str  # the twin on the host
    base: tuple[str, ...]  # what the box started from, to be kept alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """What a box has of git. `mounts` hold for live and review mode, outer ones first."""

    mounts: tuple[Mount, ...]
    units: tuple[Unit, ...]
    notes: tuple[str, ...] = ()


def identity(home: str, found: Repository) -> Identity:
    """The name and address the user commits with in this repository, as their own git sees it."""
    found_there = git.configured(home, found.git_dir, "user")
    return Identity(name=found_there.get("user.name", ""), email=found_there.get("user.email", ""))


def make(
    private_dir: str,
    found: Repository,
    *,
    who: Identity,
    shown: tuple[str, ...] = (),
    same_ids: bool = True,
    objects: str = OBJECTS,
    stays: bool = True,
) -> Private:
    """Write the box's gitdir into the new directory `private_dir` and say what is mounted; UserError if it cannot be.

    `shown` are the other directories the user gave to the box: objects borrowed from elsewhere are for it only there.
    `same_ids`: files have the same owner inside, so that git need not read all of them to see that they are unchanged.
    `objects`: another place for each repository of one box. `stays`: the box has it after a crash of the machine too.
    """
    load(private_dir, found)  # never over a gitdir that a box has worked in
    try:
        fs.make_private_dir(private_dir)
        fs.remove_tree(os.path.join(private_dir, "gitdir"))  # of an attempt that did not finish
        made = _Maker(private_dir, shown, objects, same_ids=same_ids).make(found)
        mounts = (_identity(private_dir, who), *made.mounts)
        private = replace(made, mounts=mounts)
        record = json.dumps(codec.to_wire(private)).encode()
    except OSError as error:
        raise Unavailable(f"cannot make the box's gitdir: {error.strerror}", code="gitdir") from error
    fs.write_atomic(os.path.join(private_dir, _RECORD), record, sync=stays)
    return private


def load(private_dir: str, found: Repository) -> Private | None:
    """What make() wrote here before; None if it did not, did not finish, or there was no repository then.

    UserError if the box has worked on another repository: its commits lie here.
    """
    private = read(private_dir)
    if private is None:
        return None
    if not private.units:
        return private if found.kind is Kind.NONE else None
    known = private.units[0].repository
    if (known.git_dir, known.object_format) != (found.git_dir, found.object_format):
        hint = "bring the repository back, or remove the box and make a new one"
        raise UserError(
            f"the box has worked on the repository {known.git_dir}, which is gone", hint=hint, code="git-gone"
        )
    return private


def read(private_dir: str) -> Private | None:
    """What make() wrote here, whatever became of the workspace since."""
    try:
        with open(os.path.join(private_dir, _RECORD), "rb") as file:
            return codec.from_wire(Private, json.loads(file.read()))
    except FileNotFoundError:
        return None


def relocate(private_dir: str, old: str) -> None:
    """Of a copy of what make() made in the directory `old`: let its record say where it is now."""
    private = read(private_dir)
    if private is None:
        return

    def moved(path: str) -> str:
        return private_dir + path[len(old) :] if path.startswith(f"{old}/") else path

    mounts = tuple(replace(mount, source=moved(mount.source)) for mount in private.mounts)
    units = tuple(replace(unit, place=moved(unit.place)) for unit in private.units)
    record = json.dumps(codec.to_wire(replace(private, mounts=mounts, units=units))).encode()
    fs.write_atomic(os.path.join(private_dir, _RECORD), record)


class _Maker:
    def __init__(self, private_dir: str, shown: tuple[str, ...], objects: str, *, same_ids: bool) -> None:
        self._dir = private_dir
        self._where = objects
        self._shown = shown
        self._same_ids = same_ids
        self._mounts: list[Mount] = []
        self._units: list[Unit] = []
        self._notes: list[str] = []

    def make(self, found: Repository) -> Private:
        if found.kind is Kind.NONE:
            if found.above:
                note = f"git does not work in the box: {found.workspace} is a part of the repository {found.above}"
                self._notes.append(f"{note}, whose history it would have to be shown")
        else:
            place = _fresh(os.path.join(self._dir, "gitdir"))
            self._mounts.append(Mount(source=place, target=found.common_dir))
            self._twin(found, place)
        return Private(mounts=tuple(self._mounts), units=tuple(self._units), notes=tuple(self._notes))

    def _twin(self, found: Repository, place: str) -> None:
        seen = repository.read_refs(found)
        with repository.opened(found.common_dir) as common:
            self._shared(found, common, place, seen)
            trees = [tree for tree, _ in worktrees(found) if tree != found.git_dir]
            heads = [seen.head]
            if found.kind is Kind.WORKTREE:
                _text(place, "HEAD", _head_text(refs.read_head(common)))
                trees.append(found.git_dir)
            else:
                self._tree(common, place, found)
            for tree in trees:
                with repository.opened(tree) as fd:
                    inner = _fresh(os.path.join(place, "worktrees", os.path.basename(tree)))
                    self._tree(fd, inner, found)
                    _text(inner, "commondir", "../..\n")
                    _text(inner, "gitdir", refs.read_small(fd, "gitdir"))
                    heads.append(refs.read_head(fd))
        base = _tips(seen, heads)
        _text(place, "packed-refs", refs.packed_text(_given(seen, base)))
        for name, target in seen.symbolic.items():
            if not name.startswith(_LEFT_OUT) and target in seen.ids:
                _text(place, name, f"ref: {target}\n")
        self._units.append(Unit(repository=found, place=place, base=base))
        own = os.path.join(place, os.path.relpath(found.git_dir, found.common_dir))
        for name, module in modules(found):
            self._twin(module, _fresh(os.path.join(own, "modules", name)))

    def _shared(self, found: Repository, common: int, place: str, seen: refs.Refs) -> None:
        for name in ("refs/heads", "refs/tags", "objects/info", "objects/pack", "info", "hooks"):
            _fresh(os.path.join(place, name))
        _text(place, "config", settings.written(self._settings(found)))
        _text(place, "objects/info/alternates", "".join(f"{target}\n" for target in self._objects(found)))
        shallow = refs.read_small(common, "shallow", limits.GIT_REFS_BYTES).split()
        if shallow:
            _text(place, "shallow", "".join(f"{oid}\n" for oid in shallow if refs.OID.match(oid)))
        if not seen.resolve(seen.head) and seen.ids:
            self._notes.append(f"{found.workspace} is on a branch without a commit")

    def _settings(self, found: Repository) -> Settings:
        """Ours last, since the last one counts."""
        host = found.settings
        kept = [(key, value) for key, value in settings.permitted(host) if not key.startswith("user.")]
        bare = found.kind is Kind.WORKTREE and settings.is_true(host, "core.bare")
        kept.append(("core.repositoryformatversion", "1" if _extensions(host) else "0"))
        kept += _extensions(host)
        kept += [("core.bare", "true" if bare else "false"), ("core.logallrefupdates", "true")]
        if found.kind is Kind.SEPARATE:
            kept.append(("core.worktree", found.workspace))
        if not self._same_ids:
            kept.append(("core.checkstat", "minimal"))
        return tuple(kept)

    def _objects(self, found: Repository) -> list[str]:
        """Where the box finds the objects of the host, each of which becomes a mount."""
        targets = []
        for number, source in enumerate((found.objects, *found.borrowed)):
            if number and not self._may_see(source, found):
                hint = f"show it too (`{neutralise(source)}:ro`), or run `git repack -a -d` and remove the alternates"
                message = f"the repository of {found.workspace} borrows objects from {neutralise(source)}"
                raise UserError(message, hint=hint, code="git-borrows")
            target = f"{self._where}/{len(self._units)}/{number}"
            targets.append(target)
            self._mounts.append(Mount(source=source, target=target, read_only=True))
            if os.path.lexists(f"{source}/info/alternates"):  # of paths that the box does not have
                empty = os.path.join(self._dir, "empty")
                with open(empty, "ab"):
                    pass
                self._mounts.append(Mount(source=empty, target=f"{target}/info/alternates", read_only=True))
        return targets

    def _may_see(self, source: str, found: Repository) -> bool:
        places = (found.workspace, found.common_dir, *self._shown)
        return any(source == place or source.startswith(f"{place.rstrip('/')}/") for place in places)

    def _tree(self, fd: int, place: str, found: Repository) -> None:
        """What belongs to one work tree: HEAD, index, and which files are left out."""
        _text(place, "HEAD", _head_text(refs.read_head(fd)))
        if set(_UNFINISHED) & set(os.listdir(fd)):
            self._notes.append(f"a merge or rebase is not finished in {found.workspace}; the box starts without it")
        for name in _COPIED:
            if text := refs.read_small(fd, name):
                _text(place, name, text)
        if settings.is_true(found.settings, "extensions.worktreeconfig"):
            own = settings.parse(refs.read_small(fd, "config.worktree"), "config.worktree")
            _text(place, "config.worktree", settings.written(settings.permitted(own)))
        _copy_index(fd, place)


def _identity(private_dir: str, who: Identity) -> Mount:
    """For all repositories in the box. That files belong to someone else is no danger there."""
    place = os.path.join(private_dir, "gitconfig")
    pairs = [("user.name", who.name), ("user.email", who.email)]
    ours = (("safe.directory", "*"), ("credential.helper", githelper.HELPER))
    text = settings.written((*settings.permitted(tuple(pairs)), *ours))
    _text(private_dir, "gitconfig", text)
    os.chmod(place, 0o644)
    return Mount(source=place, target=IDENTITY, read_only=True)


def _extensions(host: Settings) -> list[tuple[str, str]]:
    named = {key: value for key, value in host if key.startswith("extensions.") and value.isprintable()}
    named.pop("extensions.refstorage", None)
    return list(named.items())


def _tips(seen: refs.Refs, heads: list[str]) -> tuple[str, ...]:
    """Of HEAD and the local branches; the others the host's git keeps for two weeks at least, as it always does."""
    branches = [oid for name, oid in seen.ids.items() if name.startswith("refs/heads/")]
    named = [oid for oid in (*map(seen.resolve, heads), *branches) if oid]
    return tuple(dict.fromkeys(named))[: limits.GIT_BASE_TIPS_MAX]


def _given(seen: refs.Refs, base: tuple[str, ...]) -> dict[str, str]:
    kept = {name: oid for name, oid in seen.ids.items() if not name.startswith(_LEFT_OUT)}
    return {**kept, **{f"{BASE}/{number}": oid for number, oid in enumerate(base)}}


def _head_text(head: str) -> str:
    return f"{head}\n" if refs.OID.match(head) else f"ref: {head}\n"


def worktrees(found: Repository) -> Iterator[tuple[str, str]]:
    """The linked worktrees that lie inside the workspace, and so in the box: their gitdirs and their `.git` files."""
    top = f"{found.common_dir}/worktrees"
    if not os.path.isdir(top) or os.path.islink(top):
        return
    with repository.opened(top) as fd:
        for name in sorted(os.listdir(fd))[: limits.GIT_SUBMODULES_MAX]:
            back = refs.read_small(fd, f"{name}/gitdir").rstrip("\r\n")
            pointer = os.path.realpath(os.path.join(top, name, back)) if back else ""
            inside = pointer.startswith(f"{found.workspace}/") and pointer.endswith("/.git")
            if inside and os.path.isfile(pointer) and not os.path.islink(f"{top}/{name}"):
                yield f"{top}/{name}", pointer


def modules(found: Repository) -> Iterator[tuple[str, Repository]]:
    """The submodules that are checked out inside the workspace; each is known by a `.git` file that points back."""
    top = f"{found.git_dir}/modules"
    waiting = [""]
    left = limits.GIT_SUBMODULES_MAX
    while waiting and left:
        name = waiting.pop()
        left -= 1
        place = os.path.join(top, name) if name else top
        if name and os.path.lexists(f"{place}/HEAD"):
            module = _module(found, place)
            if module:
                yield name, module
        elif name.count("/") < _MODULES_DEPTH and os.path.isdir(place) and not os.path.islink(place):
            waiting += [f"{name}/{inner}" if name else inner for inner in os.listdir(place)]


def _module(found: Repository, place: str) -> Repository | None:
    with repository.opened(place) as fd:
        tree = settings.last(settings.parse(refs.read_small(fd, "config"), f"{place}/config"), "core.worktree")
    where = os.path.realpath(os.path.join(place, tree)) if tree else ""
    if not where.startswith(f"{found.workspace}/") or not os.path.isfile(f"{where}/.git"):
        return None
    module = repository.find(where)
    return module if module.git_dir == place else None


def _copy_index(fd: int, place: str) -> None:
    """With its time, by which git tells files that may have changed after it was written."""
    for name in ("index", *(name for name in os.listdir(fd) if name.startswith("sharedindex."))):
        try:
            source = fs.open_beneath(fd, name, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with open(source, "rb") as reader:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode) or status.st_size > limits.GIT_INDEX_BYTES:
                raise UserError(f"the {neutralise(name)} of the repository is too large", code="git-unsupported")
            with open(os.path.join(place, name), "xb") as writer:
                shutil.copyfileobj(reader, writer, limits.MIB)
                writer.flush()
                os.utime(writer.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _fresh(place: str) -> str:
    os.makedirs(place, 0o700, exist_ok=True)
    return place


def _text(place: str, name: str, text: str) -> None:
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
