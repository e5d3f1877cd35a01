"""The process engine: makes boxes through the launcher, finds them again, and says what holds their limits."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import resource
import select
import signal
import socket
import stat
import struct
import time
from typing import TYPE_CHECKING

from paddock import frames, fs, limits, proc
from paddock.engines.process import bounds, etc, kernel, shims, toolchains
from paddock.engines.process import plan as plans
from paddock.engines.process.warm import DIED, Launcher, readable
from paddock.errors import Unavailable, UserError
from paddock.model import Evidence, WorkspaceMode
from paddock.watch import WatchedBox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from paddock.engines.base import Placement
    from paddock.engines.process.plan import Plan
    from paddock.model import BoxId, LimitReport

log = logging.getLogger(__name__)
FIRST_SUBORDINATE_ID = 1_900_000_000  # above systemd's container range, below the sign bit
BOX_ID = 1000  # the user inside a root caller's box
SOCKET = "init.sock"
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_PLAN_BYTES = 1 << 20
_TOOLCHAINS_FRESH_S = 5.0
_VIEW_FRESH_S = 1.0
_BACKLOG = 64
_CONNECT_S = 0.1  # an init that takes nobody must not hold up the daemon, which waits here with all its boxes
_ID_MAPS_KEPT = 64
_BACKLOG = 512  # connections init has not taken yet: commands that start in one box at the same moment
_OWN_TIMER_S = 1.0
_RESEAL_S = 5.0
_REPLY_BYTES = 4096
_OVERLAYS_MAX = 4
# How programs are told which authorities to trust.
_TRUST = dict.fromkeys(
    (
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
        *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "PIP_CERT"),
    ),
    plans.CA_BUNDLE,
)


class ProcessHandle:
    """A living process box, held by a pidfd."""

    def __init__(self, placement: Placement, evidence: Evidence, pidfd: int) -> None:
        self.evidence = evidence
        self.pidfd = pidfd
        self.overlays: list[int] = []
        self._placement = placement

    def __repr__(self) -> str:
        return f"<ProcessHandle {self._placement.spec.name} pid {self.evidence.pid}>"

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)  # pid 1 of its namespace: all others go with it
        except ProcessLookupError:
            return

    def ended(self) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def refresh(self) -> bool:
        try:
            for overlay in self.overlays:
                kernel.look_again(overlay)
        except OSError as error:
            log.warning("%r sees its workspace as it was: %s", self, error)
            return False
        return bool(self.overlays) or self._placement.spec.mode is not WorkspaceMode.REVIEW

    def close(self) -> None:
        for fd in (self.pidfd, *self.overlays):
            os.close(fd)


class ProcessEngine:
    def __init__(self, state_dir: str, launcher: Launcher, held: bounds.Bounds) -> None:
        self._state_dir = state_dir
        self._launcher = launcher
        self._bounds = held
        self._uid, self._gid = os.getuid(), os.getgid()
        self._is_root = self._uid == 0
        self._toolchains: dict[tuple[str, str], tuple[float, toolchains.Toolchains]] = {}
        self._id_maps: dict[tuple[int, ...], int] = {}
        self._id_maps_kept = min(_ID_MAPS_KEPT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 16)
        self._viewed: tuple[float, str, str] | None = None

    def __repr__(self) -> str:
        return f"<ProcessEngine for uid {self._uid}>"

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(
        self, placement: Placement, door: int | None = None, listening: Callable[[], None] | None = None
    ) -> ProcessHandle:
        await self._prepare_storage(placement)
        _clear_place(f"{run_directory(placement)}/{SOCKET}")
        with fs.bind_unix(run_directory(placement), SOCKET) as listener:
            listener.listen(_BACKLOG)
            try:
                if listening:
                    listening()
                return await self._start(placement, listener, door)
            except BaseException:
                _unlink(f"{run_directory(placement)}/{SOCKET}")
                raise

    async def _start(self, placement: Placement, listener: socket.socket, door: int | None) -> ProcessHandle:
        try:
            return await self._attempt(placement, listener, door)
        except Unavailable as error:
            if error.code != DIED:
                raise
            return await self._attempt(placement, listener, door)  # what it may have cloned ended with our socket

    async def _attempt(self, placement: Placement, listener: socket.socket, door: int | None) -> ProcessHandle:
        """The launcher clones while we make the plan; the process waits for it, as do commands sent to its socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                clone = self._launcher.clone(*self._maps(placement), theirs.fileno(), listener.fileno())
                made = await asyncio.gather(clone, self._send_plan(ours, placement, door), return_exceptions=True)
            if isinstance(made[0], BaseException):
                raise made[0]
            return await self._settle(placement, made[0], ours, made[1])

    async def _settle(
        self, placement: Placement, pid: int, channel: socket.socket, planned: BaseException | None
    ) -> ProcessHandle:
        handle = _hold(placement, pid)
        attaching = asyncio.ensure_future(self._attach(placement, pid))
        try:
            if planned is not None:
                raise planned
            handle.overlays = await _ready(channel)
            await asyncio.shield(attaching)
            channel.send(b"go")  # it runs nothing before it is in its cgroup
        except BaseException as error:
            handle.kill()
            handle.close()
            await asyncio.gather(attaching, return_exceptions=True)  # it fails too, and nobody else would hear of it
            await asyncio.to_thread(self._bounds.remove, placement)
            if isinstance(error, BrokenPipeError):
                raise _ended_early() from error
            raise
        return handle

    async def _attach(self, placement: Placement, pid: int) -> None:
        # Moving a process between cgroups waits for readers all over the machine: it builds itself meanwhile.
        if self._bounds.has_cgroups():
            await asyncio.to_thread(self._bounds.attach, placement, pid)

    async def _prepare_storage(self, placement: Placement) -> None:
        """Home and journals stay from run to run, /tmp does not."""
        for name in ("home", "run", "journal"):
            _make_directory(f"{placement.directory}/{name}")
        temporary = f"{placement.directory}/tmp"
        if not _make_directory(temporary):
            await _to_its_end(fs.remove_tree, temporary)  # a box may have left a million files there
            _make_directory(temporary)
        os.chmod(temporary, 0o1777)  # beneath a 0700 directory
        if placement.spec.mode is WorkspaceMode.REVIEW:
            self._prepare_layers(f"{placement.directory}/review", os.lstat(placement.spec.workspace))

    def _prepare_layers(self, directory: str, workspace: os.stat_result) -> None:
        """Where a review box's changes lie: `upper`, and the kernel's own `work`."""
        if _make_directory(directory):
            _require_attributes(directory)
        os.chmod(directory, 0o711)  # a root caller's box goes through it as somebody else; it lies beneath a 0700 one
        for name in ("upper", "work"):
            path = f"{directory}/{name}"
            if _make_directory(path):
                os.chmod(path, workspace.st_mode & 0o777)
            if self._is_root:  # as what is in the workspace: the box's user stands for that owner
                os.chown(path, workspace.st_uid, workspace.st_gid)

    def _plan(self, placement: Placement, *, sealed: bool) -> Plan:
        return plans.make(placement.spec, self._ground(placement, sealed=sealed))

    def _ground(self, placement: Placement, *, sealed: bool) -> plans.Ground:
        uid, gid = (BOX_ID, BOX_ID) if self._is_root else (self._uid, self._gid)
        shared_etc, shared_shims = self._view(uid, gid)
        return plans.Ground(
            etc=shared_etc,
            shims=shared_shims,
            storage=placement.directory,
            toolchains=self._find_toolchains(placement.spec.caller_path, placement.spec.caller_home),
            uid=uid,
            gid=gid,
            is_root=self._is_root,
            memory_bytes=bounds.memory_bytes(placement.spec.limits),
            memory_by_kernel=self._bounds.holds_memory(),
            sealed=sealed,
            localhost_ports=placement.localhost_ports if sealed else (),
            view=placement.view,
        )

    def _view(self, uid: int, gid: int) -> tuple[str, str]:
        """What all boxes share; looking whether the host's /etc changed once a second is enough."""
        now = time.monotonic()
        if self._viewed is None or now - self._viewed[0] > _VIEW_FRESH_S or not os.path.isdir(self._viewed[1]):
            etc_dir = etc.prepare(f"{self._state_dir}/view/etc", uid=uid, gid=gid, shell=default_shell())
            self._viewed = (now, etc_dir, shims.prepare(f"{self._state_dir}/view/shims"))
        return self._viewed[1:]

    def _find_toolchains(self, path: str, home: str) -> toolchains.Toolchains:
        found = self._toolchains.get((path, home))
        now = time.monotonic()
        if found is None or now - found[0] > _TOOLCHAINS_FRESH_S:
            found = (now, toolchains.find(path, home))
            self._toolchains[path, home] = found
        return found[1]

    def _maps(self, placement: Placement) -> tuple[str, str]:
        subordinate = FIRST_SUBORDINATE_ID + placement.index
        return f"0 {subordinate} 1", f"0 {subordinate} 1"

    async def _send_plan(self, channel: socket.socket, placement: Placement, door: int | None) -> None:
        plan = self._plan(placement, sealed=door is not None)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PLAN_BYTES)
        channel.setblocking(False)
        trees = await self._open_trees(plan, placement) if self._is_root else []
        try:
            socket.send_fds(channel, [plan.encode()], trees if door is None else [*trees, door])
        finally:
            for fd in trees:
                os.close(fd)

    # -- a root caller opens the trees: the box's uid could not walk to them -------------------------------------------

    async def _open_trees(self, plan: Plan, placement: Placement) -> list[int]:
        trees: list[int] = []
        try:
            for op in plan.mounts:
                for path in (op.source, op.layers) if op.op in {"bind", "overlay"} else ():
                    if not path:
                        continue
                    trees.append(kernel.open_tree(path))
                    if op.owner:
                        _map_owner(trees[-1], path, await self._id_map(op.owner, placement.index))
                if len(trees) >= kernel.DESCRIPTORS_MAX:  # one is left for the door
                    raise _too_many()
        except BaseException:
            for fd in trees:
                os.close(fd)
            raise
        return trees

    async def _id_map(self, owner: tuple[int, ...], index: int) -> int:
        """Kept for the next box in the same position: making one costs a fork."""
        key = (*owner, index)
        if key not in self._id_maps:
            while len(self._id_maps) >= self._id_maps_kept:
                os.close(self._id_maps.pop(next(iter(self._id_maps))))
            subordinate = FIRST_SUBORDINATE_ID + index
            self._id_maps[key] = await self._launcher.id_map(*(_swap(number, subordinate) for number in owner))
        return self._id_maps[key]

    def reseal(self, placement: Placement, door: int) -> None:
        try:
            with self.connect(placement) as channel:
                channel.settimeout(_RESEAL_S)
                request = frames.encode_message({"op": "seal"})
                socket.send_fds(channel, [request], [door])
                answer = _first_message(channel)
        except (OSError, ValueError) as error:
            raise _not_resealed(placement, str(error) or "no answer") from error
        if answer.get("event") != "done":
            raise _not_resealed(placement, str(answer.get("message"))[:200])

    def connect(self, placement: Placement) -> socket.socket:
        return fs.connect_unix(run_directory(placement), SOCKET, timeout_s=_CONNECT_S)

    # -- find again, clean up ------------------------------------------------------------------------------------------

    def adopt(self, placement: Placement, evidence: Evidence | None) -> ProcessHandle | None:
        # No record, or that of an earlier run: so it is when a daemon dies between a start and its record.
        handle = _find(placement, evidence) or _find(placement, self._ask_identity(placement))
        if handle is not None and placement.spec.mode is WorkspaceMode.REVIEW:
            handle.overlays = self._ask_overlays(placement)
        return handle

    def _ask_overlays(self, placement: Placement) -> list[int]:
        """# TRUST: init's word; a descriptor that is none of these is of no use for what we do with it."""
        try:
            with self.connect(placement) as channel:
                channel.settimeout(1.0)
                channel.sendall(frames.encode_message({"op": "overlays"}))
                return fs.receive_fds(channel, _REPLY_BYTES, _OVERLAYS_MAX)[1]
        except (OSError, Unavailable) as error:
            log.warning("%s keeps its overlays: %s", placement.spec.name, error)
            return []

    def _ask_identity(self, placement: Placement) -> Evidence | None:
        """A box started just before its daemon died has no record: the kernel says who answers on its socket."""
        try:
            channel = fs.connect_unix(run_directory(placement), SOCKET, timeout_s=_CONNECT_S)
        except (OSError, Unavailable):  # nobody, or no socket, or one who takes nobody
            return None
        with channel:
            channel.settimeout(1.0)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                channel.send(b'\x00\x00\x00\x0d\x00{"op":"ping"}')
                _, ancillary, _, _ = channel.recvmsg(4096, socket.CMSG_SPACE(12))
            except OSError:
                return None
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, uid, _ = struct.unpack("iii", data[:12])
                if uid == self._kernel_uid(placement) and _is_first(pid):
                    return _evidence(pid)
        return None

    def _kernel_uid(self, placement: Placement) -> int:
        return FIRST_SUBORDINATE_ID + placement.index if self._is_root else self._uid

    def clean(self, placement: Placement) -> str:
        _unlink(f"{run_directory(placement)}/{SOCKET}")
        return self._bounds.remove(placement)

    def sweep(self, alive: Collection[BoxId]) -> list[str]:
        return self._bounds.sweep(alive)

    # -- what it is ----------------------------------------------------------------------------------------------------

    def environment(self, placement: Placement) -> dict[str, str]:
        spec = placement.spec
        found = self._find_toolchains(spec.caller_path, spec.caller_home)
        path = (f"{plans.RUN}/bin", *found.path, *_SYSTEM_PATH)
        return {
            "HOME": plans.HOME,
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": default_shell(),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": "/tmp",
            "PADDOCK_BOX": spec.name,
            "PATH": ":".join(dict.fromkeys(path)),
            **found.env,
            **(_TRUST if os.path.isfile(f"{placement.directory}/net/bundle.pem") else {}),
        }

    def killed(self, placement: Placement) -> str:
        return self._bounds.killed(placement)

    def limits(self, placement: Placement, *, running: bool) -> tuple[LimitReport, ...]:
        return self._bounds.report(placement, running=running)

    def watched(self, placement: Placement, evidence: Evidence) -> WatchedBox:
        wanted = placement.spec.limits
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - evidence.start_ticks / os.sysconf("SC_CLK_TCK")
        # The one command of an ephemeral box has a timer of its own, which lets its last output through.
        grace_s = _OWN_TIMER_S if placement.spec.ephemeral else 0.0
        left_s = wanted.wall_s + grace_s - age_s if wanted.wall_s else None
        return WatchedBox(
            id=placement.id,
            init_pid=evidence.pid,
            memory_bytes=None if "memory" in self._bounds.held(placement) else bounds.memory_bytes(wanted),
            disk_bytes=wanted.disk_bytes or limits.DISK_BYTES_DEFAULT,
            paths=(placement.directory,),
            deadline_s=time.monotonic() + left_s if left_s is not None else None,
            wall_s=wanted.wall_s or 0.0,
        )

    def describe(self, placement: Placement) -> tuple[str, ...]:
        for name in ("home", "tmp"):
            _make_directory(f"{placement.directory}/{name}")
        return self._plan(placement, sealed=True).describe()


