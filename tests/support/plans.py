"""Plans of made-up boxes on a made-up host; the fixture `host` of tests/engines/process makes its directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.engines.process import plan as plans
from paddock.engines.process.operations import Ground
from paddock.engines.process.toolchains import Toolchains
from paddock.model import BoxSpec, Mount

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.operations import MountOp
    from paddock.engines.process.plan import Plan


def ground(host: Path, **rest: Any) -> Ground:
    values: dict[str, Any] = {
        "etc": f"{host}/view/etc",
        "shims": f"{host}/view/shims",
        "storage": f"{host}/storage",
        "toolchains": Toolchains(trees=(f"{host}/tools",), covers=(f"{host}/tools/credentials",)),
        "uid": 1000,
        "gid": 1000,
        "is_root": False,
        "memory_bytes": 1 << 30,
        "memory_by_kernel": False,
        **rest,
    }
    return Ground(**values)


def spec(host: Path, *mounts: tuple[str, str, bool], **rest: Any) -> BoxSpec:
    wanted = tuple(Mount(source=f"{host}/{source}", target=target, read_only=ro) for source, target, ro in mounts)
    return BoxSpec(name="box", agent="shell", workspace=f"{host}/work", mounts=wanted, **rest)


def made(host: Path, *mounts: tuple[str, str, bool], **rest: Any) -> Plan:
    return plans.make(spec(host, *mounts, **rest), ground(host))


def binds(plan: Plan) -> list[MountOp]:
    return [op for op in plan.mounts if op.op == "bind"]


def over(plan: Plan, place: str) -> list[tuple[str, str]]:
    """What is done at and below `place`, in order."""
    return [(op.op, op.target[len(place) :]) for op in plan.mounts if op.target == place or place + "/" in op.target]
