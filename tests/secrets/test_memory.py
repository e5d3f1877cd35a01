"""A process that closed its memory leaves no core dump, and other processes of its user cannot read it."""

from __future__ import annotations

import os
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