def _make_directory(path: str) -> bool:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    return True


async def _to_its_end(function: Callable[[str], None], path: str) -> None:
    """In a thread. No cancel ends one, so it is waited for: the next start would find it still at work."""
    work = asyncio.ensure_future(asyncio.to_thread(function, path))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def _clear_place(path: str) -> None:
    """What is no socket cannot be a box that still runs."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


async def _ready(channel: socket.socket) -> list[int]:
    """Wait for the box's own word that it is confined; handles of its overlays come with it."""
    fds: list[int] = []
    try:
        await asyncio.wait_for(readable(channel), limits.START_TIMEOUT_S)
        data, fds = fs.receive_fds(channel, _PLAN_BYTES, _OVERLAYS_MAX)
        reply = json.loads(data or b"{}")
    except TimeoutError:
        reply = {"error": f"no answer in {limits.START_TIMEOUT_S:.0f} s"}
    except (OSError, ValueError) as error:
        reply = {"error": str(error)}
    if reply.get("ok") is not True:
        for fd in fds:
            os.close(fd)
        raise _failed(reply)
    log.debug("steps of a start: %s", reply.get("marks"))  # `./bench --only phases` reads them
    return fds


def _first_message(channel: socket.socket) -> dict[str, object]:
    """What init says; it is a box's word, and only whether it is `done` counts."""
    decoder = frames.Decoder()
    while data := channel.recv(_REPLY_BYTES):
        for kind, payload in decoder.feed(data):
            if kind == frames.MESSAGE:
                return frames.decode_message(payload)
    raise ConnectionResetError(errno.ECONNRESET, "it hung up")


