"""Where this process lives in the cgroup trees of the machine, and where it may put boxes.

v1 has a tree per controller and lets processes and children share a cgroup: boxes go beneath our own. v2 has one tree
whose inner cgroups hold no processes: to have children with limits we must first move into a leaf ourselves. We do that
only in a cgroup that was given to us: it has our uid, systemd (where it runs) marked it as delegated, and nobody else's
process is in it. Everything else is left alone and reported with its reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from paddock.engines.process import accounting
from paddock.errors import Unavailable

Version = Literal[1, 2]

LEAF: Final = "daemon"  # the same word fits systemd's DelegateSubgroup=
_SYSTEMD_RUNS: Final = Path("/run/systemd/system")  # sd_booted(3)
_HINT: Final = "the daemon needs a cgroup delegated to it alone (systemd: Delegate=yes)"
_MOVES: Final = 5  # rounds; a child forked while we move its parent stays behind until the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The hierarchy that has a controller: its kind, where it is mounted, and our own cgroup in it."""

    version: Version
    mount: Path
    own: Path

    def counts(self, controller: str, cgroup: Path) -> bool:
        """Whether the controller is at work in a cgroup of this tree: v1 always, v2 where the parent enabled it."""
        if self.version == 1:
            return True
        try:
            return controller in _words(cgroup / "cgroup.controllers")
        except OSError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    version: Version
    root: PurePosixPath  # which cgroup the mount shows at its point
    point: Path
    options: frozenset[str]


def locate(controller: str, proc_root: str = "/proc") -> Tree:
    """Find the tree of `controller` from /proc/self/{cgroup,mountinfo}, or raise Unavailable with the reason."""
    paths = _memberships(_text(Path(proc_root, "self/cgroup")))
    version: Version = 1 if controller in paths else 2
    path = paths.get(controller if version == 1 else "")
    if path is None:
        raise Unavailable(f"no cgroup hierarchy has the {controller} controller")
    for mount in _mounts(_text(Path(proc_root, "self/mountinfo"))):
        if mount.version == version and (version == 2 or controller in mount.options):
            own = _beneath(mount, path)
            if own is not None and (own / "cgroup.procs").exists():
                return Tree(version=version, mount=mount.point, own=own)
    raise Unavailable(f"no mount shows our cgroup {path} of the {controller} controller")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="surrogateescape")  # mount points are bytes


def _memberships(text: str) -> dict[str, PurePosixPath]:
    """Controller to path; the key of the v2 tree is the empty word (cgroups(7))."""
    paths = {}
    for line in text.removesuffix("\n").split("\n"):
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    return paths


def _mounts(text: str) -> list[_Mount]:
    """The cgroup mounts of a mountinfo file (proc(5)); the optional fields in the middle vary in number.

    Any user can choose a mount point, so lines and words end where the kernel ends them, not at every blank of Unicode.
    """
    mounts = []
    for line in text.removesuffix("\n").split("\n"):
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            root, point = (_unescaped(word) for word in fields.split(" ")[3:5])
            version: Version = 1 if kind == "cgroup" else 2
            found = frozenset(options.split(","))
            mounts.append(_Mount(version=version, root=PurePosixPath(root), point=Path(point), options=found))
    return mounts


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word)


def _beneath(mount: _Mount, path: PurePosixPath) -> Path | None:
    # In a cgroup namespace a path that climbs (/../x) lies outside of what is shown to us.
    if ".." in (*path.parts, *mount.root.parts) or not path.is_relative_to(mount.root):
        return None
    return mount.point / path.relative_to(mount.root)


def pids_in(cgroup: Path) -> list[int]:
    """Processes of a cgroup; 0 stands for each one that our pid namespace has no number for."""
    return [int(word) for word in (cgroup / "cgroup.procs").read_text(encoding="ascii").split()]


def write(file: Path, value: str) -> None:
    """Write one value to a control file; never creates one, so a plain directory is not mistaken for a cgroup."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode("ascii"))
    except OSError as error:
        error.filename = os.fspath(file)
        raise
    finally:
        os.close(fd)


def enter(tree: Tree, controllers: tuple[str, ...], systemd_runs: Path = _SYSTEMD_RUNS) -> tuple[Path, frozenset[str]]:
    """Make our part of the v2 tree ready for boxes: their parent cgroup, and the controllers its children have.

    Moves us and our descendants into a leaf; a second call finds us there. Raises Unavailable and changes nothing if
    the cgroup is not ours to arrange or no wanted controller can be had.
    """
    parent = tree.own.parent if tree.own.name == LEAF and tree.own != tree.mount else tree.own
    _check_ours(parent, systemd_runs)
    offered = _words(parent / "cgroup.controllers")
    wanted = [name for name in controllers if name in offered]
    if not wanted:
        raise Unavailable(f"{parent} has none of the controllers {', '.join(controllers)}")
    if not _is_root(parent):  # the root of the whole tree may hold processes beside children
        _check_alone(parent)
        _move_all(parent, parent / LEAF)
    enabled = _enable(parent, wanted)
    if not enabled:
        if parent == tree.own:
            _move_back(parent / LEAF, parent)
        raise Unavailable(f"{parent} does not let its children have {', '.join(wanted)}")
    return parent, enabled


def _check_ours(cgroup: Path, systemd_runs: Path) -> None:
    owner = cgroup.stat().st_uid
    if owner != os.geteuid():
        raise Unavailable(f"{cgroup} belongs to uid {owner}", hint=_HINT)
    if systemd_runs.exists() and not _delegated(cgroup):
        raise Unavailable(f"systemd has not delegated {cgroup}", hint=_HINT)


def _delegated(cgroup: Path) -> bool:
    # systemd sets trusted.delegate, which only root can read, and since v251 user.delegate as well.
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            return os.getxattr(cgroup, name) == b"1"
    return False


def _is_root(cgroup: Path) -> bool:
    return not (cgroup / "cgroup.type").exists()


def _check_alone(cgroup: Path) -> None:
    others = set(pids_in(cgroup)) - accounting.family(os.getpid())
    if others:
        raise Unavailable(f"{len(others)} other processes are in {cgroup}", hint=_HINT)


def _move_all(source: Path, target: Path) -> None:
    try:
        target.mkdir(exist_ok=True)
        for _ in range(_MOVES):
            if not (pids := pids_in(source)):
                return
            for pid in pids:
                _move(pid, target)
    except OSError as error:
        _move_back(target, source)
        raise Unavailable(f"cannot move into {target}: {error.strerror}") from error


def _move_back(leaf: Path, cgroup: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in pids_in(leaf):
            _move(pid, cgroup)
    with contextlib.suppress(OSError):
        leaf.rmdir()


def _move(pid: int, cgroup: Path) -> None:
    try:
        write(cgroup / "cgroup.procs", str(pid))
    except OSError as error:
        if error.errno != errno.ESRCH:  # it ended meanwhile
            raise


def _enable(cgroup: Path, controllers: list[str]) -> frozenset[str]:
    for name in controllers:
        with contextlib.suppress(OSError):
            write(cgroup / "cgroup.subtree_control", f"+{name}")
    return _words(cgroup / "cgroup.subtree_control") & frozenset(controllers)


def _words(file: Path) -> frozenset[str]:
    return frozenset(file.read_text(encoding="ascii").split())
