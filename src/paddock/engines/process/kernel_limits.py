"""The limits that the kernel holds for each process of a box, and for its namespaces."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from paddock import limits

if TYPE_CHECKING:
    from paddock.model import Limits

_NAMESPACES = ("mnt", "net", "pid", "ipc", "uts", "cgroup", "time")


def pids(wanted: Limits, *, least: int = 0) -> int:
    return _within(resource.RLIMIT_NPROC, max(wanted.pids or limits.PIDS_DEFAULT, least))


def rlimits(wanted: Limits, *, memory_by_kernel: bool) -> tuple[tuple[int, ...], ...]:
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.OPEN_FILES,
        resource.RLIMIT_FSIZE: wanted.disk_bytes or limits.DISK_BYTES_DEFAULT,
        resource.RLIMIT_MSGQUEUE: 819200,
        resource.RLIMIT_SIGPENDING: limits.SIGNALS_PER_BOX,
        resource.RLIMIT_RTPRIO: 0,  # desktops give some users real time, with which a box could stop the machine
        resource.RLIMIT_NICE: 0,
    }
    if wanted.memory_bytes and not memory_by_kernel:
        # Private writable memory of one process, used or not. Only where a limit was asked for: sanitizers and some
        # runtimes take terabytes of it to use a little, and the watch counts what is used.
        values[resource.RLIMIT_DATA] = wanted.memory_bytes
    return tuple((number, *[_within(number, value)] * 2) for number, value in values.items())


def _within(number: int, value: int) -> int:
    """Never above the caller's own hard limit, which cannot be raised."""
    ceiling = resource.getrlimit(number)[1]
    return value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)


def namespace_limits(memory_bytes: int, *, sealed: bool) -> dict[str, str]:
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


def oom_score_adj() -> int:
    """The box goes first when memory runs out. Never below our own score: only root may go there."""
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        return max(500, int(file.read()))
