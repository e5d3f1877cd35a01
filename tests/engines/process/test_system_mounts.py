"""What every box has, and where programs look for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.engines.process import plan as plans
from paddock.engines.process import system_mounts
from paddock.engines.process.toolchains import Toolchains
from paddock.model import Mount
from tests.support.plans import binds, ground, made, spec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_home_of_the_caller_appears_only_as_its_toolchains(host: Path) -> None:
    plan = made(host, caller_home=os.fspath(host))
    shown = [op for op in binds(plan) if op.source.startswith(f"{host}/")]
    assert [op.target for op in shown if "tools" in op.source] == [f"{host}/tools"]
    assert all("ro" in op.attributes for op in shown if "tools" in op.source)
    covers = [op.target for op in plan.mounts if op.op == "cover" and op.target.startswith(f"{host}/")]
    assert covers == [f"{host}/tools/credentials"]


def test_a_toolchain_in_the_workspace_is_the_workspaces_own(host: Path) -> None:
    (host / "work/.venv/bin").mkdir(parents=True)
    here = ground(host, toolchains=Toolchains(trees=(f"{host}/work/.venv",), covers=(f"{host}/work/.venv/pip.conf",)))
    plan = plans.make(spec(host), here)
    assert [op for op in plan.mounts if ".venv" in op.target] == []


def test_a_tool_is_bound_read_only_and_nothing_of_the_host_lies_over_it(host: Path) -> None:
    (host / "store/tree").mkdir(parents=True)
    tool = Mount(source=f"{host}/store/tree", target="/opt/paddock/demo", read_only=True)
    trees = Toolchains(trees=("/opt/paddock", "/opt/paddock/bin", f"{host}/tools"))
    plan = plans.make(spec(host), ground(host, tools=(tool,), toolchains=trees))
    [op] = [op for op in plan.mounts if op.target.startswith("/opt/paddock")]
    assert (op.op, op.source, op.target) == ("bind", f"{host}/store/tree", "/opt/paddock/demo")
    assert {"ro", "nosuid", "nodev"} <= set(op.attributes)
    assert any(op.target == f"{host}/tools" for op in plan.mounts)


def _given(host: Path, *names: str) -> None:
    (host / "storage/net").mkdir()
    for name in names:
        (host / "storage/net" / name).touch()


def _shown(host: Path, *names: str) -> dict[str, str]:
    _given(host, *names)
    plan = made(host)
    ops = [op for op in plan.mounts if op.source.startswith(f"{host}/storage/net/")]
    assert all({"ro", "nosuid", "nodev", "noexec"} <= set(op.attributes) for op in ops)
    return {op.target: op.source.removeprefix(f"{host}/storage/net/") for op in ops}


def test_the_gateways_files_are_shown_where_programs_look(host: Path) -> None:
    for path in ("ssl/certs/ca-certificates.crt", "ssl/certs/java/cacerts", "pki/tls/certs/other.crt"):
        (host / "view/etc" / path).parent.mkdir(parents=True, exist_ok=True)
        (host / "view/etc" / path).touch()
    (host / "view/etc/ssl/cert.pem").symlink_to("certs/ca-certificates.crt")
    (host / "view/etc/pki/tls/certs/ca-bundle.crt").symlink_to("other.crt")
    assert _shown(host, "denials.jsonl", "bundle.pem", "cacerts", "authority.pem") == {
        "/run/paddock/denials.jsonl": "denials.jsonl",
        "/run/paddock/ca-bundle.pem": "bundle.pem",
        "/etc/ssl/certs/ca-certificates.crt": "bundle.pem",
        "/etc/ssl/certs/java/cacerts": "cacerts",
    }


def test_a_host_without_certificates_gets_none_in_etc(host: Path) -> None:
    assert _shown(host, "bundle.pem", "cacerts") == {"/run/paddock/ca-bundle.pem": "bundle.pem"}


def test_what_is_no_file_of_the_gateways_is_not_shown(host: Path) -> None:
    (host / "storage/net/bundle.pem").mkdir(parents=True)
    (host / "storage/net/denials.jsonl").symlink_to("/etc/passwd")
    assert not [op for op in made(host).mounts if "/storage/net" in op.source]


@pytest.mark.parametrize(("memory", "shm"), [(1 << 20, 1 << 19), (1 << 50, limits.SHM_BYTES)])
def test_shared_memory_is_half_of_a_small_boxs_own(memory: int, shm: int) -> None:
    (found,) = [op for op in system_mounts.devices(memory) if op.target == "/dev/shm"]
    assert f"size={shm}," in found.options


def test_a_box_sees_no_device_of_the_host_but_a_few_that_hold_nothing() -> None:
    shown = {op.source for op in system_mounts.devices(1 << 30) if op.source}
    assert shown == {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
