"""The plan of a process box: every mount, limit and id as data, made on the host, printed or executed unchanged."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paddock import codec, limits
from paddock.engines.process import hostsockets, kernel_limits, nft, protections, spelling, system_mounts, user_mounts
from paddock.engines.process.operations import HOME, MountOp, encoded
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.engines.process.operations import Ground
    from paddock.model import BoxSpec, Mount

_OWN: Final = (HOME, "/tmp", "/run/user", "/run/lock", "/dev/shm")  # of the box, to write
_ALSO: Final = "/var/tmp"  # the same as /tmp


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
        mounts = ", ".join(map(encoded, self.mounts))
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


def make(spec: BoxSpec, ground: Ground) -> Plan:
    sockets = hostsockets.Bound(ours=f"{os.path.dirname(ground.storage)}/")
    shown, users = of_user(spec, ground, sockets, (*_OWN, _ALSO))
    return Plan(
        mounts=(
            *system_mounts.system(ground),
            *system_mounts.devices(ground.memory_bytes),
            *system_mounts.proc(),
            *system_mounts.private(ground),
            *system_mounts.network(ground),
            *system_mounts.tools(ground),
            *system_mounts.toolchains(ground, [mount.target for mount in shown], sockets),
            *users,
        ),
        uid=ground.uid,
        gid=ground.gid,
        hostname="box",
        pids=kernel_limits.pids(spec.limits),
        rlimits=kernel_limits.rlimits(spec.limits, memory_by_kernel=ground.memory_by_kernel),
        namespace_limits=kernel_limits.namespace_limits(ground.memory_bytes, sealed=ground.sealed),
        writable=(
            *_OWN,
            *(mount.target for mount in shown if not mount.read_only),
            *(mount.target for mount in ground.view if not mount.read_only and mount.source != mount.target),
        ),
        nice=limits.NICE,
        oom_score_adj=kernel_limits.oom_score_adj(),
        sealed=ground.sealed,
        localhost_ports=ground.localhost_ports,
    )


def of_user(
    spec: BoxSpec, ground: Ground, sockets: hostsockets.Bound, own: Sequence[str]
) -> tuple[list[Mount], tuple[MountOp, ...]]:
    """The user's directories that a box has, and every mount in and over them: the same whatever its root is.

    `own` are directories around them in which the box may rename what it likes.
    """
    shown = user_mounts.shown(spec, ground)
    private = spec.mode is not WorkspaceMode.LIVE
    live = [mount for mount in shown if not (private and mount.target == spec.workspace)]  # what the host has too
    users = (
        *user_mounts.mounts(spec, shown, ground, own),
        *protections.hidden(spec, live, ground),
        *protections.protected(live, sockets, {mount.target for mount in ground.view}),
        *user_mounts.masked(spec),
        *protections.under_other_names(spec, live, ground.view),
    )
    spelling.require_one(shown, users)
    return shown, users
