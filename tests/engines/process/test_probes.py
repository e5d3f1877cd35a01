"""Probes do the thing: what works says so, what does not names a fix, and nothing is left of either."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from paddock.engines.base import Probe
from paddock.engines.process import confine, kernel, nft, probes
from tests.support import namespaces
from tests.support.installation import children

NAMES = [
    *("user namespaces", "apparmor", "/proc mount", "seccomp", "landlock"),
    *("cgroups", "nftables", "overlay", "oci runtimes", "subordinate ids", "kvm"),
]


def test_every_layer_is_probed_and_every_failure_has_a_fix() -> None:
    found = probes.all_probes()
    assert [probe.name for probe in found] == NAMES
    for probe in found:
        assert probe.detail
        assert probe.detail.isprintable()
        assert probe.ok or probe.fix, probe


def test_what_a_box_needs_works_here() -> None:
    """The boxes of the other tests run on this very machine, so these must say yes."""
    found = {probe.name: probe for probe in probes.all_probes()}
    for name in ("user namespaces", "/proc mount", "seccomp"):
        assert found[name].ok, found[name]


def test_probing_leaves_no_process_no_mount_and_no_descriptor() -> None:
    def state() -> tuple[int, int, list[int]]:
        mounts = Path("/proc/self/mountinfo").read_text().count("\n")
        return len(os.listdir("/proc/self/fd")), mounts, children(os.getpid())

    before = state()
    probes.all_probes()
    assert state() == before


def _forbidden(probe_name: str, *sysctls: str) -> None:
    """Where a namespace forbids it, the probe says no and how to change that."""

    def act() -> None:
        for name in sysctls:
            confine.write_file(f"/proc/sys/user/{name}", "0")
        probe = next(probe for probe in probes.all_probes() if probe.name == probe_name)
        assert not probe.ok, probe
        assert "No space left on device" in probe.detail
        assert probe.fix

    namespaces.inside(act, kernel.CLONE_NEWUSER)


@pytest.mark.parametrize(
    ("name", "sysctl"),
    [
        ("user namespaces", "max_user_namespaces"),
        ("/proc mount", "max_mnt_namespaces"),
        ("/proc mount", "max_pid_namespaces"),
        ("nftables", "max_net_namespaces"),
        ("overlay", "max_mnt_namespaces"),
    ],
)
def test_what_the_machine_forbids_is_not_claimed(name: str, sysctl: str) -> None:
    _forbidden(name, sysctl)


def test_an_act_that_fails_in_the_child_is_told_here() -> None:
    def fail() -> None:
        msg = "so it went"
        raise RuntimeError(msg)

    assert probes._in_child(fail, kernel.CLONE_NEWUSER) == "so it went"
    assert probes._in_child(lambda: None, kernel.CLONE_NEWUSER) == ""


def test_rules_the_kernel_does_not_take_are_told_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probes._nftables() == Probe(name="nftables", ok=True, detail="a network can be sealed")
    monkeypatch.setattr(nft, "BATCH", nft.BATCH.replace(b"redir\0", b"roder\0"))
    found = probes._nftables()
    assert (found.ok, "No such file" in found.detail) == (False, True)
    assert found.fix.startswith("sudo modprobe")


def test_a_sysctl_that_does_not_exist_is_empty() -> None:
    assert probes._read("/proc/sys/none") == ""
    assert probes._read("/proc/sys/kernel/ostype") == "Linux"


def test_the_apparmor_profile_names_this_interpreter() -> None:
    assert os.path.realpath(sys.executable) in probes._apparmor_fix()


def test_a_probe_is_a_value() -> None:
    assert Probe(name="a", ok=True, detail="b") == Probe(name="a", ok=True, detail="b", fix="")
