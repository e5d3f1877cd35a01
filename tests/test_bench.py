"""`./bench` measures for real and says what it found in the documented form."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.box
ROOT = Path(__file__).resolve().parents[1]


def test_a_group_yields_a_document_with_the_documented_keys(tmp_path: Path) -> None:
    file, scratch = tmp_path / "figures.json", tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [ROOT / "bench", "--only", "exec", "--json", file],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)},
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert json.loads(done.stdout) == document
    assert document["machine"].keys() >= {"cores", "memory_mib", "kernel", "python", "uid"}
    assert document["machine"]["uid"] == os.getuid()
    group = document["groups"]["exec"]
    assert group["machine"].keys() >= {"quiet", "why_not", "before", "after", "stolen", "others"}
    (figure,) = group["figures"]
    assert figure["name"] == "exec_sdk"
    assert figure.keys() >= {"what", "unit", "n", "p50", "p95", "target", "verdict", "yardsticks"}
    assert figure["verdict"] in ({"holds", "misses"} if group["machine"]["quiet"] else {"unclear"})
    (yardstick,) = figure["yardsticks"]
    assert yardstick.keys() >= {"name", "n", "p50", "p95", "ratio"}
    assert b"command in a running box" in done.stderr
    assert list(scratch.iterdir()) == []


def test_an_unknown_group_is_refused() -> None:
    done = subprocess.run([ROOT / "bench", "--only", "speed"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"speed" in done.stderr
