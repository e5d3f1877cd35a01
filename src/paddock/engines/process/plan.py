"""The plan of a process box: every mount, limit and id as data, made on the host, printed or executed unchanged."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from paddock import limits
from paddock.engines.process import hostsockets
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import UserError

if TYPE_CHECKING:
    from paddock.model import BoxSpec

HOME = "/home/agent"
RUN = "/run/paddock"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
_PROC_READONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound", "acpi", "scsi", "driver")
_PROC_COVERED = (
    *("kcore", "kallsyms", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "kpageflags"),
    *("kpagecgroup", "slabinfo", "vmallocinfo", "iomem", "ioports", "modules", "config.gz", "latency_stats", "mtrr"),
)
_USR_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_NAMESPACES = ("mnt", "net", "pid", "ipc", "uts", "cgroup", "time")

MountKind = Literal["tmpfs", "proc", "devpts", "dir", "symlink", "bind", "device", "readonly", "cover"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOp:
    op: MountKind
    target: str
    source: str = ""
    to: str = ""
    options: str = ""
    attributes: tuple[str, ...] = ()
    identity: tuple[int, ...] = ()  # device and inode of the source, checked again when it is opened
    owner: tuple[int, ...] = ()  # a root caller's own trees: the disk owner that the box's user stands for
    mode: int | None = None
    optional: bool = False
    devices: bool = False
    noexec: bool = False

    def describe(self) -> str:
        words = [self.op, self.target]
        if self.source:
            words.append(f"from {self.source}")
        if self.to:
            words.append(f"-> {self.to}")
        words += [text for text in (",".join(self.attributes), self.options) if text]
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    mounts: tuple[MountOp, ...]
    uid: int
    gid: int
    hostname: str
    pids: int
    rlimits: tuple[tuple[int, ...], ...]
    namespace_limits: dict[str, str]
    writable: tuple[str, ...]  # what Landlock lets the box write, as a second layer under the mounts
    nice: int
    oom_score_adj: int

    def describe(self) -> tuple[str, ...]:
        return (
            "namespaces user mnt pid net ipc uts cgroup, then a nested user namespace that owns nothing",
            f"ids uid {self.uid} gid {self.gid}, capabilities none, no_new_privs, not dumpable",
            "network loopback only",
            *(op.describe() for op in self.mounts),
            *(f"sysctl {key} {value}" for key, value in self.namespace_limits.items()),
            *(f"rlimit {number} {soft} {hard}" for number, soft, hard in self.rlimits),
            f"rlimit processes {self.pids}",
            f"landlock writable {' '.join(self.writable)}",
            "seccomp allow-list, and a second filter for setuid bits, device nodes and terminal injection",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What of the host a plan stands on."""

    etc: str
    shims: str
    storage: str
    toolchains: Toolchains
    uid: int
    gid: int
    is_root: bool
    memory_bytes: int
    memory_by_kernel: bool


def make(spec: BoxSpec, ground: Ground) -> Plan:
    shown = _shown(spec)
    return Plan(
        mounts=(
            *_system(ground),
            *_devices(),
            *_proc(),
            *_private(ground),
            *_toolchains(spec, ground),
            *(_bind(source, target, ground, read_only=ro, own=True) for source, target, ro in shown),
            *_protected(shown),
        ),
        uid=ground.uid,
        gid=ground.gid,
        hostname="box",
        pids=spec.limits.pids or limits.PIDS_DEFAULT,
        rlimits=_rlimits(spec, ground),
        namespace_limits=_namespace_limits(ground.memory_bytes),
        writable=(HOME, "/tmp", "/run/user", "/dev/shm", *(target for _, target, ro in shown if not ro)),
        nice=limits.NICE,
        oom_score_adj=max(500, _own_oom_score()),
    )


def _shown(spec: BoxSpec) -> list[tuple[str, str, bool]]:
    """The user's own directories, outer ones first, so that none covers another."""
    rows = [(spec.workspace, spec.workspace, False)]
    rows += [(mount.source, mount.target, mount.read_only) for mount in spec.mounts]
    return sorted(rows, key=lambda row: row[1].count("/"))


def _system(ground: Ground) -> list[MountOp]:
    ops = [_bind("/usr", "/usr", ground)]
    for name in _USR_MERGED:
        path = f"/{name}"
        if os.path.islink(path):
            ops.append(MountOp(op="symlink", target=path, to=os.readlink(path)))
        elif os.path.isdir(path):
            ops.append(_bind(path, path, ground))
    ops.append(_bind(ground.etc, "/etc", ground, extra=("noexec",)))
    ops += [MountOp(op="dir", target=path) for path in ("/var", "/sys", "/home", "/mnt", "/opt", "/srv")]
    ops.append(MountOp(op="symlink", target="/var/run", to="/run"))
    return ops


