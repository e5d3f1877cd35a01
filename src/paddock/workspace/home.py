"""A box's commits come home: a bundle made in the box, taken apart on the host by us and by a hardened git.

Git's own fetch from a bundle checks little (no fsck before 2.46), so the steps are separate: the file is copied within
bounds, its header read here, the pack checked object by object into a directory of our own, its history walked to the
last commit the host has, and only then one pack file moves into the host's objects and references below
`refs/paddock/<box>/` are written. Until that moment nothing of the host's repository has changed; nothing else of it
ever does.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from typing import cast

from paddock import fs, limits
from paddock.errors import Unavailable, UserError
from paddock.model import check_name
from paddock.text import neutralise, size
from paddock.workspace import commits, git, gitdir, hostrefs, refs, repository, settings
from paddock.workspace.git import Place
from paddock.workspace.hostrefs import ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.workspace.commits import Commit
    from paddock.workspace.gitdir import Unit
    from paddock.workspace.repository import Repository

BUNDLE = "paddock.bundle"
NOTHING = "Refusing to create empty bundle"  # what git says in the box when there is no new commit
_HEADER_BYTES = limits.MIB
_BRANCHES = "refs/heads/"
_ZERO = {"sha1": "0" * 40, "sha256": "0" * 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    ref: str  # on the host
    branch: str  # in the box, or HEAD
    oid: str
    old: str  # what the reference was before; empty if it is new


@dataclass(frozen=True, slots=True, kw_only=True)
class Homecoming:
    arrived: tuple[Arrival, ...]
    skipped: tuple[tuple[str, str], ...]  # a name of the bundle, and why it did not come


def bundle_argv(unit: Unit) -> list[str]:
    """The command that makes the bundle, to be run in the box. It exits 128 and says NOTHING if there is none."""
    found = unit.repository
    words = ["--branches", "--ignore-missing", "HEAD", "--not", f"--glob={gitdir.BASE}"]
    return ["git", "-C", found.workspace, "bundle", "create", "-q", f"{found.common_dir}/{BUNDLE}", *words]


def forget_bundle(unit: Unit) -> None:
    """Remove the bundle of an earlier time, or whatever the box has put in its place."""
    fs.remove_tree(os.path.join(unit.place, BUNDLE))


def fetch(unit: Unit, box: str, scratch: str) -> Homecoming:
    """Take the bundle that lies in the box's gitdir; `scratch` is a directory to be made for it and removed again.

    Unavailable or UserError say why a bundle was refused as a whole; then nothing has changed.
    """
    check_name(box)
    fs.make_private_dir(scratch)
    try:
        return _Fetch(unit.repository, box, scratch).run(unit.place)
    except OSError as error:
        raise Unavailable(f"cannot take the commits of {box}: {error.strerror}", code="bundle") from error
    finally:
        fs.remove_tree(scratch)


def log(unit: Unit, box: str, commits_max: int = limits.GIT_LOG_COMMITS_MAX) -> tuple[Commit, ...]:
    """What came home from the box and the host did not have when it started, newest first."""
    found = unit.repository
    prefix = f"{ROOT}/{check_name(box)}/"
    ids = repository.read_refs(found).ids
    tips = [oid for name, oid in ids.items() if name.startswith(prefix)]
    if not tips:
        return ()
    words = ["rev-list", f"--max-count={commits_max}", "--ignore-missing", "--stdin"]
    lines = "".join(f"{oid}\n" for oid in (*tips, *(f"^{oid}" for oid in unit.base)))
    said = git.output(words, _host(found), stdin=lines.encode())
    return commits.read(_host(found), said.decode("ascii").split())


def read_header(data: bytes, object_format: str) -> tuple[dict[str, str], int]:
    """The references of a bundle and where its pack begins; UserError for what is no bundle of this repository."""
    head, blank, _ = data.partition(b"\n\n")
    first, _, rest = head.partition(b"\n")
    if not blank or first not in {b"# v2 git bundle", b"# v3 git bundle"} or not rest:
        raise _bad("it is no bundle")
    width = len(_ZERO[object_format])
    named = "sha1"
    found: dict[str, str] = {}
    for line in rest.split(b"\n"):
        if line.startswith(b"@"):
            key, _, value = os.fsdecode(line[1:]).partition("=")
            if key != "object-format":
                raise _bad(f"it asks for {neutralise(key)}")
            named = value
        elif not line.startswith(b"-"):
            oid, space, name = os.fsdecode(line).partition(" ")
            if not space or not refs.OID.match(oid) or len(oid) != width or name in found:
                raise _bad("its list of references is malformed")
            found[name] = oid
            if len(found) > limits.BUNDLE_REFS_MAX:
                raise _bad(f"it has over {limits.BUNDLE_REFS_MAX} references")
    if named != object_format:
        raise _bad(f"its objects are {neutralise(named)}, those of the repository {object_format}")
    return found, len(head) + 2


def local_name(box: str, branch: str, taken: set[str]) -> str:
    """The host's reference for a branch of the box: the same name, with what may mean something to a shell escaped.

    Where a reference of that box stands in the way (`a` and `a/b` cannot both be), the slashes are escaped too.
    """
    prefix = f"{ROOT}/{box}/"
    name = "".join(char if refs.is_plain(char) else _percent(char) for char in branch)
    if branch == "HEAD":
        name = _percent(name[0]) + name[1:]
    if _stands_in_the_way(prefix + name, taken):
        name = _percent(name[0]) + name[1:].replace("/", "%2F")
    return prefix + name


class _Fetch:
    def __init__(self, found: Repository, box: str, scratch: str) -> None:
        self._found = found
        self._box = box
        self._scratch = scratch
        self._skipped: list[tuple[str, str]] = []
        self._ids = repository.read_refs(found).ids

    def run(self, twin: str) -> Homecoming:
        bundle = self._copied(twin)
        with open(bundle, "rb") as file:
            named, pack_at = read_header(file.read(_HEADER_BYTES), self._found.object_format)
            wanted = self._wanted(named)
            if wanted and any(self._ids.get(ref) != oid for ref, (_, oid) in wanted.items()):
                place = self._quarantine()
                self._check_pack(file.fileno(), pack_at, place)
                wanted = self._commits(wanted, place)
                self._check_history([oid for _, oid in wanted.values()], place)
                self._move(os.path.join(self._scratch, "objects", "pack"))
        return self._write(wanted)

    def _copied(self, twin: str) -> str:
        """A copy that the box cannot change while it is read."""
        target = os.path.join(self._scratch, "bundle")
        with repository.opened(twin) as root, open(target, "xb") as writer:
            try:
                source = fs.open_beneath(root, BUNDLE, os.O_RDONLY)
            except FileNotFoundError:
                raise _bad("the box made none") from None
            with open(source, "rb") as reader:
                status = os.fstat(source)
                if not stat.S_ISREG(status.st_mode):
                    raise _bad("it is no regular file")
                left = limits.BUNDLE_BYTES
                while data := reader.read(min(limits.MIB, left + 1)):
                    left -= len(data)
                    if left < 0 or status.st_size > limits.BUNDLE_BYTES:
                        raise _bad(f"it has over {size(limits.BUNDLE_BYTES)}")
                    writer.write(data)
        return target

    def _wanted(self, named: dict[str, str]) -> dict[str, tuple[str, str]]:
        """Host reference -> branch and id. Of HEAD only what no branch has."""
        wanted: dict[str, tuple[str, str]] = {}
        taken = {name for name in self._ids if name.startswith(f"{ROOT}/{self._box}/")}
        tips = {oid for name, oid in named.items() if name.startswith(_BRANCHES)}
        for name, oid in sorted(named.items()):
            if name == "HEAD":
                if oid in tips:
                    continue
                ref, branch = f"{ROOT}/{self._box}/HEAD", "HEAD"
            elif name.startswith(_BRANCHES) and refs.is_name(name):
                branch = name[len(_BRANCHES) :]
                ref = local_name(self._box, branch, taken)
            else:
                self._skipped.append((name, "not a branch"))
                continue
            if not refs.is_name(ref):
                self._skipped.append((name, "no name for a reference"))
                continue
            taken.add(ref)
            wanted[ref] = (branch, oid)
        return wanted

    def _quarantine(self) -> Place:
        """A repository of ours that has the host's objects to read, and a place of its own to write."""
        host = self._found.settings
        for name in ("refs", "objects/pack", "objects/info"):
            os.makedirs(os.path.join(self._scratch, name), 0o700)
        partial = settings.last(host, "extensions.partialclone")
        pairs = [("core.repositoryformatversion", "1"), ("core.bare", "true")]
        pairs.append(("extensions.objectformat", self._found.object_format))
        if partial:
            pairs += [("extensions.partialclone", partial), (f"remote.{partial}.promisor", "true")]
        with repository.opened(self._found.common_dir) as common:
            shallow = refs.read_small(common, "shallow", limits.GIT_REFS_BYTES)
        files = {
            "HEAD": "ref: refs/heads/none\n",
            "config": settings.written(tuple(pairs)),
            "packed-refs": refs.packed_text(self._ids),
            **({"shallow": shallow} if shallow else {}),
        }
        for name, text in files.items():
            with open(os.path.join(self._scratch, name), "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        return Place(git_dir=self._scratch, borrowed=(self._found.objects,))

    def _check_pack(self, fd: int, pack_at: int, place: Place) -> None:
        if os.fstat(fd).st_size <= pack_at:
            raise _bad("it has no pack")
        words = ["index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={limits.BUNDLE_BYTES}"]
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data, memoryview(data)[pack_at:] as pack:
            # proc feeds any buffer; a copy of two gigabytes is what the map is there to avoid.
            done = git.hardened(words, place, stdin=cast("bytes", pack))
        if done.code:
            raise _bad(git.failed("index-pack", done).message)

    def _commits(self, wanted: dict[str, tuple[str, str]], place: Place) -> dict[str, tuple[str, str]]:
        ids = [oid for _, oid in wanted.values()]
        words = ["cat-file", "--batch-check=%(objectname) %(objecttype)"]
        said = git.output(words, place, stdin="".join(f"{oid}\n" for oid in ids).encode()).decode().splitlines()
        kinds = dict(line.partition(" ")[::2] for line in said)
        self._skipped += [(branch, "not a commit") for branch, oid in wanted.values() if kinds.get(oid) != "commit"]
        return {ref: row for ref, row in wanted.items() if kinds.get(row[1]) == "commit"}

    def _check_history(self, ids: list[str], place: Place) -> None:
        """Every object that the new commits need is there, down to what the host has references for."""
        words = ["rev-list", "--objects", "--stdin", "--quiet", "--not", "--all"]
        if settings.last(self._found.settings, "extensions.partialclone"):
            words.insert(1, "--exclude-promisor-objects")
        done = git.hardened(words, place, stdin="".join(f"{oid}\n" for oid in ids).encode())
        if done.code:
            raise _bad(f"it is not complete: {git.failed('rev-list', done).message}")

    def _move(self, source: str) -> None:
        """Into the host's objects, index last: git takes a pack for there when it sees that."""
        names = sorted(os.listdir(source), key=lambda name: (".pack", ".rev", ".idx").index(os.path.splitext(name)[1]))
        with repository.opened(self._found.objects) as objects:
            into = fs.open_beneath(objects, "pack", os.O_RDONLY | os.O_DIRECTORY)
            try:
                for name in names:
                    self._copy(os.path.join(source, name), into, name)
                os.fsync(into)
            finally:
                os.close(into)

    def _copy(self, path: str, into: int, name: str) -> None:
        fresh = f"tmp_{os.urandom(4).hex()}_{name}"  # as git calls what its gc may remove
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(fresh, flags, 0o600, dir_fd=into)
        with open(path, "rb") as reader, open(fd, "wb") as writer:
            while data := reader.read(limits.MIB):
                writer.write(data)
            writer.flush()
            os.fchmod(fd, 0o444)
            hostrefs.give(fd, self._found)
            os.fsync(fd)
        os.rename(fresh, name, src_dir_fd=into, dst_dir_fd=into)

    def _write(self, wanted: dict[str, tuple[str, str]]) -> Homecoming:
        arrived = [
            Arrival(ref=ref, branch=branch, oid=oid, old=self._ids.get(ref, ""))
            for ref, (branch, oid) in wanted.items()
            if self._ids.get(ref) != oid
        ]
        zero = _ZERO[self._found.object_format]
        hostrefs.update(self._found, [(item.ref, item.oid, item.old or zero) for item in arrived], log=True)
        return Homecoming(arrived=tuple(arrived), skipped=tuple(self._skipped))


def _host(found: Repository) -> Place:
    return git.owned(found.common_dir, found.owner)


def _stands_in_the_way(ref: str, taken: set[str]) -> bool:
    return any(other.startswith(f"{ref}/") or ref.startswith(f"{other}/") for other in taken)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def _bad(why: str) -> UserError:
    hint = "the commits are still in the box; look at them there with `git fsck` and `git log`"
    return UserError(f"the bundle of the box was refused: {why}", hint=hint, code="bad-bundle")
