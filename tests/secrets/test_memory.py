"""A process that closed its memory leaves no core dump, and other processes of its user cannot read it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_GET = "ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)"
_ASK = f"import ctypes; from paddock.secrets.memory import close_memory; print({_GET}); close_memory(); print({_GET})"
_HOLD = "from paddock.secrets.memory import close_memory; {}; print(flush=True); input()"


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_is_not_dumped_any_more() -> None:
    with python(_ASK) as process:
        assert process.communicate()[0].split() == ["1", "0"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every memory")
@pytest.mark.parametrize(("closing", "readable"), [("pass", True), ("close_memory()", False)])
def test_another_process_of_the_user_cannot_read_it(closing: str, readable: bool) -> None:
    with python(_HOLD.format(closing)) as process:
        assert process.stdout
        process.stdout.readline()
        environ = Path(f"/proc/{process.pid}/environ")
        try:
            assert bool(environ.read_bytes()) == readable
        except PermissionError:
            assert not readable
        process.communicate("\n")


_CRASH = """
import os, resource
from paddock.secrets.memory import leave_no_core
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
{}
print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)
os.abort()
"""


def crashed(place: Path, closing: str) -> tuple[list[str], list[str]]:
    """The limits of a process that crashes, and what it leaves in its directory."""
    place.mkdir()
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _CRASH.format(closing)]
    done = subprocess.run(command, env=env, cwd=place, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGABRT
    return done.stdout.split(), [path.name for path in place.iterdir()]


def test_a_process_that_leaves_no_core_is_not_written_down_when_it_crashes(tmp_path: Path) -> None:
    limits, left = crashed(tmp_path / "closed", "leave_no_core()")
    assert left == []
    assert set(limits) <= {"0", "1"}
    if "/" in (pattern := Path("/proc/sys/kernel/core_pattern").read_text()) or pattern.startswith("|"):
        pytest.skip("dumps go elsewhere on this machine: only the limit was looked at")
    assert crashed(tmp_path / "open", "")[1], "without it there is one"
