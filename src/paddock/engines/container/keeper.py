"""The keeper: what a clone of the launcher becomes for a container box, and the box's first process to the host.

Theory. It sits in user namespace A, which owns the box's network and the mounts that its root is made of. It seals the
one, builds the other, and has an OCI runtime start init in namespaces nested in A, on that root. Then it drops what it
has and stays: it holds the seal's sockets, which no runtime can hand out, and a box ends with it, since it is the first
process of a pid namespace around init's. No process of the box can see it, and its socket is the host's alone.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import signal
import socket

from paddock.engines.container import link, root, saver
from paddock.engines.container.line import Line
from paddock.engines.guest.init import Init
from paddock.engines.guest.wire import Refused, receive_fds
from paddock.engines.process import confine, kernel, mounting, seal, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from paddock.engines.guest.door import Seal
    from paddock.engines.guest.wire import Connection, Request

    Plan = dict[str, Any]  # one of plan.Plan, as JSON

PLAN_BYTES = confine.PLAN_BYTES
_CGROUPS = "/sys/fs/cgroup"
_LOG = "runtime.log"
_VERBS = ("ping", "seal", "handles", "save")


def serve(channel: socket.socket, listener: int, own: int, kit: confine.Kit) -> None:
    """Read the plan from `channel`, start the box, report on `channel`, and keep the box until it ends."""
    step = "plan"
    try:
        data, trees, flags = receive_fds(channel, PLAN_BYTES, kernel.DESCRIPTORS_MAX)
        if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            os._exit(0)  # the daemon went away or changed its mind
        plan = json.loads(data)
        for name, action in _STEPS:
            step = name
            action(plan, kit, trees)
        step = "cgroup"
        channel.send(b'{"built": true}')
        if channel.recv(16) != b"go":
            os._exit(0)
        step = "runtime"
        first, waiting, *line = (_start_own_kernel if plan["own_kernel"] else _start)(plan, listener, kit)
        step = "confine"
        _confine(plan, {channel.fileno(), own, waiting, *line} - {-1}, kit)
        socket.send_fds(channel, [b'{"ok": true}'], plan["handles"])
        if channel.recv(16) != b"run":
            os._exit(0)
        if waiting >= 0:
            os.write(waiting, b"1")  # init runs nothing before what lies over the host's files is on record
            os.close(waiting)
    except BaseException as error:  # noqa: BLE001  whatever it is, the box must not come up
        confine.report(channel, step, error)
        os._exit(71)
    channel.close()
    keeper = Keeper(socket.socket(fileno=own), plan.get("seal"), plan["handles"], first, line)
    while True:
        keeper.loop.run_once()


class Keeper(Init):
    """Init's loop and its door, without commands and files."""

    def __init__(
        self, listener: socket.socket, seal: Seal | None, handles: Sequence[int], first: int, line: Sequence[int] = ()
    ) -> None:
        """`line` is of one with a kernel of its own: the box's socket, the line to its init, and that to the saver."""
        super().__init__(listener, seal, handles)
        os.set_inheritable(listener.fileno(), False)
        self._first = first
        self._line: Line | None = None
        if line:
            box, init, *saver = (socket.socket(fileno=fd) for fd in line)
            self._line = Line(self.loop, box, init, saver[0] if saver else None)
        self._reap(0)  # it may have ended before we could hear of it

    def _reap(self, _events: int) -> None:
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(0)
            if pid == self._first:
                if self._line is None or not self._line.is_saving:
                    os._exit(0)
                self._line.is_over = True  # as it should: saved, it ends
            if not pid:
                return

    def request(self, client: Connection, request: Request, fds: list[int]) -> None:
        if request["op"] not in _VERBS:
            raise Refused("unknown", "a keeper takes no such request")
        if request["op"] != "save":
            super().request(client, request, fds)
        elif self._line is None:
            raise Refused("no-memory", "the memory of this box cannot be saved")
        else:
            self._line.save(client)


def _map_ids(plan: Plan, kit: confine.Kit, trees: list[int]) -> None:
    os.umask(0o022)  # of what is made in the root, too
    if not plan["is_mapped"]:
        confine.map_ids(plan, kit, trees)
        return
    confine.write_file("/proc/self/oom_score_adj", str(plan["oom_score_adj"]))
    os.setgroups([])  # the caller's own groups are nothing for a box


