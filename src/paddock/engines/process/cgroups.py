"""Limits a whole box cannot leave: one cgroup per box in every tree that has a controller we need.

`find` decides by doing: it makes a cgroup, sets a limit and attaches a process. Where that fails the controller is left
out with the reason, and the box falls back to rlimits and the watch. A box's cgroup is called `paddock-TAG-ID`; the tag
names the installation, so two of them on one machine never take each other's boxes for their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.engines.process import cgroup_tree
from paddock.engines.process.box_cgroup import BoxCgroup, Controller, Group, failed, make, remove_directory
from paddock.engines.process.cgroup_tree import Tree
from paddock.errors import Unavailable, UserError
from paddock.limits import MIB
from paddock.model import BoxId, Enforcement, Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

CONTROLLERS: Final[tuple[Controller, ...]] = ("memory", "pids", "cpu")

_TAG: Final = re.compile(r"[A-Za-z0-9_.]+\Z")  # no dash: it ends the tag
_ID: Final = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroups:
    """What this process can do with cgroups: a parent for boxes per usable controller, a reason for each other one."""

    tag: str
    trees: dict[Controller, Tree] = field(default_factory=dict)
    parents: dict[Controller, Path] = field(default_factory=dict)
    reasons: dict[Controller, str] = field(default_factory=dict)

    def create(
        self, box_id: BoxId, *, memory_bytes: int | None = None, cpus: float | None = None, pids: int | None = None
    ) -> BoxCgroup:
        """Make the cgroups for the limits given, leaving out controllers that are not usable; all of them or none."""
        wanted: dict[Controller, float | None] = {"memory": memory_bytes, "pids": pids, "cpu": cpus}
        values = {name: value for name, value in wanted.items() if value is not None and name in self.parents}
        box = self._box(box_id, tuple(values))
        with contextlib.ExitStack() as undo:
            for group in box.groups:
                try:
                    make(group, values)
                except OSError as error:
                    raise failed("make", error.filename or group.path, error) from error
                undo.callback(remove_directory, group.path)
            undo.pop_all()
        return box

    def adopt(self, box_id: BoxId) -> BoxCgroup | None:
        """The cgroups an earlier daemon made for a box, wherever in the trees that daemon lived; None without any."""
        box = self._box(box_id, tuple(self.parents))
        groups = tuple(group for group in box.groups if group.path.is_dir())
        return BoxCgroup(box_id=box_id, groups=groups) if groups else self.leftovers().get(box_id)

    def leftovers(self) -> dict[BoxId, BoxCgroup]:
        """Every box of this installation that has cgroups, in one walk over the trees."""
        found: dict[BoxId, dict[Path, Group]] = {}
        prefix = self._name(BoxId(""))
        for controller, tree in self.trees.items():
            for path in _named(tree.mount, prefix):
                groups = found.setdefault(BoxId(path.name.removeprefix(prefix)), {})
                before = groups[path].controllers if path in groups else ()
                names = (*before, controller) if tree.counts(controller, path) else before
                groups[path] = Group(version=tree.version, path=path, controllers=names)
        return {box_id: BoxCgroup(box_id=box_id, groups=tuple(groups.values())) for box_id, groups in found.items()}

    def describe(self, wanted: Limits, have: Collection[Controller] | None = None) -> dict[str, Enforcement]:
        """Who holds each limit of a box made here, or of one that these controllers count.

        A default counts as wanted where limits.py has one.
        """
        have = self.parents if have is None else have
        # RLIMIT_NPROC counts per box because each has a user namespace of its own: the kernel holds it either way.
        without = Enforcement.PER_PROCESS if wanted.memory_bytes else Enforcement.WATCHED
        return {
            "memory": Enforcement.KERNEL if "memory" in have else without,
            "cpus": Enforcement.KERNEL if wanted.cpus and "cpu" in have else Enforcement.NONE,
            "pids": Enforcement.KERNEL,
            "disk": Enforcement.WATCHED,
            "wall": Enforcement.WATCHED if wanted.wall_s else Enforcement.NONE,
        }

    def _box(self, box_id: BoxId, controllers: tuple[Controller, ...]) -> BoxCgroup:
        if not _ID.match(box_id):
            raise UserError(f"{box_id[:80]!r} is not a box id", code="bad-id")
        groups = {}
        for name in controllers:
            path = self.parents[name] / self._name(box_id)
            shared = tuple(other for other, parent in self.parents.items() if parent == self.parents[name])
            groups[path] = Group(version=self.trees[name].version, path=path, controllers=shared)
        return BoxCgroup(box_id=box_id, groups=tuple(groups.values()))

    def _name(self, box_id: BoxId) -> str:
        return f"paddock-{self.tag}-{box_id}"


def find(tag: str, proc_root: str = "/proc") -> Cgroups:
    """Try every controller. Forks, and on v2 moves this process to a leaf: call it once, before there are threads."""
    if not _TAG.match(tag):
        raise UserError(f"{tag[:80]!r} is not a tag", hint="use letters, digits, _ and .", code="bad-tag")
    trees: dict[Controller, Tree] = {}
    parents: dict[Controller, Path] = {}
    reasons: dict[Controller, str] = {}
    for name in CONTROLLERS:
        try:
            trees[name] = cgroup_tree.locate(name, proc_root)
            parents[name] = _parent(name, trees[name])
        except Unavailable as error:
            reasons[name] = error.message
        except (OSError, ValueError) as error:
            reasons[name] = f"the cgroup of this process cannot be read: {error}"
    found = Cgroups(tag=tag, trees=trees, parents=parents, reasons=reasons)
    for name in tuple(parents):
        if reason := _try(found, name):
            reasons[name] = reason
            del parents[name]
    return found


def _parent(name: Controller, tree: Tree) -> Path:
    if tree.version == 1:
        return tree.own
    parent, enabled = cgroup_tree.enter(tree, CONTROLLERS)
    if name not in enabled:
        raise Unavailable(f"the {name} controller cannot be enabled in {parent}")
    return parent


def _try(found: Cgroups, name: Controller) -> str:
    """Make, limit, attach and remove for real; the reason why not, or nothing. A probe cut short is a leftover."""
    probe = Cgroups(tag=f"{found.tag}-probe", trees=found.trees, parents={name: found.parents[name]})
    try:
        box = probe.create(BoxId(str(os.getpid())), memory_bytes=16 * MIB, cpus=0.1, pids=16)
        try:
            with _sleeper() as pid:
                box.attach(pid)
        finally:
            box.remove()
    except Unavailable as error:
        return error.message
    return ""


@contextlib.contextmanager
def _sleeper() -> Iterator[int]:
    """A process that waits for the block to end, or for us to die."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        yield pid
    finally:
        os.close(reader)
        os.close(writer)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored the kernel has reaped it
            os.waitpid(pid, 0)


def _named(top: Path, prefix: str) -> Iterator[Path]:
    """Cgroups with the prefix that are ours; someone else's with the same name is not."""
    for directory, children, _ in os.walk(top):
        named = [name for name in children if name.startswith(prefix)]
        children[:] = [name for name in children if name not in named]
        for path in (Path(directory, name) for name in named):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_uid == os.geteuid():
                    yield path