def _not_resealed(placement: Placement, why: str) -> Unavailable:
    return Unavailable(f"the box {placement.spec.name!r} takes no new gateway: {why}", code="reseal")


def run_directory(placement: Placement) -> str:
    return f"{placement.directory}/run"


def default_shell() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _is_first(pid: int) -> bool:
    """Is it the first process of a namespace of its own? Only then does its end end the box."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except OSError:
        return False
    return len(numbers) > 1 and numbers[-1] == "1"


def _hold(placement: Placement, pid: int) -> ProcessHandle:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise _ended_early() from error
    try:
        return ProcessHandle(placement, _evidence(pid), pidfd)
    except BaseException:
        os.close(pidfd)
        raise


def _ended_early() -> Unavailable:
    return Unavailable("the box ended while it started", hint="run `paddock doctor`", code="start")


def _evidence(pid: int) -> Evidence:
    found = proc.identity(pid)
    if found is None:
        raise _ended_early()
    return Evidence(pid=pid, start_ticks=found[1], boot_id=proc.boot_id())


def _find(placement: Placement, evidence: Evidence | None) -> ProcessHandle | None:
    """The process the evidence means and no other: a pid is used again, after a reboot or before."""
    if evidence is None or evidence.boot_id != proc.boot_id():
        return None
    try:
        pidfd = os.pidfd_open(evidence.pid)
    except (ProcessLookupError, OverflowError, ValueError):
        return None
    if proc.identity(evidence.pid) != (evidence.pid, evidence.start_ticks):
        os.close(pidfd)
        return None
    return ProcessHandle(placement, evidence, pidfd)


def _too_many() -> UserError:
    hint = "give a directory with fewer repositories in it, or use --review"
    return UserError(f"the box would need over {kernel.DESCRIPTORS_MAX} mounts", hint=hint, code="too-many-mounts")


def _require_attributes(directory: str) -> None:
    try:
        os.setxattr(directory, "user.paddock", b"")
    except OSError as error:
        raise Unavailable(
            f"no review here: {directory} is on a file system without extended attributes ({error.strerror})",
            hint="put PADDOCK_HOME on ext4, xfs, btrfs, or on tmpfs with Linux 6.6 or newer",
            code="no-attributes",
        ) from error


def _map_owner(tree: int, path: str, userns: int) -> None:
    try:
        kernel.set_mount(tree, kernel.ATTR_IDMAP, userns=userns)
    except OSError as error:
        raise Unavailable(
            f"the file system of {path} cannot map owners for a root caller: {error.strerror}",
            hint="run paddock as the user who owns the directory, or put it on ext4, xfs, btrfs or tmpfs",
            code="idmap",
        ) from error


def _swap(number: int, subordinate: int) -> str:
    """The owner's id becomes the box's; every other id stays what it is, and stays foreign to the box."""
    lines = [f"{number} {subordinate} 1"]
    if number > 0:
        lines.append(f"0 0 {number}")
    lines.append(f"{number + 1} {number + 1} {FIRST_SUBORDINATE_ID - number - 1}")
    return "\n".join(lines)


def _failed(reply: dict[str, object]) -> Unavailable:
    step, error = reply.get("step", "start"), reply.get("error", "it ended without a word")
    return Unavailable(f"the box could not start: {step}: {error}", hint="run `paddock doctor`", code=f"start-{step}")
