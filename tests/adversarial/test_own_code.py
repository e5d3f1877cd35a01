"""Paddock's own program: a box that shows it must not be able to change it, or its next run is the agent's.

The quick start runs `./paddock` in a fresh clone, so that the clone is the workspace.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import attack, contract
from tests.support.installation import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

CHANGE = """
import shutil
top, marker = ARGS
os.chdir(top)
evil = f"open({marker!r}, 'w').close()\\n"
def write(path, mode="a"):
    with open(path, mode) as file:
        file.write(evil)
def swap(path):
    os.rename(path, path + ".old")
    shutil.copytree(path + ".old", path, symlinks=True)
results = {
    "module": attempt(write, "src/paddock/cli/main.py"),
    "module beside it": attempt(write, "src/json.py"),
    "compiled": attempt(write, "src/paddock/evil.pyc"),
    "cache": attempt(os.makedirs, "src/paddock/cli/__pycache__/x"),
    "program": attempt(write, "paddock"),
    "program removed": attempt(os.unlink, "paddock"),
    "program renamed": attempt(os.rename, "paddock", "moved"),
    "package swapped": attempt(swap, "src/paddock"),
    "tree swapped": attempt(swap, "src"),
    "tree moved": attempt(os.rename, "src", "other"),
    "readme": attempt(write, "README.md"),
}
say(results)
"""


def clone(place: Path) -> Path:
    place.mkdir(parents=True)
    for name in ("src", "paddock", "README.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, place / name)
    (place / "README.md").touch()
    return place


def paddock(place: Path, installation: Installation, cwd: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    argv = [str(place / "paddock"), *words]
    return subprocess.run(argv, cwd=cwd, env=installation.environ, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("depth", ["", "paddock", "tools/paddock"])
def test_a_box_cannot_change_the_program_that_holds_it(
    own_installation: Installation, tmp_path: Path, depth: str
) -> None:
    """The workspace is the clone itself, or a directory above it, whose parts could be renamed on the way."""
    workspace, marker = tmp_path / "code", tmp_path / "code" / "ran-on-the-host"
    place = clone(workspace / depth)
    change = attack.program(CHANGE, str(place), str(marker))
    done = paddock(place, own_installation, workspace, "run", "--", *change)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results.pop("readme") == "ok"  # the oracle: the rest of the clone is the box's to change
    assert set(results.values()) <= {"EROFS", "EBUSY"}, results
    if depth:
        moves = "say([attempt(os.rename, path, path + '.old') for path in ARGS])"
        parts = [str(workspace / depth.partition("/")[0]), str(place)]
        done = paddock(place, own_installation, workspace, "run", "--", *attack.program(moves, *dict.fromkeys(parts)))
        assert set(json.loads(done.stdout)) == {"EBUSY"}
    assert paddock(place, own_installation, workspace, "ls").returncode == 0
    assert not marker.exists()


def test_the_virtual_environment_that_runs_us_cannot_be_changed(own_installation: Installation, tmp_path: Path) -> None:
    """As after `pip install paddock` into the project's own environment."""
    place = clone(tmp_path / "clone")
    workspace = tmp_path / "project"
    workspace.mkdir()
    subprocess.run([attack.PYTHON, "-m", "venv", "--without-pip", str(workspace / ".venv")], check=True)
    own_installation.environ["PADDOCK_PYTHON"] = str(workspace / ".venv" / "bin" / "python")
    program = """
os.chdir(ARGS[0])
say([attempt(open, ".venv/pyvenv.cfg", "a"), attempt(os.rename, ".venv", "x"), attempt(open, ".venv/bin/evil", "w"),
     attempt(open, "file", "w")])
"""
    done = paddock(place, own_installation, workspace, "run", "--", *attack.program(program, str(workspace)))
    assert json.loads(done.stdout) == ["EROFS", "EBUSY", "EROFS", "ok"]


def test_without_the_protection_the_change_runs_on_the_host(own_installation: Installation, tmp_path: Path) -> None:
    """The oracle: the same change, made outside, runs with the next command."""
    place, marker = clone(tmp_path / "code"), tmp_path / "ran-on-the-host"
    change = CHANGE.replace('    "program', "    #")  # which leaves the program where it is
    assert set(attack.outside(change, str(place), str(marker)).values()) == {"ok"}
    (place / "other").rename(place / "src")
    paddock(place, own_installation, place, "version")
    assert marker.exists()
    assert own_installation.cli("ls").returncode == 0


def test_a_part_of_the_program_is_no_workspace(own_installation: Installation, tmp_path: Path) -> None:
    place = clone(tmp_path / "code")
    for part in ("src", "src/paddock", "src/paddock/cli"):
        done = paddock(place, own_installation, place / part, "run", "--", "true")
        assert done.returncode == 2
        assert b"paddock's own program" in done.stderr
    assert paddock(place, own_installation, place, "run", "-v", f"{place}/src:/mnt/x:ro", "--", "true").returncode == 0
    assert paddock(place, own_installation, place, "run", "-v", f"{place}/src:/mnt/x", "--", "true").returncode == 2
