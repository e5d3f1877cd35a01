"""The plan of a container box: its layers, every mount above them, and what its runtime is told, as data."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock import codec, fs, limits
from paddock.engines.container import bundle, gvisor, interpreter
from paddock.engines.container.root import CHANGES, ROOTFS
from paddock.engines.process import hostsockets, kernel_limits, nft, system_mounts
from paddock.engines.process import plan as process_plan
from paddock.engines.process.mounting import ROOT
from paddock.engines.process.operations import RUN, MountOp, bind, encoded, home
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    from paddock.engines.container.ids import Ids
    from paddock.engines.container.runtimes import Runtime
    from paddock.engines.process.operations import Ground
    from paddock.model import BoxSpec

NETWORK: Final = "net"  # where the keeper lays the namespace of a box's own interface
INTERPRETER: Final = "python"  # its place below RUN
_OWN: Final = ("/proc", "/dev", "/sys")  # an image may lack them
_MADE: Final = ("user", "mnt", "pid", "uts", "cgroup")  # namespaces, by a runtime
_FILES: Final = ("resolv.conf", "hosts")  # of the view that process boxes have
_SSH: Final = "ssh/ssh_config"  # says where the keys of hosts are that a box may log in at


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKernel:
    network: gvisor.Network
    image: str  # where the keeper sees what was saved, and is to be
    is_saved: bool  # it starts from that
    can_save: bool
    save: tuple[str, ...]
    wake: tuple[str, ...]  # has init, put back from memory, take a new line


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    layers: tuple[str, ...]  # directories, lowest first
    pinned: tuple[int, ...]  # which directory the lowest is, where it is one of the user's
    upper: str  # the directory of its `upper` and `work`
    mounts: tuple[MountOp, ...]
    config: str  # the runtime's
    argv: tuple[str, ...]  # the runtime's, which starts init
    own_kernel: OwnKernel | None  # of a box under gVisor
    hides_cgroups: bool
    is_mapped: bool  # the ids are written from outside
    pids: int
    starting_pids: int  # the same until init runs: the runtime has some of its own
    namespace_limits: dict[str, str]
    nice: int
    oom_score_adj: int
    set_id: bool  # whether files may get rights that their programs then have: set-id bits, capabilities
    root_ids: tuple[int, ...] = ()  # who the box's root is to the keeper, where that is not the keeper itself
    file_ids: tuple[int, ...] = ()  # whose the box's own files are, where that is not the keeper
    sealed: bool = False
    localhost_ports: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """JSON, as keeper.py reads it; there the root is a directory among others."""
        rest = json.dumps(codec.to_wire(replace(self, mounts=())))
        moved = (replace(op, target=f"/{ROOTFS}{op.target}") for op in self.mounts)
        return rest.replace('"mounts": []', f'"mounts": [{", ".join(map(encoded, moved))}]', 1).encode()

    def describe(self) -> tuple[str, ...]:
        return (
            "namespaces user mnt pid net ipc uts cgroup, then nested user mnt pid uts",
            *self._describe_network(),
            *(f"layer {path}" for path in self.layers),
            f"changes to {self.upper}/upper",
            *(op.describe() for op in self.mounts),
            *(f"sysctl {key} {value}" for key, value in self.namespace_limits.items()),
            f"rlimit processes {self.pids}",
            f"set-id bits {'allowed' if self.set_id else 'refused: the host has directories of the box too'}",
            f"run {' '.join(self.argv)}",
            f"config {self.config}",
        )

    def _describe_network(self) -> list[str]:
        if not self.sealed:
            return ["network loopback only"]
        way = {"link": ", over a link, from a network stack of its own", "host": ", in the network of the keeper"}
        shown = way.get(self.own_kernel.network, "") if self.own_kernel else ""
        link = bool(self.own_kernel and self.own_kernel.network == "link")
        return [
            f"network sealed: TCP and names lead to the gateway{shown}",
            *(f"nft {line}" for line in nft.readable(link=link)),
        ]


def make(
    spec: BoxSpec,
    ground: Ground,
    *,
    layers: tuple[str, ...],
    python: str,
    ids: Ids,
    runtime: Runtime,
    program: str,
    is_saved: bool = False,
) -> Plan:
    """`is_saved` says that it starts from what was saved of its memory."""
    sockets = hostsockets.Bound(ours=f"{os.path.dirname(ground.storage)}/")
    shown, users = ([], ()) if spec.bare else process_plan.of_user(spec, ground, sockets, ("/",))
    live = [mount for mount in shown if spec.mode is WorkspaceMode.LIVE or mount.target != spec.workspace]
    # On the host's own disk a program with rights of its own would be obeyed by the host.
    set_id = all(mount.read_only for mount in live)
    is_root = ids.count == 1 and runtime.needs_root
    owner = (0, 0) if is_root else (spec.image.uid, spec.image.gid)
    rlimits = kernel_limits.rlimits(spec.limits, memory_by_kernel=ground.memory_by_kernel)
    mounts = (
        *_own(ground, python, spec),
        *system_mounts.network(ground, over_etc=False),
        *system_mounts.tools(ground),
        *users,
    )
    argv, own, kernel = runtime.argv(program, ROOT), None, None
    if runtime.own_kernel:
        argv, own = _own_kernel(spec, ground, program, is_saved=is_saved, has_ids=ids.count > 1)
        kernel = bundle.OwnKernel(
            place=ROOT, network=f"{ROOT}/{NETWORK}" if own.network == "link" else "", below_run=_below_run(mounts)
        )
    return Plan(
        layers=layers,
        pinned=spec.template_id if layers[:1] == (spec.template,) else (),
        upper=f"{ground.storage}/root",
        mounts=mounts,
        config=bundle.config(
            interpreter.argv(f"{RUN}/{INTERPRETER}"),
            ids,
            rlimits,
            ground.memory_bytes,
            set_id=set_id,
            owner=owner,
            own=kernel,
        ),
        argv=argv,
        own_kernel=own,
        hides_cgroups=runtime.hides_cgroups,
        is_mapped=ids.by_tool,
        pids=kernel_limits.pids(spec.limits),
        starting_pids=kernel_limits.pids(spec.limits, least=runtime.tasks),
        namespace_limits=_namespace_limits(ground, ("net", "ipc") if own else ()),
        nice=limits.NICE,
        oom_score_adj=kernel_limits.oom_score_adj(),
        set_id=set_id,
        root_ids=owner if ids.by_tool and any(owner) else (),
        file_ids=owner if ground.is_root and any(owner) else (),
        sealed=ground.sealed,
        localhost_ports=ground.localhost_ports,
    )


def _own_kernel(
    spec: BoxSpec, ground: Ground, program: str, *, is_saved: bool, has_ids: bool
) -> tuple[tuple[str, ...], OwnKernel]:
    needs_loopback = bool(ground.localhost_ports or spec.network.publish)
    network = gvisor.network(sealed=ground.sealed, needs_loopback=needs_loopback, has_ids=has_ids)
    commands = gvisor.Commands(program=program, place=ROOT, network=network, alone=not has_ids)
    image = f"{ROOT}/{CHANGES}/{gvisor.MEMORY}"
    own = OwnKernel(
        network=network,
        image=image,
        is_saved=is_saved,
        can_save=network != "host" and has_ids,
        save=commands.save(image),
        wake=commands.wake(interpreter.envoy(f"{RUN}/{INTERPRETER}")),
    )
    return commands.restore(image) if is_saved else commands.run(), own


def _below_run(mounts: tuple[MountOp, ...]) -> tuple[tuple[str, str], ...]:
    """The outermost; what is mounted in them comes along."""
    found: dict[str, str] = {}
    for op in mounts:
        if (
            op.op == "bind"
            and op.target.startswith("/run/")
            and not any(fs.is_beneath(op.target, one) for one in found)
        ):
            found[op.target] = "ro" if "ro" in op.attributes else "rw"
    return tuple(found.items())


def _own(ground: Ground, python: str, spec: BoxSpec) -> list[MountOp]:
    run = f"mode=755,size={limits.RUN_BYTES},nr_inodes={limits.TMPFS_ENTRIES}"
    files = (*_FILES, *((_SSH,) if spec.ssh_keys else ()))
    return [
        *(MountOp(op="dir", target=path) for path in _OWN),
        MountOp(op="dir", target="/tmp", mode=0o1777),
        MountOp(op="tmpfs", target="/run", options=run),
        MountOp(op="dir", target="/run/user", mode=0o1777),
        MountOp(op="dir", target="/run/lock", mode=0o1777),
        bind(ground.shims, RUN, ground),
        bind(python, f"{RUN}/{INTERPRETER}", ground),
        *(() if spec.bare else (_home(ground, spec.image.home),)),
        *(bind(f"{ground.etc}/{name}", f"/etc/{name}", ground, extra=("noexec",)) for name in files),
    ]


def _home(ground: Ground, image_home: str) -> MountOp:
    """The box's own, over what its image has in its user's, if the image says that it is where homes are."""
    is_one = image_home == "/root" or (image_home.startswith("/home/") and ".." not in image_home.split("/"))
    own = home(ground)
    return replace(
        own,
        op="branch",
        source="",
        identity=(),
        layers=ground.storage,
        lowers=ground.home_layers,
        to=image_home if is_one else "",
    )


def _namespace_limits(ground: Ground, more: tuple[str, ...]) -> dict[str, str]:
    """Those of process boxes, and room for what the runtime makes: the filter lets commands make none."""
    known = kernel_limits.namespace_limits(ground.memory_bytes, sealed=ground.sealed)
    own = {f"user/max_{name}_namespaces": "8" for name in (*_MADE, *more)}
    return {**known, **own}
