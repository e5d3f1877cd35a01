"""ruff, mypy and bash as test cases: one command, one report. A missing tool is skipped, but not in CI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.style.source import ROOT, write_tree

if TYPE_CHECKING:
    from pathlib import Path

RUFF_CHECK = ("ruff", "check", "--config", "pyproject.toml")
RUFF_FORMAT = ("ruff", "format", "--check", "--config", "pyproject.toml")
MYPY = ("mypy", "--strict", "--config-file", "pyproject.toml")
SCRIPTS = ("test", ".ci/run")


def complaints(tool: str, *args: str | Path) -> str:
    """What a tool says when it fails; empty when it is content."""
    require(tool, present=importlib.util.find_spec(tool) is not None)
    done = subprocess.run(
        [sys.executable, "-m", tool, *args], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def assert_content(tool: str, *args: str | Path) -> None:
    if said := complaints(tool, *args):
        pytest.fail(said, pytrace=False)  # an assert would show the first lines only


def require(tool: str, *, present: bool) -> None:
    if present:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{tool} is not installed")
    pytest.skip(f"{tool} is not installed; ./test installs it")


def test_ruff_has_no_complaint() -> None:
    assert_content(*RUFF_CHECK, ".")


def test_everything_is_formatted() -> None:
    assert_content(*RUFF_FORMAT, ".")


def test_types_are_strict() -> None:
    assert_content(*MYPY)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_executable_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], timeout=10, check=True)


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("src/paddock/a.py", "import os\n", "F401"),
        ("src/paddock/a.py", "print(1)\n", "T201"),
        ("src/paddock/a.py", "def f(x):\n    return x\n", "ANN001"),
        ("tests/test_a.py", "import os\n", "F401"),
    ],
)
def test_ruff_complains_about_bad_code(tmp_path: Path, path: str, text: str, said: str) -> None:
    write_tree(tmp_path, {path: text})
    assert said in complaints(*RUFF_CHECK, tmp_path)


def test_an_unformatted_file_is_named(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = { 1:2 }\n"})
    assert "a.py" in complaints(*RUFF_FORMAT, tmp_path)


def test_mypy_complains_about_loose_code(tmp_path: Path) -> None:
    write_tree(tmp_path, {"loose.py": "def f(x):\n    return x\n"})
    assert "[no-untyped-def]" in complaints(*MYPY, tmp_path / "loose.py")


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_tool_is_skipped_but_not_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="shellfish is not installed"):
        require("shellfish", present=shutil.which("shellfish") is not None)
