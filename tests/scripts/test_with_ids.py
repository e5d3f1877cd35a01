"""scripts/with-ids: an account with subordinate ids, for one command, and nothing of it on the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.style.source import ROOT

SCRIPT = ROOT / "scripts/with-ids"
LOOK = """
import os, pwd, socket
from paddock.engines.container import ids
from paddock.engines.process import kernel
granted = ids.own(os.getuid(), os.getgid())
ours, theirs = socket.socketpair()
child = os.fork()
if not child:
    kernel.unshare(kernel.CLONE_NEWUSER)
    theirs.send(b"1")
    theirs.recv(1)
    os._exit(0)
ours.recv(1)
ids.give(child, granted)
print(pwd.getpwuid(os.getuid()).pw_name, os.getgroups(), granted.count, granted.by_tool)
print(open(f"/proc/{child}/uid_map").read().split())
ours.send(b"1")
os.waitpid(child, 0)
"""


@pytest.mark.box
@pytest.mark.privileged
def test_a_command_has_an_account_with_ids_that_the_machine_has_not() -> None:
    before = [Path(f"/etc/{name}").read_bytes() for name in ("passwd", "group", "subuid", "subgid")]
    done = subprocess.run(
        [SCRIPT, "/usr/bin/python3", "-c", LOOK],
        env={"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if "Permission denied" in done.stderr or "No module named" in done.stderr:
        pytest.skip("another user cannot read this tree")
    assert done.stdout.splitlines() == [
        "paddock-tests [] 65536 True",
        "['0', '61234', '1', '1', '1700000000', '65535']",
    ], done.stderr
    assert before == [Path(f"/etc/{name}").read_bytes() for name in ("passwd", "group", "subuid", "subgid")]


def test_without_a_command_it_says_how_it_is_used() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: scripts/with-ids COMMAND...\n")


@pytest.mark.skipif(os.getuid() == 0, reason="root may")
def test_it_says_that_it_needs_root() -> None:
    done = subprocess.run([SCRIPT, "true"], capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stderr) == (2, "error: scripts/with-ids needs root\n")
