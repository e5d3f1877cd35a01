"""Programs are asked in boxes, what they say is hostile text, and what was learned is not asked for again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.cli import checking
from paddock.errors import Unavailable, UserError
from tests.support.tools import define, publish, text

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.agents import Found
    from tests.support.installation import Installation
    from tests.support.origin import Origin

pytestmark = pytest.mark.box

ASKS = """case "$1" in
--version) echo demo 1.0.0;; --help) echo ' -p  --full  --model NAME';; esac"""


@pytest.fixture
def bin_dir(own_installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the caller's PATH that boxes see."""
    place = tmp_path / "programs/bin"
    place.mkdir(parents=True)
    path = f"{place}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    own_installation.environ["PATH"] = path
    return place


def _program(place: Path, body: str) -> None:
    (place / "demo").write_text(f"#!/bin/sh\n{body}\n")
    (place / "demo").chmod(0o755)


def _found() -> Found:
    return agents.Found(agent=agents.parse(text()), definition=text())


def test_flags_that_are_missing_are_named_with_the_versions_that_have_them(
    own_installation: Installation, bin_dir: Path
) -> None:
    home = own_installation
    file = define(home.home / "config")
    _program(bin_dir, ASKS)
    good = home.cli("agent", "check", "demo")
    assert (good.returncode, good.stderr) == (0, b"")
    assert good.stdout.splitlines()[1].split() == [b"demo", b"host", b"1.0.0", b"ok"]
    _program(bin_dir, ASKS.replace("1.0.0", "0.8.1").replace("--full", "--half"))
    off = home.cli("agent", "check", "--json", "demo")
    [row] = json.loads(off.stdout)
    assert (off.returncode, row["version"], row["missing"]) == (1, "0.8.1", ["--full"])
    assert row["problems"] == ["no --full (0.9 and later have it)"]
    assert row["hint"] == "`paddock agent install demo@1.0.0`"
    every = home.cli("agent", "check")
    assert (every.returncode, b"demo" in every.stdout) == (1, True)
    (bin_dir / "demo").unlink()
    gone = home.cli("agent", "check", "--agent-file", str(file))
    assert (gone.returncode, b"Demo is not installed" in gone.stdout) == (1, True)
    near = home.cli("agent", "check", "dem")
    assert (near.returncode, b"did you mean 'demo'?" in near.stderr) == (2, True)


def test_what_a_program_says_is_hostile_text(own_installation: Installation, bin_dir: Path) -> None:
    home = own_installation
    define(home.home / "config")
    _program(bin_dir, r"""printf '\033]0;owned\007\033[2J\033[31mcannot\n' >&2; exit 3""")
    done = home.cli("agent", "check", "demo")
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout + done.stderr
    assert rb"exit code 3: \x1b]0;owned" in done.stdout
    _program(bin_dir, 'echo "demo 1.0.0"; yes " --full -p --model --flood" | head -c 30000000; echo x >&2')
    flood = home.cli("agent", "check", "--json", "demo")
    assert flood.returncode == 0
    assert len(flood.stdout) < 2000
    assert (home.state / "probes.json").stat().st_size < 5000


def test_a_program_is_asked_without_network_and_without_files_of_its_users(
    own_installation: Installation, bin_dir: Path, origin: Origin
) -> None:
    home = own_installation
    define(home.home / "config")
    (home.workspace / "secret").write_text("x")
    looks = 'echo "[$(ls)$(ls -A ~)$(curl -sm5 http://localhost:$PORT/)]"'
    _program(bin_dir, f"PORT={origin.port}; {looks} >&2; exit 1")
    assert b"exit code 1: []" in home.cli("agent", "check", "demo").stdout
    oracle = home.cli("run", "--allow-host", f"localhost:{origin.port}", "--", "demo")
    assert b"[secret" in oracle.stderr
    assert len(oracle.stderr) > len(b"[secret]\n"), "with a rule it is answered"


def test_before_a_run_a_program_is_asked_once(own_installation: Installation, bin_dir: Path) -> None:
    home = own_installation
    _program(bin_dir, ASKS)
    with home.sdk() as sdk:
        assert checking.ensure(sdk, _found(), ["-p", "--full", "hello"]) == "1.0.0"
        known = (home.state / "probes.json").read_bytes()
        assert checking.ensure(sdk, _found(), ["-p", "--full", "hello"]) == "1.0.0"
        assert (home.state / "probes.json").read_bytes() == known
        assert sdk.ls() == []
        _program(bin_dir, ASKS.replace("--full", "--half").replace("1.0.0", "0.8.1"))
        with pytest.raises(UserError, match=r"demo 0\.8\.1 has no --full: 0\.9 and later have it"):
            checking.ensure(sdk, _found(), ["-p", "--full", "hello"])
        assert checking.ensure(sdk, _found(), ["-p", "hello"]) == "0.8.1"
        _program(bin_dir, "exit 4")
        with pytest.raises(Unavailable, match="demo does not work in a box: exit code 4"):
            checking.ensure(sdk, _found(), ["-p"])
        (bin_dir / "demo").unlink()
        with pytest.raises(UserError, match="Demo is not installed"):
            checking.ensure(sdk, _found(), ["-p"])
        publish(home.state, body=ASKS)
        assert checking.ensure(sdk, _found(), ["-p", "--full"]) == "1.0.0"
