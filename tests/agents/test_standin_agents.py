"""Kiro and cagent, which no registry of packages has: what their definitions say is what their documentation says.

Programs that take exactly the documented flags stand in for them (tests/support/standins.py).
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from tests.support import standins
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.support.installation import Installation
    from tests.support.origin import Origin

pytestmark = pytest.mark.box
FIRST, SECOND = "--count the lambs", "And now the ewes."


def run(installation: Installation, programs: Path, agent: str, *words: str) -> CompletedProcess[bytes]:
    """With a key of a provider, which is cagent's, and the programs on the PATH."""
    env = {"PATH": f"{programs}:{installation.environ['PATH']}", "ANTHROPIC_API_KEY": "sk-ant-api03-" + "k" * 60}
    return installation.cli("run", "--name", f"stands-{agent}", agent, ".", "--", *words, env=env)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    standins.write(place)
    return place


def test_those_and_no_others_were_never_run_for_real() -> None:
    assert {name for name in agents.built_in() if agents.of(name, "").stand_in} == {"kiro", "cagent"}


@pytest.mark.parametrize("agent", ["kiro", "cagent"])
def test_a_stand_in_understands_what_its_definition_says(
    installation: Installation, programs: Path, origin: Origin, agent: str
) -> None:
    workspace = installation.workspace
    (workspace / "outside.json").write_text(json.dumps(origin.fetch()))
    first = run(installation, programs, agent, "--", FIRST)
    assert (first.returncode, first.stdout) == (0, f"told before: nothing\ndone: {FIRST}\n".encode()), first.stderr
    assert [(workspace / name).read_text() for name in ("proof.txt", "made.txt")] == ["kept\n", "by its own tool\n"]
    assert ANSWER not in (workspace / "outside.txt").read_bytes()
    assert subprocess.run(origin.fetch(), capture_output=True, check=True).stdout == ANSWER, "outside it is there"
    second = run(installation, programs, agent, "--continue", SECOND)
    assert second.stdout == f"told before: {FIRST}\ndone: {SECOND}\n".encode(), second.stderr
    lost = run(installation, programs, agent, "--frobnicate", SECOND)
    assert lost.returncode == 1
    (row,) = json.loads(installation.cli("runs", "--json", "--limit", "1").stdout)
    assert row["reason"] == "failed"
    assert row["why"].startswith("it does not know a word of its command line")
