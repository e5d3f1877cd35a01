"""A freshly cloned process becomes a box: mounts, ids, limits, Landlock, seccomp. Runs once, in pid 1 of the box.

Theory. The process sits in user namespace A, which owns every other namespace of the box and in which it has all
capabilities. It builds the box's world with them, then enters a nested user namespace B that owns nothing, and drops
everything. Whatever happens later in B, even with all of B's capabilities, cannot touch what A owns: mounts, the
network, the host name. Kernel uid 0 is in neither map.

The order matters; each step depends on those before it (docs/process-engine.md lists what breaks otherwise).
"""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import time

from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import kernel, landlock, mounting, seal, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.engines.guest.door import Seal

    Plan = dict[str, Any]  # one of plan.Plan, as JSON

PLAN_BYTES = 1 << 20


class Kit:
    """What the launcher prepares once for all boxes."""

    __slots__ = ("filters", "gid", "is_root", "landlock_abi", "uid")

    def __init__(self, filters: tuple[bytes, bytes, bytes], landlock_abi: int) -> None:
        self.filters = filters
        self.landlock_abi = landlock_abi
        self.uid, self.gid = os.getuid(), os.getgid()  # a box sees only unmapped ids until it has its maps
        self.is_root = self.uid == 0


def write_file(path: str, text: str, *, at: int | None = None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=at)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def enter(channel: socket.socket, listener: int, kit: Kit) -> tuple[Seal | None, list[int]]:
    """Read the plan from `channel`, become the box, report on `channel` and close it.

    Returns the gateway's sockets, if the box has a gateway, and the handles it keeps for the host: of its overlays and,
    last, of its mount namespace. They are of use only to the owner of A.
    """
    marks: list[tuple[str, float]] = []
    step = "plan"
    try:
        data, trees, flags = receive_fds(channel, PLAN_BYTES, kernel.DESCRIPTORS_MAX)
        if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            os._exit(0)  # the daemon went away or changed its mind
        plan = json.loads(data)
        for step, action in _STEPS:
            action(plan, kit, trees)
            marks.append((step, time.perf_counter()))
        step = "confine"
        sealed: Seal | None = plan.get("seal")
        close_descriptors({channel.fileno(), listener, *plan["handles"], *(sealed.descriptors() if sealed else ())})
        if kit.landlock_abi:  # a second layer under the mounts; doctor says when a kernel has none
            landlock.restrict(plan["writable"], kit.landlock_abi)
        seccomp.install(kit.filters[:2])
        marks.append((step, time.perf_counter()))
        gc.collect()
        gc.freeze()
        socket.send_fds(channel, [json.dumps({"ok": True, "marks": marks}).encode()], plan["handles"])
        if channel.recv(16) != b"go":
            os._exit(0)  # the daemon went away before we were in our cgroup
    except BaseException as error:  # noqa: BLE001  whatever it is, the box must not come up
        report(channel, step, error)
        os._exit(71)
    channel.close()
    return sealed, plan["handles"]


def report(channel: socket.socket, step: str, error: BaseException) -> None:
    number = error.errno if isinstance(error, OSError) else None
    try:
        channel.send(json.dumps({"ok": False, "step": step, "error": str(error), "errno": number}).encode())
    except OSError:
        pass


def map_ids(plan: Plan, kit: Kit, _trees: list[int]) -> None:
    write_file("/proc/self/oom_score_adj", str(plan["oom_score_adj"]))
    if kit.is_root:  # the launcher wrote the maps
        kernel.become(0, 0)
        kernel.set_dumpable(dumpable=True)  # changing ids made us non-dumpable, and /proc/self/* belong to kernel uid 0
        return
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"0 {kit.uid} 1")
    write_file("/proc/self/gid_map", f"0 {kit.gid} 1")


def seal_network(plan: Plan, _kit: Kit, trees: list[int]) -> None:
    seal.close_off()
    if plan["sealed"]:
        plan["seal"] = seal.make(trees.pop(), plan["localhost_ports"])  # the door came after the trees
        plan["check"] = seal.Check()


def _build_root(plan: Plan, _kit: Kit, trees: list[int]) -> None:
    plan["settings"], plan["handles"] = mounting.build(plan["mounts"], trees)


def limit_namespaces(plan: Plan, _kit: Kit, _trees: list[int]) -> None:
    # After the last mount: detached trees count against max_mnt_namespaces. In the box's own /proc: in the host's, the
    # kernel would search the names of all boxes, 10 us for each that runs (`./bench --only boxes1000`).
    for name, value in plan["namespace_limits"].items():
        try:
            write_file(name, value, at=plan["settings"])
        except FileNotFoundError:
            continue
        except PermissionError:
            if name.startswith("user/"):  # older kernels keep the others to real root
                raise


def _pivot(plan: Plan, _kit: Kit, _trees: list[int]) -> None:
    mounting.pivot()
    plan["handles"].append(os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    kernel.set_hostname(plan["hostname"])


def _enter_inner_namespace(plan: Plan, _kit: Kit, _trees: list[int]) -> None:
    # Set just before B: the count is then kept per box, even for boxes of one uid.
    resource.setrlimit(resource.RLIMIT_NPROC, (plan["pids"], plan["pids"]))
    kernel.unshare(kernel.CLONE_NEWUSER)  # needs CAP_SETFCAP in A, so nothing is dropped before
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"{plan['uid']} 0 1")
    write_file("/proc/self/gid_map", f"{plan['gid']} 0 1")


def _drop(plan: Plan, _kit: Kit, _trees: list[int]) -> None:
    kernel.drop_all_capabilities()
    kernel.set_no_new_privs()
    kernel.set_dumpable(dumpable=False)  # commands share init's uid: they may neither trace it nor read its memory
    for number, soft, hard in plan["rlimits"]:
        resource.setrlimit(number, (soft, hard))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(own, plan["nice"]))  # who began lower may not rise, and would not start
    os.umask(0o022)


def check_seal(plan: Plan, _kit: Kit, _trees: list[int]) -> None:
    if "check" in plan:
        plan.pop("check").finish()


def close_descriptors(kept: set[int]) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    kernel.close_all_but({0, 1, 2, *kept})


_STEPS = (
    ("ids", map_ids),
    ("network", seal_network),
    ("mounts", _build_root),
    ("namespaces", limit_namespaces),
    ("pivot", _pivot),
    ("inner", _enter_inner_namespace),
    ("drop", _drop),
    ("seal", check_seal),
)
