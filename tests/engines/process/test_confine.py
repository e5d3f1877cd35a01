"""Becoming a box, step by step, in real namespaces: what each step takes away, and that it was there before."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock.engines.process import confine, kernel, landlock, seccomp
from tests.support import namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

KIT = confine.Kit(seccomp.build(), landlock.abi())
NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET
_SIOCSIFADDR = 0x8916


def _number(error: Callable[[], object]) -> int:
    """The error number an act ends with, or 0."""
    try:
        error()
    except OSError as found:
        return found.errno or -1
    return 0


# -- steps -------------------------------------------------------------------------------------------------------------


def test_the_network_is_sealed_with_loopback_alone() -> None:
    def act() -> None:
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("127.0.0.1", 9))) == errno.ENETUNREACH, "loopback is down at first"
        confine.seal_network({"sealed": False}, KIT, [])
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("127.0.0.1", 9))) == errno.ECONNREFUSED
        with socket.socket() as probe:
            assert _number(lambda: probe.connect(("198.51.100.1", 9))) == errno.ENETUNREACH

    namespaces.inside(act, NET)


def test_a_network_with_a_way_out_is_no_box() -> None:
    def act() -> None:
        confine.seal_network({"sealed": False}, KIT, [])
        address = struct.pack("16sH2x4s8x", b"lo", socket.AF_INET, socket.inet_aton("198.51.100.7"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _SIOCSIFADDR, address)
        with pytest.raises(OSError, match="has a way out"):
            confine.seal_network({"sealed": False}, KIT, [])

    namespaces.inside(act, NET)


def _settings() -> int:
    return os.open("/proc/sys", os.O_PATH | os.O_CLOEXEC)


def test_no_further_namespace_can_be_made_than_the_one_a_box_needs() -> None:
    wanted = {"user/max_user_namespaces": "1", "user/max_mnt_namespaces": "0", "user/none": "5"}

    def act() -> None:
        kernel.unshare(kernel.CLONE_NEWNS)
        confine.limit_namespaces({"namespace_limits": wanted, "settings": _settings()}, KIT, [])
        assert _number(lambda: kernel.unshare(kernel.CLONE_NEWNS)) == errno.ENOSPC
        kernel.unshare(kernel.CLONE_NEWUSER)
        assert _number(lambda: kernel.unshare(kernel.CLONE_NEWUSER)) in {errno.ENOSPC, errno.EPERM}

    namespaces.inside(act)


def test_a_limit_that_cannot_be_set_ends_the_box() -> None:
    def act() -> None:
        plan: dict[str, Any] = {"namespace_limits": {"user/max_user_namespaces": "1"}, "settings": _settings()}
        kernel.drop_all_capabilities()
        with pytest.raises(PermissionError):
            confine.limit_namespaces(plan, KIT, [])
        plan["namespace_limits"] = {"kernel/shmall": "1"}  # which older kernels keep to root
        confine.limit_namespaces(plan, KIT, [])

    before = Path("/proc/sys/kernel/shmall").read_text()
    namespaces.inside(act, namespaces.MOUNTS | kernel.CLONE_NEWIPC)
    assert Path("/proc/sys/kernel/shmall").read_text() == before  # the host's


def test_what_the_outer_namespace_owns_is_out_of_reach_of_the_inner_one(tmp_path: Path) -> None:
    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("x", os.fspath(tmp_path), "tmpfs")
        kernel.set_hostname("outer")
        confine._enter_inner_namespace({"pids": 50, "uid": 1234, "gid": 1235}, KIT, [])
        assert (os.getuid(), os.getgid()) == (1234, 1235)
        assert int(_status("CapEff"), 16) != 0, "root of the inner one"
        assert _number(lambda: kernel.mount("x", os.fspath(tmp_path), "tmpfs")) == errno.EPERM
        assert _number(lambda: kernel.unmount(os.fspath(tmp_path))) == errno.EPERM
        assert _number(lambda: kernel.set_hostname("inner")) == errno.EPERM
        assert resource.getrlimit(resource.RLIMIT_NPROC) == (50, 50)

    namespaces.inside(act, namespaces.MOUNTS | kernel.CLONE_NEWUTS)


def _status(key: str) -> str:
    return Path("/proc/self/status").read_text().split(f"{key}:")[1].split(maxsplit=1)[0]


def test_dropping_leaves_no_capability_no_privilege_and_the_limits_of_the_plan() -> None:
    plan = {"rlimits": [[resource.RLIMIT_CORE, 0, 0], [resource.RLIMIT_FSIZE, 4096, 8192]], "nice": 7}

    def act() -> None:
        assert int(_status("CapEff"), 16) != 0
        os.umask(0o077)
        confine._drop(plan, KIT, [])
        assert [int(_status(key), 16) for key in ("CapEff", "CapPrm", "CapBnd")] == [0, 0, 0]
        assert _status("NoNewPrivs") == "1"
        assert resource.getrlimit(resource.RLIMIT_FSIZE) == (4096, 8192)
        assert os.getpriority(os.PRIO_PROCESS, 0) >= 7
        assert os.umask(0) == 0o022

    namespaces.inside(act, kernel.CLONE_NEWUSER)


def test_who_was_started_with_less_priority_than_the_plan_says_keeps_it() -> None:
    def act() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, 17)
        confine._drop({"rlimits": [], "nice": 7}, KIT, [])
        assert os.getpriority(os.PRIO_PROCESS, 0) == 17
        with pytest.raises(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 7)

    namespaces.inside(act, kernel.CLONE_NEWUSER)


def test_only_what_is_named_stays_open() -> None:
    def act() -> None:
        ours, _theirs = socket.socketpair()
        listener = os.open("/dev/null", os.O_RDONLY)
        confine.close_descriptors({ours.fileno(), listener})
        left = {fd for fd in range(512) if _number(lambda fd=fd: os.fstat(fd)) == 0}  # type: ignore[misc]
        assert left == {0, 1, 2, ours.fileno(), listener}
        assert {os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}

    _in_silence(act)


def _in_silence(act: Callable[[], None]) -> None:
    """In a child whose standard error will be closed: its exit code tells."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.privileged
