"""The plan of a container box: its layers, every mount above them, and what its runtime is told, as data."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock import codec, limits
from paddock.engines.container import bundle, interpreter
from paddock.engines.process import hostsockets, kernel_limits, system_mounts
from paddock.engines.process import plan as process_plan
from paddock.engines.process.mounting import ROOT
from paddock.engines.process.operations import HOME, RUN, MountOp, bind, encoded
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    from paddock.engines.container.ids import Ids
    from paddock.engines.container.runtimes import Runtime
    from paddock.engines.process.operations import Ground
    from paddock.model import BoxSpec

INTERPRETER: Final = "python"  # its place below RUN
_OWN: Final = ("/proc", "/dev", "/sys")  # an image may lack them
_FILES: Final = ("resolv.conf", "hosts")  # of the view that process boxes have


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    layers: tuple[str, ...]  # directories, lowest first
    upper: str  # the directory of its `upper` and `work`
    mounts: tuple[MountOp, ...]
    config: str  # the runtime's
    argv: tuple[str, ...]  # the runtime's, which starts init
    hides_cgroups: bool
    is_mapped: bool  # the ids are written from outside
    pids: int
    namespace_limits: dict[str, str]
    nice: int
    oom_score_adj: int
    set_id: bool  # whether files may get rights that their programs then have: set-id bits, capabilities
    root_ids: tuple[int, ...] = ()  # who the box's root is to the keeper, where that is not the keeper itself
    sealed: bool = False
    localhost_ports: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """JSON, as keeper.py reads it; there the root is a directory among others."""
        rest = json.dumps(codec.to_wire(replace(self, mounts=())))
        moved = (replace(op, target=f"/{bundle.ROOTFS}{op.target}") for op in self.mounts)
        return rest.replace('"mounts": []', f'"mounts": [{", ".join(map(encoded, moved))}]', 1).encode()

    def describe(self) -> tuple[str, ...]:
        return (
            "namespaces user mnt pid net ipc uts cgroup, then nested user mnt pid ipc uts",
            "network sealed: TCP and names lead to the gateway" if self.sealed else "network loopback only",
            *(f"layer {path}" for path in self.layers),
            f"changes to {self.upper}/upper",
            *(op.describe() for op in self.mounts),
            *(f"sysctl {key} {value}" for key, value in self.namespace_limits.items()),
            f"rlimit processes {self.pids}",
            f"set-id bits {'allowed' if self.set_id else 'refused: the host has directories of the box too'}",
            f"run {' '.join(self.argv)}",
            f"config {self.config}",
        )


def make(
    spec: BoxSpec, ground: Ground, *, layers: tuple[str, ...], python: str, ids: Ids, runtime: Runtime, program: str
) -> Plan:
    sockets = hostsockets.Bound(ours=f"{os.path.dirname(ground.storage)}/")
    shown, users = process_plan.of_user(spec, ground, sockets)
    live = [mount for mount in shown if spec.mode is WorkspaceMode.LIVE or mount.target != spec.workspace]
    # On the host's own disk a program with rights of its own would be obeyed by the host.
    set_id = all(mount.read_only for mount in live)
    is_root = ids.count == 1 and runtime.needs_root
    owner = (0, 0) if is_root else (spec.image.uid, spec.image.gid)
    rlimits = kernel_limits.rlimits(spec.limits, memory_by_kernel=ground.memory_by_kernel)
    return Plan(
        layers=layers,
        upper=f"{ground.storage}/root",
        mounts=(*_own(ground, python), *system_mounts.network(ground, over_etc=False), *_tools(ground), *users),
        config=bundle.config(
            interpreter.argv(f"{RUN}/{INTERPRETER}"), ids, rlimits, ground.memory_bytes, set_id=set_id, owner=owner
        ),
        argv=runtime.argv(program, ROOT),
        hides_cgroups=runtime.hides_cgroups,
        is_mapped=ids.by_tool,
        pids=kernel_limits.pids(spec.limits),
        namespace_limits=_namespace_limits(ground),
        nice=limits.NICE,
        oom_score_adj=kernel_limits.oom_score_adj(),
        set_id=set_id,
        root_ids=owner if ids.by_tool and any(owner) else (),
        sealed=ground.sealed,
        localhost_ports=ground.localhost_ports,
    )


def _own(ground: Ground, python: str) -> list[MountOp]:
    run = f"mode=755,size={limits.RUN_BYTES},nr_inodes={limits.TMPFS_ENTRIES}"
    return [
        *(MountOp(op="dir", target=path) for path in _OWN),
        MountOp(op="dir", target="/tmp", mode=0o1777),
        MountOp(op="tmpfs", target="/run", options=run),
        MountOp(op="dir", target="/run/user", mode=0o1777),
        MountOp(op="dir", target="/run/lock", mode=0o1777),
        bind(ground.shims, RUN, ground),
        bind(python, f"{RUN}/{INTERPRETER}", ground),
        bind(f"{ground.storage}/home", HOME, ground, read_only=False, own=True),
        *(bind(f"{ground.etc}/{name}", f"/etc/{name}", ground, extra=("noexec",)) for name in _FILES),
    ]


def _tools(ground: Ground) -> list[MountOp]:
    return system_mounts.tools(ground)


def _namespace_limits(ground: Ground) -> dict[str, str]:
    """Those of process boxes, and room for what the runtime makes: the filter lets commands make none."""
    known = kernel_limits.namespace_limits(ground.memory_bytes, sealed=ground.sealed)
    own = {f"user/max_{name}_namespaces": "8" for name in ("user", "mnt", "pid", "ipc", "uts", "cgroup")}
    return {**known, **own}
