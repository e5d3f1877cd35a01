"""Programs are asked in boxes, and what they say is hostile text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.tools import ASKED, define, on_path, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation
    from tests.support.origin import Origin

pytestmark = pytest.mark.box
ENGINES = contract.FULL


@pytest.fixture
def bin_dir(own_installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return on_path(own_installation, tmp_path, monkeypatch)


def test_flags_that_are_missing_are_named_with_the_versions_that_have_them(
    own_installation: Installation, bin_dir: Path
) -> None:
    home = own_installation
    file = define(home.home / "config")
    put(bin_dir, ASKED)
    good = home.cli("agent", "check", "demo")
    assert (good.returncode, good.stderr) == (0, b"")
    assert good.stdout.splitlines()[1].split() == [b"demo", b"host", b"1.0.0", b"ok"]
    put(bin_dir, ASKED.replace("1.0.0", "0.8.1").replace("--full", "--half"))
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
    put(bin_dir, r"""printf '\033]0;owned\007\033[2J\033[31mcannot\n' >&2; exit 3""")
    done = home.cli("agent", "check", "demo")
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout + done.stderr
    assert rb"exit code 3: \x1b]0;owned" in done.stdout
    put(bin_dir, 'echo "demo 1.0.0"; yes " --full -p --model --flood" | head -c 30000000; echo x >&2')
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
    put(bin_dir, f"PORT={origin.port}; {looks} >&2; exit 1")
    assert b"exit code 1: []" in home.cli("agent", "check", "demo").stdout
    oracle = home.cli("run", "--allow-host", f"localhost:{origin.port}", "--", "demo")
    assert b"[secret" in oracle.stderr
    assert len(oracle.stderr) > len(b"[secret]\n"), "with a rule it is answered"
