"""State of an agent that outlives its box, and state that does not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.robots import Robot, robot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
SAY = "mkdir -p ~/.robot ~/.config/robot ~/.cache; echo talk >> ~/.robot/log; touch ~/.config/robot/x ~/.cache/y"
LOOK = "cd; cat .robot/log; ls -d .config/robot/x; ls -d .cache 2>/dev/null || echo no cache"


@pytest.fixture
def agent(installation: Installation) -> Iterator[Robot]:
    with robot(installation) as made:
        yield made


def test_state_survives_a_stop_and_is_kept_for_the_next_box_of_the_directory(agent: Robot) -> None:
    cli = agent.installation.cli
    agent.says(SAY)
    assert cli("stop", agent.box).returncode == 0
    assert agent.says(LOOK).split("\n")[:1] == ["talk"], "it is there after a stop"
    done = cli("rm", "-f", "--keep-state", agent.box)
    assert (done.returncode, done.stdout) == (0, f"{agent.box}\n".encode())
    assert b"state is kept" in done.stderr
    other = agent.installation.workspace / "other"
    other.mkdir()
    elsewhere = agent.installation.cli("run", agent.name, str(other), "--", "ls -A ~/.robot")
    assert elsewhere.stdout == b"settings.json\n", "another directory has another state"
    back = agent.does(f"{LOOK}; echo more >> ~/.robot/log && cat ~/.robot/settings.json")
    assert back.returncode == 0, back.stderr
    assert back.stdout.decode().split("\n")[:3] == ["talk", ".config/robot/x", "no cache"], "state, and nothing else"
    assert b'"seeded": true' in back.stdout
    assert b"has the state of robot that was kept" in back.stderr
    assert os.listdir(agent.installation.state / "kept") == []
    assert b"has the state" not in agent.does("true").stderr, "it is said once"
    assert cli("rm", "-f", agent.box).returncode == 0
    assert agent.does("cat ~/.robot/log").returncode == 1, "a removal without the word drops it"


def test_state_that_a_checkpoint_froze_is_kept_with_what_came_after(agent: Robot) -> None:
    cli = agent.installation.cli
    agent.says(SAY)
    assert cli("checkpoint", "create", "--stop", agent.box).returncode == 0
    agent.says("echo later >> ~/.robot/log; rm ~/.config/robot/x; cat ~/.robot/settings.json")
    assert cli("checkpoint", "create", "--stop", agent.box).returncode == 0
    agent.says("echo last > ~/.robot/last")
    assert cli("rm", "-f", "--keep-state", agent.box).returncode == 0
    assert cli("checkpoint", "prune").returncode == 0
    seen = agent.says("cd; cat .robot/log .robot/last .robot/settings.json; ls .config/robot; ls -d .cache || true")
    assert seen.split("\n")[:3] == ["talk", "later", "last"]
    assert '"seeded": true' in seen
    assert cli("rm", "-f", agent.box).returncode == 0


def test_a_killed_daemon_loses_no_kept_state(own_installation: Installation) -> None:
    with robot(own_installation) as agent:
        agent.says(SAY)
        assert own_installation.cli("rm", "-f", "--keep-state", agent.box).returncode == 0
        own_installation.kill_daemon()
        assert agent.says(LOOK).startswith("talk\n")
        assert own_installation.cli("rm", "-f", "--keep-state", agent.box).returncode == 0
        assert own_installation.cli("reset", "-f").returncode == 0
        assert agent.does("cat ~/.robot/log").returncode == 1, "reset removes everything"
        assert own_installation.cli("reset", "-f").returncode == 0


def test_what_has_no_state_is_told(agent: Robot) -> None:
    cli = agent.installation.cli
    cli("create", "plain")
    refused = cli("rm", "--keep-state", "plain")
    assert (refused.returncode, b"shell has no state" in refused.stderr) == (2, True)
    assert cli("rm", "plain").returncode == 0, "and the box is still there"
    cli("create", agent.name, ".")
    never_ran = cli("rm", "--keep-state", agent.box)
    assert (never_ran.returncode, b"had no state" in never_ran.stderr) == (0, True)