def test_a_root_callers_box_is_never_the_kernels_root() -> None:
    """The launcher writes the map; the step takes the mapped id, which is another outside."""
    gate, held = os.pipe()
    said, tell = os.pipe()
    pid = kernel.clone(kernel.CLONE_NEWUSER)
    if pid == 0:
        os.close(held)
        os.read(gate, 1)
        confine.map_ids({"oom_score_adj": 600}, KIT, [])
        os.write(tell, json.dumps([os.getuid(), Path("/proc/self/oom_score_adj").read_text()]).encode())
        os.read(gate, 1)
        os._exit(0)
    os.close(gate)
    for name, text in (("setgroups", "deny"), ("uid_map", "0 1900000000 1"), ("gid_map", "0 1900000000 1")):
        confine.write_file(f"/proc/{pid}/{name}", text)
    os.close(held)
    assert json.loads(os.read(said, 100)) == [0, "600\n"]
    os.waitpid(pid, 0)
    for fd in (said, tell):
        os.close(fd)


# -- the whole, when it fails ------------------------------------------------------------------------------------------


def _entered(data: bytes, fds: list[int] | None = None) -> tuple[dict[str, Any] | None, int]:
    """What `enter` reports for these bytes, and how its process ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)

    def act() -> None:
        ours.close()
        confine.enter(theirs, 0, KIT)

    pid = namespaces.spawn(act, 0)  # no new namespace: a box never comes up here
    theirs.close()
    try:
        if data:
            socket.send_fds(ours, [data], fds or [])
        else:
            ours.shutdown(socket.SHUT_WR)
        answer = ours.recv(1 << 16)
    finally:
        ours.close()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (json.loads(answer) if answer else None), code


def test_a_daemon_that_changes_its_mind_leaves_no_box() -> None:
    assert _entered(b"") == (None, 0)


def test_a_plan_that_does_not_fit_is_not_believed_in_part() -> None:
    assert _entered(b"x" * (confine.PLAN_BYTES + 1)) == (None, 0)


@pytest.mark.parametrize(("data", "step"), [(b"{", "plan"), (b"[]", "ids"), (b"{}", "ids")])
def test_a_step_that_fails_is_named_and_no_box_comes_up(data: bytes, step: str) -> None:
    report, code = _entered(data)
    assert report is not None
    assert (report["ok"], report["step"], code) == (False, step, 71)


def test_a_report_to_nobody_is_no_error() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    confine.report(theirs, "step", OSError(errno.EIO, "x"))
    theirs.close()


def test_the_kit_knows_who_calls() -> None:
    assert (KIT.uid, KIT.gid, KIT.is_root) == (os.getuid(), os.getgid(), os.getuid() == 0)
    assert len(KIT.filters) == 3
