"""Boxes of an agent share its installed program, read-only, and keep what they began with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.model import BoxRequest
from tests.support import contract
from tests.support.tools import define, publish, put, text

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

CHANGES = """
cd "$1" || exit 9
for act in 'echo x >> data' 'chmod u+w data' 'rm -f bin/demo' 'mv data date' 'touch bin/new' 'ln -s x y' 'chmod u+w bin'
do sh -c "$act" 2>/dev/null && echo "did: $act"; done; true
"""


def _box(sdk: Paddock, workspace: Path, name: str = "one") -> Box:
    request = BoxRequest(agent="demo", definition=text(), name=name, workspace=str(workspace), caller_path="/usr/bin")
    return sdk.box(sdk.call("create", request=request, given={}))


def _said(box: Box, *argv: str) -> str:
    done = box.exec(argv)
    return (done.stdout + done.stderr).decode()


def test_a_box_of_the_agent_has_the_tool_first_on_its_path_and_cannot_change_it(own_installation: Installation) -> None:
    home = own_installation
    tool = publish(home.state)
    with home.sdk() as sdk, _box(sdk, home.workspace) as box:
        assert _said(box, "sh", "-c", "command -v demo; demo").startswith("/opt/paddock/demo/bin/demo\ndemo 1.0.0\n")
        path = _said(box, "printenv", "PATH")
        assert path.startswith("/opt/paddock/demo/bin:/run/paddock/bin:")
        assert _said(box, "sh", "-c", CHANGES, "sh", "/opt/paddock/demo") == ""
        assert tool.changed() == ()
        # The oracle: of a copy of its own the box changes everything, bits to write or not.
        copied = "cp -r /opt/paddock/demo /tmp/copy && chmod u+w /tmp/copy /tmp/copy/bin"
        assert _said(box, "sh", "-c", copied) == ""
        assert _said(box, "sh", "-c", CHANGES, "sh", "/tmp/copy").count("did: ") >= 6
        mounts = _said(box, "cat", "/proc/self/mountinfo")
        line = next(line for line in mounts.splitlines() if " /opt/paddock/demo " in line)
        assert {"ro", "nosuid", "nodev"} <= set(line.split()[5].split(","))
        assert "/opt/paddock/demo" in "\n".join(str(one) for one in sdk.call("plan", box="one"))  # type: ignore[attr-defined]
    other = home.sh("ls /opt/paddock /opt/paddock/demo; printenv PATH")
    assert b"/opt/paddock/demo/bin" not in other.stdout, "a box of another agent has it not"
    assert b"No such file" in other.stderr


def test_a_running_box_keeps_its_tool_and_the_next_start_takes_the_current_one(own_installation: Installation) -> None:
    home = own_installation
    define(home.home / "config")
    publish(home.state)
    with home.sdk() as sdk:
        box = _box(sdk, home.workspace)
        assert "demo 1.0.0" in _said(box, "demo")
        publish(home.state, "2.0.0", "echo demo 2.0.0")
        assert "demo 1.0.0" in _said(box, "demo")
        home.kill_daemon()  # the next one knows it again
    with home.sdk() as sdk:
        box = sdk.get("one")
        assert "demo 1.0.0" in _said(box, "demo")
        refused = home.cli("agent", "rm", "demo@1.0.0")
        assert (refused.returncode, refused.stdout) == (2, b"")
        assert b"error: demo 1.0.0 is used by one\nhint: `paddock stop one`" in refused.stderr
        assert "demo 1.0.0" in _said(box, "demo")
        assert home.cli("agent", "rm", "demo@2.0.0").returncode == 0, "nobody uses that"
        publish(home.state, "2.0.0", "echo demo 2.0.0")
        box.stop()
        assert "demo 2.0.0" in _said(box, "demo")
        removed = home.cli("agent", "rm", "demo@1.0.0")
        assert (removed.returncode, removed.stderr) == (0, b"demo 1.0.0 is removed; the next box takes 2.0.0\n")
        box.stop()
        assert home.cli("agent", "rm", "demo").returncode == 0
        assert "demo" not in _said(box, "ls", "/opt")
        again = home.cli("agent", "rm", "demo")
        assert (again.returncode, b"demo is not installed by paddock" in again.stderr) == (2, True)
        near = home.cli("agent", "rm", "demmo")
        assert b"did you mean 'demo'?" in near.stderr


def test_ten_boxes_share_one_copy(own_installation: Installation) -> None:
    home = own_installation
    publish(home.state)
    with home.sdk() as sdk:
        boxes = [_box(sdk, home.workspace, f"box{number}") for number in range(10)]
        places = {_said(box, "stat", "-c", "%d:%i", "/opt/paddock/demo/bin/demo") for box in boxes}
        assert len(places) == 1


def test_a_program_that_another_box_can_write_is_not_run(own_installation: Installation, tmp_path: Path) -> None:
    """Of a project whose programs are on the PATH: its box would work in the next one, with the files of that."""
    home, project = own_installation, tmp_path / "project"
    (project / "bin").mkdir(parents=True)
    put(project / "bin")
    home.environ["PATH"] = f"{project}/bin:{home.environ['PATH']}"
    define(home.home / "config", install="")
    assert home.cli("create", "--name", "its", "shell", str(project)).returncode == 0
    refused = home.cli("run", "demo", ".", "--", "hello")
    assert (refused.returncode, b"which the box 'its' can change" in refused.stderr) == (2, True), refused.stderr
    assert home.cli("run", "demo", str(project), "--", "hello").returncode == 0, "in its own it is its own matter"
    assert home.cli("rm", "-f", "its", "demo-project").returncode == 0
    assert home.cli("run", "demo", ".", "--", "hello").returncode == 0, "the oracle: no box can"
