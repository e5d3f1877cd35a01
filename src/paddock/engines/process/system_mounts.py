"""What every box has: the host's tools, devices, /proc, places of its own, its gateway's files, toolchains."""

from __future__ import annotations

import functools
import os
import stat
from typing import TYPE_CHECKING

from paddock import fs, limits
from paddock.engines.process.operations import CA_BUNDLE, RUN, MountOp, bind, home

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.engines.process import hostsockets
    from paddock.engines.process.operations import Ground

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


def system(ground: Ground) -> list[MountOp]:
    ops = [bind("/usr", "/usr", ground)]
    for name in _USR_MERGED:
        path = f"/{name}"
        if os.path.islink(path):
            ops.append(MountOp(op="symlink", target=path, to=os.readlink(path)))
        elif os.path.isdir(path):
            ops.append(bind(path, path, ground))
    ops.append(bind(ground.etc, "/etc", ground, extra=("noexec",)))
    ops += [MountOp(op="dir", target=path) for path in ("/var", "/sys", "/home", "/mnt", "/opt", "/srv")]
    ops.append(MountOp(op="symlink", target="/var/run", to="/run"))
    return ops


@functools.lru_cache(64)
def devices(memory_bytes: int) -> tuple[MountOp, ...]:
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
def proc() -> tuple[MountOp, ...]:
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


def private(ground: Ground) -> list[MountOp]:
    run = f"mode=755,size={limits.RUN_BYTES},nr_inodes={limits.TMPFS_ENTRIES}"
    return [
        MountOp(op="tmpfs", target="/run", options=run),
        MountOp(op="dir", target="/run/user", mode=0o1777),
        MountOp(op="dir", target="/run/lock", mode=0o1777),
        bind(ground.shims, RUN, ground),
        bind(f"{ground.storage}/tmp", "/tmp", ground, read_only=False, own=True),
        # A link to /tmp would do, but a workspace may lie below it, and no mount lands behind a link.
        bind(f"{ground.storage}/tmp", "/var/tmp", ground, read_only=False, own=True),
        home(ground),
    ]


def network(ground: Ground, *, over_etc: bool = True) -> list[MountOp]:
    """What the gateway gives a box: its refusals to read, and its authority over the host's own list of them."""
    net = f"{ground.storage}/net"
    places = [("denials.jsonl", f"{RUN}/denials.jsonl"), ("bundle.pem", CA_BUNDLE)]
    if over_etc:
        places += [("bundle.pem", f"/etc/{path}") for path in _plain_files(ground.etc, _BUNDLES)]
        places += [("cacerts", f"/etc/{path}") for path in _plain_files(ground.etc, _JAVA_STORES)]
    given = {name for name in dict(places) if os.path.isfile(f"{net}/{name}") and not os.path.islink(f"{net}/{name}")}
    return [
        bind(f"{net}/{name}", target, ground, own=True, extra=("noexec",)) for name, target in places if name in given
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


def tools(ground: Ground) -> list[MountOp]:
    """Of the agent's program; a copy of ours that all boxes of it share."""
    return [bind(mount.source, mount.target, ground) for mount in ground.tools]


def toolchains(ground: Ground, shown: Collection[str], sockets: hostsockets.Bound) -> list[MountOp]:
    """But what lies in a directory that is `shown`: a virtual environment inside the workspace is the workspace's.

    Nor what lies where tools do: it would cover them.
    """
    taken = (*shown, *(os.path.dirname(mount.target) for mount in ground.tools))

    def outside(path: str) -> bool:
        return not any(fs.is_beneath(path, target) for target in taken)

    trees = [tree for tree in ground.toolchains.trees if outside(tree)]
    covers = [path for path in ground.toolchains.covers if outside(path)]
    for tree in trees:  # under the name it is shown by, which may be a link's
        real = os.path.realpath(tree)
        covers += [tree + path[len(real) :] for path in sockets.listed(real)]
    return [
        *(bind(tree, tree, ground) for tree in trees),
        *(MountOp(op="cover", target=path, optional=True) for path in covers),
    ]
