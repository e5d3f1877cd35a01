"""The plan of a process box: every mount, limit and id as data, made on the host, printed or executed unchanged."""

from __future__ import annotations

import errno
import functools
import json
import os
import resource
import stat
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from paddock import codec, fs, guard, limits
from paddock.engines.process import hostsockets, nft
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import Unavailable, UserError
from paddock.model import Mount, WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.model import BoxSpec

HOME = "/home/agent"
RUN = "/run/paddock"
CA_BUNDLE = f"{RUN}/ca-bundle.pem"
STORED = ("/tmp/", "/var/tmp/", f"{HOME}/")  # what of the box's tree lies in its storage
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
_PROC_READONLY = ("sys", "pressure", "sysrq-trigger", "irq", "bus", "fs", "asound", "acpi", "scsi", "driver")
_PROC_COVERED = (
    *("kcore", "kallsyms", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "kpageflags"),
    *("kpagecgroup", "slabinfo", "vmallocinfo", "iomem", "ioports", "modules", "config.gz", "latency_stats", "mtrr"),
)
# Where programs look for the authorities they trust, below /etc: Debian, Arch, Fedora, SUSE, Alpine; and Java's own.
_BUNDLES = (
    *("ssl/certs/ca-certificates.crt", "ca-certificates/extracted/tls-ca-bundle.pem", "pki/tls/certs/ca-bundle.crt"),
    *("pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "ssl/ca-bundle.pem", "ssl/cert.pem"),
)
_JAVA_STORES = ("ssl/certs/java/cacerts", "pki/ca-trust/extracted/java/cacerts")
_USR_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_NAMESPACES = ("mnt", "net", "pid", "ipc", "uts", "cgroup", "time")

MountKind = Literal[
    "tmpfs", "proc", "devpts", "dir", "symlink", "bind", "overlay", "device", "readonly", "pin", "cover"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOp:
    op: MountKind
    target: str
    source: str = ""
    layers: str = ""  # of an overlay over the source: the directory of its `upper` and `work`
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
        if self.layers:
            words.append(f"changes to {self.layers}/upper")
        if self.to:
            words.append(f"-> {self.to}")
        words += [text for text in (",".join(self.attributes), self.options) if text]
        return " ".join(words)


@functools.lru_cache(1024)
def _encoded(op: MountOp) -> str:
    """Most operations are the same in every box. What is not asked for is not said, but for what would be a right."""
    wire = codec.to_wire(op)
    assert isinstance(wire, dict)
    return json.dumps({key: value for key, value in wire.items() if value or key == "noexec"})


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
    sealed: bool = False  # a door to the gateway comes with the plan, after the trees
    localhost_ports: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """JSON, as confine.py reads it."""
        rest = json.dumps(codec.to_wire(replace(self, mounts=())))
        mounts = ", ".join(map(_encoded, self.mounts))
        return rest.replace('"mounts": []', f'"mounts": [{mounts}]', 1).encode()

    def describe(self) -> tuple[str, ...]:
        return (
            "namespaces user mnt pid net ipc uts cgroup, then a nested user namespace that owns nothing",
            f"ids uid {self.uid} gid {self.gid}, capabilities none, no_new_privs, not dumpable",
            *self._describe_network(),
            *(op.describe() for op in self.mounts),
            *(f"sysctl {key} {value}" for key, value in self.namespace_limits.items()),
            *(f"rlimit {number} {soft} {hard}" for number, soft, hard in self.rlimits),
            f"rlimit processes {self.pids}",
            f"landlock writable {' '.join(self.writable)}",
            "seccomp allow-list, and a second filter for setuid bits, device nodes and terminal injection",
        )

    def _describe_network(self) -> list[str]:
        if not self.sealed:
            return ["network loopback only"]
        ports = " ".join(map(str, self.localhost_ports)) or "none"
        return [
            f"network sealed: TCP and names lead to the gateway, localhost ports that do: {ports}",
            *(f"nft {line}" for line in nft.readable()),
        ]


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
    sealed: bool = False
    localhost_ports: tuple[int, ...] = ()
    view: tuple[Mount, ...] = ()  # what the workspace needs besides itself: the box's own gitdir, what is read-only


def make(spec: BoxSpec, ground: Ground) -> Plan:
    shown = _shown(spec, ground)
    private = spec.mode is not WorkspaceMode.LIVE
    live = [row for row in shown if not (private and row[1] == spec.workspace)]  # what the host has too
    sockets = hostsockets.Bound(ours=f"{os.path.dirname(ground.storage)}/")
    return Plan(
        mounts=(
            *_system(ground),
            *_devices(ground.memory_bytes),
            *_proc(),
            *_private(ground),
            *_network(ground),
            *_toolchains(spec, ground, sockets),
            *_user_directories(spec, shown, ground),
            *_hidden(spec, live, ground),
            *_protected(live, sockets, {mount.target for mount in ground.view}),
            *_masked(spec),
        ),
        uid=ground.uid,
        gid=ground.gid,
        hostname="box",
        pids=within(resource.RLIMIT_NPROC, spec.limits.pids or limits.PIDS_DEFAULT),
        rlimits=_rlimits(spec, ground),
        namespace_limits=_namespace_limits(ground.memory_bytes, sealed=ground.sealed),
        writable=(
            *(HOME, "/tmp", "/run/user", "/run/lock", "/dev/shm"),
            *(target for _, target, ro in shown if not ro),
            *(mount.target for mount in ground.view if not mount.read_only and mount.source != mount.target),
        ),
        nice=limits.NICE,
        oom_score_adj=max(500, _own_oom_score()),
        sealed=ground.sealed,
        localhost_ports=ground.localhost_ports,
    )


def _shown(spec: BoxSpec, ground: Ground) -> list[tuple[str, str, bool]]:
    """The user's own directories, outer ones first, so that none covers another."""
    rows = [(_workspace(spec, ground), spec.workspace, False)]
    rows += [(mount.source, mount.target, mount.read_only) for mount in spec.mounts]
    return sorted(rows, key=lambda row: row[1].count("/"))


def _workspace(spec: BoxSpec, ground: Ground) -> str:
    if spec.mode is not WorkspaceMode.CLONE:
        return spec.workspace
    clone = next((mount.source for mount in ground.view if mount.target == spec.workspace), "")
    if not clone:
        raise Unavailable(f"the box {spec.name!r} has lost its clone", hint="recreate the box", code="no-clone")
    return clone


def _user_directories(spec: BoxSpec, shown: list[tuple[str, str, bool]], ground: Ground) -> list[MountOp]:
    """The user's directories and what lies in or over them, outer ones first."""
    ops = []
    for source, target, read_only in shown:
        if target == spec.workspace and spec.mode is WorkspaceMode.REVIEW:
            ops.append(_overlay(source, target, ground))
        else:
            ops.append(_bind(source, target, ground, read_only=read_only, own=True))
    ops += [_viewed(mount, ground) for mount in ground.view if mount.target != spec.workspace]
    return sorted(ops, key=lambda op: op.target.count("/"))


def _viewed(mount: Mount, ground: Ground) -> MountOp:
    if mount.source == mount.target:  # it is there already, with the directory around it: no tree to open
        if mount.read_only:
            return MountOp(op="readonly", target=mount.target)
        closed = [other.target for other in ground.view if other.read_only]
        if not any(_beneath(mount.target, place) for place in closed):
            return MountOp(op="pin", target=mount.target)
    return _bind(mount.source, mount.target, ground, read_only=mount.read_only, own=True)


def _overlay(source: str, target: str, ground: Ground) -> MountOp:
    """The workspace below, a layer of the box's own above: the kernel shows them as one and writes to the upper."""
    _refuse_repository(source)
    for point in guard.mounts_inside(source):
        hint = "leave review mode out, or give a directory without mounts; `umount` it if it is not needed"
        raise UserError(f"{point} is mounted inside the workspace, and a review shows one file system", hint=hint)
    return replace(
        _bind(source, target, ground, read_only=False, own=True), op="overlay", layers=f"{ground.storage}/review"
    )


def _masked(spec: BoxSpec) -> list[MountOp]:
    """Empty and read-only; and no directory on the way can be moved, or the next start would not find what to hide."""
    ops = []
    for path in spec.masks:
        *way, last = _pinned(spec.workspace, spec.workspace, f"{spec.workspace}/{path}")
        ops += [replace(op, optional=True) for op in way]
        ops.append(MountOp(op="cover", target=last.target, optional=True))
    return list(dict.fromkeys(ops))


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


@functools.lru_cache(64)
def _devices(memory_bytes: int) -> tuple[MountOp, ...]:
    # Where no cgroup counts it, only the size of the mount holds what lies there.
    shm = f"mode=1777,size={min(limits.SHM_BYTES, memory_bytes // 2)},nr_inodes={limits.TMPFS_ENTRIES}"
    pts = f"newinstance,ptmxmode=0666,mode=0620,max={limits.TERMINALS_PER_BOX}"
    return (
        MountOp(op="tmpfs", target="/dev", options="mode=755,size=64k", devices=True, noexec=True),
        *(
            MountOp(op="device", target=f"/dev/{name}", source=f"/dev/{name}", attributes=("nosuid", "noexec"))
            for name in _DEVICES
        ),
        MountOp(op="devpts", target="/dev/pts", options=pts),
        MountOp(op="tmpfs", target="/dev/shm", options=shm, noexec=False),
        *(MountOp(op="symlink", target=f"/dev/{name}", to=to) for name, to in _LINKS),
    )


@functools.cache
def _proc() -> tuple[MountOp, ...]:
    """/proc, and over it what this kernel would show, or let be written, to one who is not root."""
    covered = [name for name in _PROC_COVERED if _mode(f"/proc/{name}") & stat.S_IROTH]
    return (
        MountOp(op="proc", target="/proc"),
        *(MountOp(op="readonly", target=f"/proc/{name}") for name in _PROC_READONLY if _mode(f"/proc/{name}")),
        *(MountOp(op="cover", target=f"/proc/{name}") for name in covered),
    )


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def _private(ground: Ground) -> list[MountOp]:
    run = f"mode=755,size={limits.RUN_BYTES},nr_inodes={limits.TMPFS_ENTRIES}"
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


def _network(ground: Ground) -> list[MountOp]:
    """What the gateway gives a box: its refusals to read, and its authority over the host's own list of them."""
    net = f"{ground.storage}/net"
    places = [("denials.jsonl", f"{RUN}/denials.jsonl"), ("bundle.pem", CA_BUNDLE)]
    places += [("bundle.pem", f"/etc/{path}") for path in _plain_files(ground.etc, _BUNDLES)]
    places += [("cacerts", f"/etc/{path}") for path in _plain_files(ground.etc, _JAVA_STORES)]
    given = {name for name in dict(places) if os.path.isfile(f"{net}/{name}") and not os.path.islink(f"{net}/{name}")}
    return [
        _bind(f"{net}/{name}", target, ground, own=True, extra=("noexec",)) for name, target in places if name in given
    ]


@functools.lru_cache(64)
def _plain_files(etc: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the paths that this view of /etc has as files, not as links to another of them."""
    real = os.path.realpath(etc)
    return tuple(
        path
        for path in paths
        if os.path.isfile(f"{real}/{path}") and os.path.realpath(f"{real}/{path}") == f"{real}/{path}"
    )


def _toolchains(spec: BoxSpec, ground: Ground, sockets: hostsockets.Bound) -> list[MountOp]:
    def outside(path: str) -> bool:  # a virtual environment inside the workspace is the workspace's own
        return not any(_beneath(path, target) for _, target, _ in _shown(spec, ground))

    trees = [tree for tree in ground.toolchains.trees if outside(tree)]
    covers = [path for path in ground.toolchains.covers if outside(path)]
    for tree in trees:  # under the name it is shown by, which may be a link's
        real = os.path.realpath(tree)
        covers += [tree + path[len(real) :] for path in sockets.listed(real)]
    return [
        *(_bind(tree, tree, ground) for tree in trees),
        *(MountOp(op="cover", target=path, optional=True) for path in covers),
    ]


def _hidden(spec: BoxSpec, shown: list[tuple[str, str, bool]], ground: Ground) -> list[MountOp]:
    """What is mounted inside the user's directories and is not for a box: the /proc of a chroot, or ~/.ssh."""
    state = os.path.dirname(os.path.dirname(ground.storage))
    ops = []
    for source, target, _ in shown:
        for point in guard.secret_mounts(source, home=spec.caller_home, state_dirs=(state,)):
            ops.append(MountOp(op="cover", target=target + point[len(source) :], optional=True))
    return ops


def _protected(
    shown: list[tuple[str, str, bool]], sockets: hostsockets.Bound, replaced: Collection[str]
) -> list[MountOp]:
    ops: list[MountOp] = []
    for source, target, read_only in shown:
        for path in sockets.beneath(source):
            ops.append(MountOp(op="cover", target=target + path[len(source) :], optional=True))
        if not read_only:
            _refuse_repository(source)
            repositories = [row[0] for row in shown if _beneath(row[0], source)]  # under a second name, perhaps
            places = [f"{place}/.git" for place in repositories if _has_git(place)]
            places = [place for place in places if target + place[len(source) :] not in replaced]
            for place in [*places, *_own_program(source)]:
                ops += _pinned(source, target, place)
    return list(dict.fromkeys(ops))


def _pinned(source: str, target: str, place: str) -> list[MountOp]:
    """`place` read-only, and every directory on the way a mount point: otherwise one of them could be renamed away."""
    names = place[len(source) :].strip("/").split("/")
    steps = ["/".join((target, *names[:depth])) for depth in range(1, len(names) + 1)]
    return [*(MountOp(op="pin", target=step) for step in steps[:-1]), MountOp(op="readonly", target=steps[-1])]


def _own_program(source: str) -> list[str]:
    """Of our own program what the box could change: the host runs it next time, outside every box."""
    clone = [f"{source}/src", f"{source}/paddock"] if os.path.isfile(f"{source}/src/paddock/__main__.py") else []
    places = [place for place in dict.fromkeys([*_running(), *clone]) if os.path.lexists(place)]
    for place in places:
        if _beneath(source, place):
            hint = "give another directory, or mount it read-only"
            raise UserError(f"{source} is part of paddock's own program", hint=hint, code="own-program")
    return [place for place in places if _beneath(place, source)]


@functools.cache
def _running() -> tuple[str, ...]:
    """Where the code of this process lies: its directory on sys.path, a clone's script, its virtual environment."""
    code = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
    script = [os.path.join(os.path.dirname(code), "paddock")] if os.path.basename(code) == "src" else []
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    environment = [os.path.realpath(prefix)] if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else []
    return (code, *script, *environment)


def _has_git(directory: str) -> bool:
    git = f"{directory}/.git"
    if os.path.islink(git):
        hint = "move the repository's .git into the workspace, or mount the directory read-only"
        raise UserError(f"{git} is a symbolic link, which cannot be protected", hint=hint, code="git-link")
    return os.path.lexists(git)


def _refuse_repository(directory: str) -> None:
    """Hooks and configuration lie in it as plain files, and the host's git would run what a box writes there."""
    inside = ".git" in directory.split("/")
    if inside or all(os.path.lexists(f"{directory}/{name}") for name in ("HEAD", "config", "objects", "refs")):
        hint = "give the directory of its working tree, or mount it read-only"
        raise UserError(f"{directory} is git's own directory", hint=hint, code="git-directory")


def _bind(
    source: str,
    target: str,
    ground: Ground,
    *,
    read_only: bool = True,
    own: bool = False,
    extra: tuple[str, ...] = (),
) -> MountOp:
    found = _stat_without_links(source) if own else os.stat(source)
    owner = (found.st_uid, found.st_gid) if own and ground.is_root else ()
    return MountOp(
        op="bind",
        target=target,
        source=source,
        attributes=(*(("ro",) if read_only else ()), "nosuid", "nodev", *extra),
        identity=(found.st_dev, found.st_ino),
        owner=owner,
    )


def _stat_without_links(path: str) -> os.stat_result:
    """Of a path that was resolved and approved: if any part of it is a link by now, somebody swapped it."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = fs.open_beneath(top, path.lstrip("/"), os.O_PATH)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT}:
            raise
        hint = "make sure that no other box can write to its parent directories"
        raise UserError(f"{path} was replaced: {error.strerror}", hint=hint, code="replaced") from error
    finally:
        os.close(top)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _rlimits(spec: BoxSpec, ground: Ground) -> tuple[tuple[int, ...], ...]:
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.OPEN_FILES,
        resource.RLIMIT_FSIZE: spec.limits.disk_bytes or limits.DISK_BYTES_DEFAULT,
        resource.RLIMIT_MSGQUEUE: 819200,
        resource.RLIMIT_SIGPENDING: limits.SIGNALS_PER_BOX,
        resource.RLIMIT_RTPRIO: 0,  # desktops give some users real time, with which a box could stop the machine
        resource.RLIMIT_NICE: 0,
    }
    if spec.limits.memory_bytes and not ground.memory_by_kernel:
        # Private writable memory of one process, used or not. Only where a limit was asked for: sanitizers and some
        # runtimes take terabytes of it to use a little, and the watch counts what is used.
        values[resource.RLIMIT_DATA] = spec.limits.memory_bytes
    return tuple((number, *[within(number, value)] * 2) for number, value in values.items())


def within(number: int, value: int) -> int:
    """Never above the caller's own hard limit, which cannot be raised."""
    ceiling = resource.getrlimit(number)[1]
    return value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)


def _namespace_limits(memory_bytes: int, *, sealed: bool) -> dict[str, str]:
    pages = max(1, memory_bytes // 4 // 4096)
    return {
        "user/max_user_namespaces": "1",  # the nested one
        **{f"user/max_{name}_namespaces": "0" for name in _NAMESPACES},
        "user/max_inotify_instances": str(limits.INOTIFY_INSTANCES),
        "user/max_inotify_watches": str(limits.INOTIFY_WATCHES),
        "kernel/shmall": str(pages),
        # Kernel memory that belongs to no process: 1 MiB of semaphores and 2 MiB of messages instead of terabytes.
        "kernel/sem": "250 16384 100 128",
        "kernel/msgmni": "128",
        **({"net/ipv4/ip_unprivileged_port_start": "0"} if sealed else {}),  # all ports are the box's own
    }


def _own_oom_score() -> int:
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        return int(file.read())


def _beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
