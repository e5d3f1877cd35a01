"""The gateway that really runs is in jail, and its log stays small whatever boxes provoke."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from paddock.daemon import gateway_main
from tests.style.source import SRC
from tests.support.scene import Scene, play


def status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


@pytest.mark.box
def test_the_running_gateway_has_no_privilege_and_no_files() -> None:
    def act(scene: Scene) -> None:
        pid = scene.gateway.pid
        found = status(pid)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(found[name], 16) == 0
        assert (found["NoNewPrivs"], found["Seccomp"], found["Threads"]) == ("1", "2", "1")
        assert found["NSpid"].split()[-1] == "1"
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert file.read().strip(b"\0") == b"paddock-gateway"
        if not os.access(f"/proc/{pid}/ns/user", os.R_OK) and os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return  # not even its own user may look further
        for name in ("user", "mnt", "pid", "ipc", "uts", "cgroup"):
            assert _namespace(pid, name) != _namespace(os.getpid(), name), name
        assert _namespace(pid, "net") == _namespace(os.getpid(), "net"), "the network is what it is for"
        assert os.listdir(f"/proc/{pid}/root") == []

    play(act)


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")


def test_the_log_is_bounded() -> None:
    """In a process of its own: the log of a gateway is all that process says."""
    code = (
        "import logging; from paddock.daemon import gateway_main; gateway_main._log();"
        "[logging.error('line %d', number) for number in range(10_000)]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert 0 < len(lines) < 2 * gateway_main._LOG_BURST
    assert "gateway root: line 0" in lines[0]