def _build_root(plan: Plan, _kit: confine.Kit, trees: list[int]) -> None:
    plan["handles"] = root.build(plan, trees)
    for name in ("", "/run") if plan["root_ids"] else ():  # made by us, who stand for the box's user
        os.chown(f"{mounting.ROOT}/{root.ROOTFS}{name}", *plan["root_ids"])
    if plan["hides_cgroups"]:
        kernel.mount("none", _CGROUPS, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64k")
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    plan["settings"] = os.open("/proc/sys", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    fd = os.open(f"{mounting.ROOT}/config.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(plan["config"])
    if "network" in plan:  # as a file, by which the runtime finds it
        os.close(os.open(f"{mounting.ROOT}/net", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400))
        kernel.mount(f"/proc/self/fd/{plan['network']}", f"{mounting.ROOT}/net", None, kernel.MS_BIND)


def _seal_network(plan: Plan, kit: confine.Kit, trees: list[int]) -> None:
    own = plan["own_kernel"]
    if not own or own["network"] != "link":
        confine.seal_network(plan, kit, trees)
        return
    seal.close_off()
    plan["seal"], plan["network"], plan["check"] = link.make(trees.pop())


_STEPS = (
    ("ids", _map_ids),
    ("network", _seal_network),
    ("mounts", _build_root),
    ("namespaces", confine.limit_namespaces),
    ("seal", confine.check_seal),
)


def _start(plan: Plan, listener: int, kit: confine.Kit) -> tuple[int, ...]:
    """Have the runtime start init, and wait for init's own word; returns its pid, and where it waits for ours."""
    _limit(plan, kit)
    ours, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    log = _log()
    _run(plan["argv"], [listener, theirs], log)
    for fd in (theirs, listener):
        os.close(fd)
    if not os.read(ours, 1):
        raise OSError(errno.EIO, f"the runtime did not start init: {saver.said(log)}")
    first = _first(plan)
    resource.prlimit(first, resource.RLIMIT_NPROC, (plan["pids"], plan["pids"]))  # its namespace counts for itself
    return first, ours


def _start_own_kernel(plan: Plan, listener: int, kit: confine.Kit) -> tuple[int, ...]:
    """As _start, but we keep the listener and give init a line; and below the runtime there is its kernel."""
    own = plan["own_kernel"]
    _limit(plan, kit)
    # Since Linux 6 there is a file in it in every network, by which this runtime knows the host's.
    kernel.mount("none", "/proc/sys/net", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64k")
    line, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    log = _log()
    waiting = -1
    if own["is_saved"]:
        _run(plan["argv"], [], log)
        _run(own["wake"], [theirs], log)
    else:
        waiting, ready = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        _run(plan["argv"], [theirs, ready], log)
        os.close(ready)
        if not os.read(waiting, 1):
            raise OSError(errno.EIO, f"the runtime did not start init: {saver.said(log)}")
    os.close(theirs)
    first = _first(plan, beside=True)
    saving = [saver.start(own, log).detach()] if own["can_save"] else []
    return first, waiting, listener, line, *saving


def _limit(plan: Plan, kit: confine.Kit) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(own, plan["nice"]))
    most = plan["starting_pids"]
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # of the box, the runtime and us
    # Before the runtime, whose own filter comes on top; it needs no_new_privs as little as we do.
    seccomp.install_as_owner(kit.filters[2] if plan["set_id"] else kit.filters[1])


def _log() -> int:
    return os.open(f"{mounting.ROOT}/{_LOG}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _run(argv: list[str], inner: list[int], log: int) -> None:
    try:
        saver.run(argv, inner, log)
    except OSError as error:
        raise OSError(errno.EIO, f"the runtime did not start init: {error.strerror}") from error


def _first(plan: Plan, *, beside: bool = False) -> int:
    """The box's first process; and its mounts, or those of the process `beside` it that has its files."""
    with open(f"{mounting.ROOT}/pid", encoding="ascii") as file:
        first = int(file.read())
    place = first
    if beside:
        with open("/proc/self/task/1/children", encoding="ascii") as file:
            place = next(pid for pid in map(int, file.read().split()) if pid != first)
    plan["handles"].append(os.open(f"/proc/{place}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    return first


def _confine(plan: Plan, kept: set[int], kit: confine.Kit) -> None:
    """We need nothing but our descriptors from here on."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.chdir(mounting.ROOT)
    sealed: Seal | None = plan.get("seal")
    confine.close_descriptors({*kept, *plan["handles"], *(sealed.descriptors() if sealed else ())})
    kernel.pivot_root_here()
    kernel.drop_all_capabilities()
    kernel.set_no_new_privs()
    kernel.set_dumpable(dumpable=False)
    seccomp.install(kit.filters[:2])
    gc.collect()
    gc.freeze()