def _devices() -> list[MountOp]:
    shm = f"mode=1777,size={limits.SHM_BYTES}"
    return [
        MountOp(op="tmpfs", target="/dev", options="mode=755,size=64k", devices=True, noexec=True),
        *(
            MountOp(op="device", target=f"/dev/{name}", source=f"/dev/{name}", attributes=("nosuid", "noexec"))
            for name in _DEVICES
        ),
        MountOp(op="devpts", target="/dev/pts", options="newinstance,ptmxmode=0666,mode=0620"),
        MountOp(op="tmpfs", target="/dev/shm", options=shm, noexec=False),
        *(MountOp(op="symlink", target=f"/dev/{name}", to=to) for name, to in _LINKS),
    ]


def _proc() -> list[MountOp]:
    return [
        MountOp(op="proc", target="/proc"),
        *(MountOp(op="readonly", target=f"/proc/{name}", optional=True) for name in _PROC_READONLY),
        *(MountOp(op="cover", target=f"/proc/{name}", optional=True) for name in _PROC_COVERED),
    ]


def _private(ground: Ground) -> list[MountOp]:
    run = f"mode=755,size={limits.RUN_BYTES}"
    return [
        MountOp(op="tmpfs", target="/run", options=run),
        MountOp(op="dir", target="/run/user", mode=0o1777),
        MountOp(op="dir", target="/run/lock", mode=0o1777),
        _bind(ground.shims, RUN, ground),
        _bind(f"{ground.storage}/tmp", "/tmp", ground, read_only=False, own=True),
        # A link to /tmp would do, but a workspace may lie below it, and no mount lands behind a link.
        _bind(f"{ground.storage}/tmp", "/var/tmp", ground, read_only=False, own=True),
        _bind(f"{ground.storage}/home", HOME, ground, read_only=False, own=True),
    ]


def _toolchains(spec: BoxSpec, ground: Ground) -> list[MountOp]:
    def outside(path: str) -> bool:  # a virtual environment inside the workspace is the workspace's own
        return not any(_beneath(path, target) for _, target, _ in _shown(spec))

    trees = [tree for tree in ground.toolchains.trees if outside(tree)]
    covers = [path for path in ground.toolchains.covers if outside(path)]
    return [
        *(_bind(tree, tree, ground) for tree in trees),
        *(MountOp(op="cover", target=path, optional=True) for path in covers),
    ]


def _protected(shown: list[tuple[str, str, bool]]) -> list[MountOp]:
    ops = []
    for source, target, read_only in shown:
        for path in hostsockets.beneath(source):
            ops.append(MountOp(op="cover", target=target + path[len(source) :], optional=True))
        git = f"{source}/.git"
        if read_only or not os.path.lexists(git):
            continue
        if os.path.islink(git):
            hint = "move the repository's .git into the workspace, or mount the directory read-only"
            raise UserError(f"{git} is a symbolic link, which cannot be protected", hint=hint, code="git-link")
        ops.append(MountOp(op="readonly", target=f"{target}/.git"))
    return ops


def _bind(
    source: str,
    target: str,
    ground: Ground,
    *,
    read_only: bool = True,
    own: bool = False,
    extra: tuple[str, ...] = (),
) -> MountOp:
    found = os.stat(source)
    owner = (found.st_uid, found.st_gid) if own and ground.is_root else ()
    return MountOp(
        op="bind",
        target=target,
        source=source,
        attributes=(*(("ro",) if read_only else ()), "nosuid", "nodev", *extra),
        identity=(found.st_dev, found.st_ino),
        owner=owner,
    )


def _rlimits(spec: BoxSpec, ground: Ground) -> tuple[tuple[int, ...], ...]:
    files = min(limits.OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    disk = spec.limits.disk_bytes or limits.DISK_BYTES_DEFAULT
    rows = [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, files, files),
        (resource.RLIMIT_FSIZE, disk, disk),
        (resource.RLIMIT_MSGQUEUE, 819200, 819200) if hasattr(resource, "RLIMIT_MSGQUEUE") else None,
    ]
    if not ground.memory_by_kernel:
        # Private writable memory of one process; unlike RLIMIT_AS it leaves reserved address space alone.
        rows.append((resource.RLIMIT_DATA, ground.memory_bytes, ground.memory_bytes))
    return tuple(_within(row) for row in rows if row)


def _within(row: tuple[int, int, int]) -> tuple[int, int, int]:
    """Never above the caller's own hard limit, which cannot be raised."""
    number, soft, hard = row
    ceiling = resource.getrlimit(number)[1]
    if ceiling == resource.RLIM_INFINITY:
        return row
    return number, min(soft, ceiling), min(hard, ceiling)


def _namespace_limits(memory_bytes: int) -> dict[str, str]:
    pages = max(1, memory_bytes // 4 // 4096)
    return {
        "user/max_user_namespaces": "1",  # the nested one
        **{f"user/max_{name}_namespaces": "0" for name in _NAMESPACES},
        "user/max_inotify_instances": str(limits.INOTIFY_INSTANCES),
        "user/max_inotify_watches": str(limits.INOTIFY_WATCHES),
        "kernel/shmall": str(pages),
    }


def _own_oom_score() -> int:
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        return int(file.read())


def _beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
