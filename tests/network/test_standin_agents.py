"""Kiro and cagent, which no registry of packages has: what their definitions say is what their documentation says.

Programs that take exactly the documented flags stand in for them (tests/support/standins.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import agents, fs
from tests.support import standins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
OUTSIDE = "other.example"
FIRST, SECOND = "--count the lambs", "And now the ewes."


@pytest.fixture
def installation(online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Online]:
    """With the stand-ins on its PATH, and a key of theirs."""
    place = tmp_path / "bin"
    place.mkdir()
    standins.write(place)
    monkeypatch.setitem(online.environ, "PATH", f"{place}:{online.environ['PATH']}")
    assert online.cli("secret", "set", "anthropic", stdin=b"sk-ant-api03-" + b"k" * 60).returncode == 0
    yield online
    assert online.cli("secret", "rm", "anthropic").returncode == 0
    for entry in online.workspace.iterdir():
        fs.remove_tree(str(entry))


def run(online: Online, agent: str, *words: str) -> CompletedProcess[bytes]:
    return online.cli("run", "--name", f"stands-{agent}", agent, ".", "--", *words)


def test_those_and_no_others_were_never_run_for_real() -> None:
    assert {name for name in agents.built_in() if agents.of(name, "").stand_in} == {"kiro", "cagent"}


@pytest.mark.parametrize("agent", ["kiro", "cagent"])
def test_a_stand_in_understands_what_its_definition_says(installation: Online, internet: Internet, agent: str) -> None:
    first = run(installation, agent, "--", FIRST)
    assert (first.returncode, first.stdout) == (0, f"told before: nothing\ndone: {FIRST}\n".encode()), first.stderr
    workspace = installation.workspace
    assert [(workspace / name).read_text() for name in ("proof.txt", "made.txt")] == ["kept\n", "by its own tool\n"]
    assert (workspace / "outside.txt").read_text().startswith(f"paddock: {OUTSIDE}:443 is denied for box")
    assert internet.run(["curl", "-sSf", f"https://{OUTSIDE}/"]).returncode == 0, "outside of the box it is there"
    second = run(installation, agent, "--continue", SECOND)
    assert second.stdout == f"told before: {FIRST}\ndone: {SECOND}\n".encode(), second.stderr
    lost = run(installation, agent, "--frobnicate", FIRST.strip("-"))
    assert lost.returncode == 1
    (row,) = json.loads(installation.cli("runs", "--json", "--limit", "1").stdout)
    assert row["reason"] == "failed"
    assert row["why"].startswith("it does not know a word of its command line")
