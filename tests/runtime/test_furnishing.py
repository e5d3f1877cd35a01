"""Before a box starts it gets what its agent needs, and a command alone needs nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from tests.support import scripted

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box


def test_every_start_finds_the_seeds_and_the_agents_environment_is_in_all_commands(
    installation: Installation,
) -> None:
    file = str(scripted.install(installation.workspace, "rm -r ~/.mine"))
    assert installation.cli("run", "--agent-file", file, "--", "p").returncode == 0
    show = ("exec", "mine-workspace", "sh", "-c", "echo $MINE; cat ~/.mine/config.json")
    assert installation.cli(*show).stdout == b"its own\n", "a running box is left alone"
    assert installation.cli("stop", "mine-workspace").returncode == 0
    mine, _, rest = installation.cli(*show).stdout.partition(b"\n")
    assert (mine, json.loads(rest)) == (b"its own", {"trusted": {str(installation.workspace): True}})
    changed = installation.cli("run", "-e", "MINE=mine", "mine-workspace", "--", "p")
    assert changed.returncode == 0
    assert installation.cli("exec", "mine-workspace", "sh", "-c", "echo $MINE").stdout == b"mine\n"


def test_a_shell_has_no_seeds() -> None:
    assert agents.of("shell", "").plain
    assert agents.of("shell", "").seed == ()
