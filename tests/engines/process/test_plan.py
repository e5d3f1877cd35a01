"""A plan shows a box its own things and the host's tools, and nothing else; these are its laws."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import codec, limits
from paddock.engines.process import plan as plans
from paddock.engines.process import system_mounts
from paddock.engines.process.operations import HOME
from tests.support.plans import binds, ground, made, spec

if TYPE_CHECKING:
    from pathlib import Path


_mounts = st.lists(
    st.tuples(
        st.sampled_from(["extra", "extra/deep", "data", "single"]),
        st.sampled_from(["/mnt/a", "/mnt/a/b", "/mnt/a/b/c", "/opt/x", "/home/agent/y", "/tmp/z", "/srv"]),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda row: row[1],
)


laws = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@laws
@given(mounts=_mounts)
def test_every_bind_is_without_setuid_and_devices(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    for op in binds(made(host, *mounts)):
        assert {"nosuid", "nodev"} <= set(op.attributes), op


@laws
@given(mounts=_mounts)
def test_only_the_boxs_own_and_what_was_asked_for_is_writable(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    plan = made(host, *mounts)
    writable = {op.target for op in binds(plan) if "ro" not in op.attributes}
    asked = {f"{host}/work", *(target for _, target, ro in mounts if not ro)}
    assert writable == {"/tmp", "/var/tmp", HOME} | asked
    assert set(plan.writable) == {HOME, "/tmp", "/run/user", "/run/lock", "/dev/shm"} | asked


@laws
@given(mounts=_mounts)
def test_nothing_covers_what_was_mounted_before_it(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    """An outer mount after an inner one would hide it, and with it its protection."""
    seen: list[str] = []
    for op in made(host, *mounts).mounts:
        below = [target for target in seen if target.startswith(op.target.rstrip("/") + "/")]
        if op.op in {"bind", "tmpfs", "proc", "devpts", "cover"}:
            assert below == [], op
        seen.append(op.target)


@laws
@given(mounts=_mounts)
def test_every_source_is_known_by_its_identity(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    for op in binds(made(host, *mounts)):
        found = os.stat(op.source)
        assert op.identity == (found.st_dev, found.st_ino)


@laws
@given(mounts=_mounts)
def test_nothing_of_the_host_is_shown_that_was_not_asked_for(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    asked = {f"{host}/{source}" for source, _, _ in mounts} | {f"{host}/work"}
    own = {f"{host}/storage/{name}" for name in ("home", "tmp")} | {f"{host}/view/{name}" for name in ("etc", "shims")}
    system = {"/usr", *(f"/{name}" for name in system_mounts._USR_MERGED)}
    assert {op.source for op in binds(made(host, *mounts))} <= asked | own | system | {f"{host}/tools"}


@laws
@given(mounts=_mounts)
def test_a_plan_survives_the_wire_and_can_be_printed(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    plan = made(host, *mounts)
    assert codec.from_wire(plans.Plan, codec.to_wire(plan)) == plan
    lines = plan.describe()
    assert all(line.isprintable() for line in lines)
    assert f"bind {host}/work from {host}/work nosuid,nodev" in lines


def test_a_plan_of_many_mounts_can_be_handed_over_at_once(host: Path) -> None:
    """A root caller opens the trees; one message carries no more descriptors than this."""
    from paddock.engines.process import kernel

    mounts = [("extra", f"/mnt/{number}", False) for number in range(limits.MOUNTS_PER_BOX)]
    assert len(binds(made(host, *mounts))) < kernel.DESCRIPTORS_MAX


def test_a_sealed_plan_says_so_and_shows_the_rules(host: Path) -> None:
    plan = plans.make(spec(host), ground(host, sealed=True, localhost_ports=(5432, 80)))
    assert (plan.sealed, plan.localhost_ports) == (True, (5432, 80))
    assert plan.namespace_limits["net/ipv4/ip_unprivileged_port_start"] == "0"
    lines = plan.describe()
    assert [line for line in lines if line.startswith("network")] == [
        "network sealed: TCP and names lead to the gateway, localhost ports that do: 5432 80"
    ]
    assert "nft reject with icmpx type admin-prohibited" in lines


def test_a_plan_without_a_gateway_has_loopback_only(host: Path) -> None:
    plan = made(host)
    assert (plan.sealed, plan.localhost_ports) == (False, ())
    assert "net/ipv4/ip_unprivileged_port_start" not in plan.namespace_limits
    assert [line for line in plan.describe() if line.startswith(("network", "nft"))] == ["network loopback only"]
