"""A box as the config.json of an OCI bundle: what the runtime makes of a root that is mounted already."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.engines.container.root import ROOTFS
from paddock.engines.guest.accounts import ALONE
from paddock.engines.guest.standalone import LINE, OWNER
from paddock.engines.process.syscalls import ALLOWED, DENIED, PARTIAL

if TYPE_CHECKING:
    from paddock.engines.container.ids import Ids, Range
    from paddock.engines.process.syscalls import Rule

# Not network and ipc: the keeper's are sealed and have limits that new ones would not have.
_NAMESPACES: Final = ("pid", "uts", "mount", "user")
_OF_OWN_KERNEL: Final = ("ipc",)  # gVisor makes one for itself; what is in the box's is in its own memory
# What dpkg, apt and sudo need; none of them means anything outside of the box's own ids.
_CAPABILITIES: Final = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETPCAP"),
        *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
    )
)
# To give programs rights, and to let one that has them keep them when it is written to: real ones in a directory that
# the host has too, whose owner the box's root stands for.
_TO_GIVE: Final = ("CAP_SETFCAP", "CAP_FSETID")
_MASKED: Final = (
    *("acpi", "asound", "kcore", "kallsyms", "kmsg", "keys", "key-users", "latency_stats", "timer_list"),
    *("timer_stats", "sched_debug", "scsi", "kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo"),
    *("iomem", "ioports", "modules", "config.gz", "mtrr"),
)
_READONLY: Final = ("bus", "fs", "irq", "sys", "sysrq-trigger", "pressure", "driver")
_ARCHITECTURES: Final = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_ENOSYS: Final = 38
_DEVICE_NAMES: Final = 1024  # in memory that belongs to no process
_RLIMITS: Final = {
    resource.RLIMIT_CORE: "RLIMIT_CORE",
    resource.RLIMIT_NOFILE: "RLIMIT_NOFILE",
    resource.RLIMIT_FSIZE: "RLIMIT_FSIZE",
    resource.RLIMIT_MSGQUEUE: "RLIMIT_MSGQUEUE",
    resource.RLIMIT_SIGPENDING: "RLIMIT_SIGPENDING",
    resource.RLIMIT_RTPRIO: "RLIMIT_RTPRIO",
    resource.RLIMIT_NICE: "RLIMIT_NICE",
    resource.RLIMIT_DATA: "RLIMIT_DATA",
}

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKernel:
    """Of a box under gVisor."""

    place: str  # where the bundle lies
    network: str  # the namespace that its interface is in; empty: the keeper's, or none
    below_run: tuple[tuple[str, str], ...]  # what is mounted there, and whether `ro` or `rw`


def config(
    argv: tuple[str, ...],
    ids: Ids,
    rlimits: tuple[tuple[int, ...], ...],
    memory_bytes: int,
    *,
    set_id: bool,
    owner: tuple[int, int] = (0, 0),
    own: OwnKernel | None = None,
) -> str:
    """`argv` is init's; `set_id` says whether files may get rights that their programs then have; `owner` is the box's
    user, whom init is only where there is no other; `own` is what a kernel of the box's own has besides.
    """
    uids, gids = ids.inner(owner)
    first = owner if ids.count == 1 else (0, 0)
    namespaces: list[Json] = [{"type": name} for name in (*_NAMESPACES, *(_OF_OWN_KERNEL if own else ()))]
    if own and own.network:
        namespaces.append({"type": "network", "path": own.network})
    document: Json = {
        "ociVersion": "1.0.2",
        "hostname": "box",
        "root": {"path": ROOTFS, "readonly": False},
        "process": {
            **_process(argv, rlimits, (*_CAPABILITIES, *_TO_GIVE) if set_id else _CAPABILITIES),
            **_first(owner, first, _told(own, ids)),
        },
        "mounts": [*_mounts(memory_bytes), *(_of_own_kernel(own, first) if own else ())],
        "linux": {
            "namespaces": namespaces,
            "uidMappings": list(map(_mapping, uids)),
            "gidMappings": list(map(_mapping, gids)),
            "maskedPaths": [f"/proc/{name}" for name in _MASKED],
            "readonlyPaths": [f"/proc/{name}" for name in _READONLY],
            **({} if own else {"seccomp": _seccomp()}),
        },
    }
    return json.dumps(document)


def _process(argv: tuple[str, ...], rlimits: tuple[tuple[int, ...], ...], capabilities: tuple[str, ...]) -> Json:
    return {
        "terminal": False,
        "args": list(argv),
        "cwd": "/",
        "capabilities": {kind: list(capabilities) for kind in ("bounding", "effective", "permitted")},
        "rlimits": [{"type": _RLIMITS[number], "soft": soft, "hard": hard} for number, soft, hard in rlimits],
        "noNewPrivileges": False,  # sudo
    }


def _told(own: OwnKernel | None, ids: Ids) -> list[str]:
    """What init cannot see for itself in a kernel of its own."""
    return [] if own is None else [f"{LINE}=1", *([f"{ALONE}=1"] if ids.count == 1 else ())]


def _first(owner: tuple[int, int], own: tuple[int, int], told: list[str]) -> Json:
    """Who init is, and whose its files are."""
    return {
        "user": {"uid": own[0], "gid": own[1], "umask": 0o022},
        "env": ["PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=:/dev/null/", f"{OWNER}={owner[0]}:{owner[1]}", *told],
    }


def _of_own_kernel(own: OwnKernel, first: tuple[int, int]) -> list[Json]:
    """Its /run is in its own memory, with which it is saved; what lies below it comes from the root that we made."""
    size = (f"size={limits.RUN_BYTES}", f"uid={first[0]}", f"gid={first[1]}")
    mounts = [_mount("/run", "tmpfs", "nosuid", "nodev", "mode=755", *size)]
    for path, how in own.below_run:
        source = f"{own.place}/{ROOTFS}{path}"
        mounts.append({"destination": path, "type": "bind", "source": source, "options": ["rbind", how]})
    return mounts


def _mapping(one: Range) -> Json:
    inside, outside, size = one
    return {"containerID": inside, "hostID": outside, "size": size}


def _mounts(memory_bytes: int) -> list[Json]:
    shm = f"size={min(limits.SHM_BYTES, memory_bytes // 2)}"
    pts = f"max={limits.TERMINALS_PER_BOX}"
    return [
        _mount("/proc", "proc", "nosuid", "noexec", "nodev"),
        _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=64k", f"nr_inodes={_DEVICE_NAMES}"),
        _mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", pts),
        _mount("/dev/shm", "tmpfs", "nosuid", "nodev", "mode=1777", shm, f"nr_inodes={limits.TMPFS_ENTRIES}"),
    ]


def _mount(target: str, kind: str, *options: str) -> Json:
    return {"destination": target, "type": kind, "source": kind, "options": list(options)}


def _seccomp() -> Json:
    """The list of process boxes. What that refuses by bits of arguments the keeper refuses before: a call has one rule
    here, and there it has two filters.
    """
    plain: list[Json] = [
        {"names": list(ALLOWED), "action": "SCMP_ACT_ALLOW"},
        {"names": list(DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ]
    machine = _ARCHITECTURES.get(os.uname().machine)
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _ENOSYS,
        **({"architectures": [machine]} if machine else {}),
        "syscalls": [*plain, *map(_partial, PARTIAL)],
    }


def _partial(rule: Rule) -> Json:
    number, name, conditions = rule
    arguments = [
        {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        for index, mask, value in conditions
    ]
    if number:
        return {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": arguments}
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": arguments}
