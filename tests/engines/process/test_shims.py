"""Programs that cannot work in a box say so and exit as the real ones would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.engines.process import shims


@pytest.mark.parametrize(("name", "status"), shims.PROGRAMS.items())
def test_a_shim_names_itself_and_the_way_out(tmp_path: Path, name: str, status: int) -> None:
    program = os.path.join(shims.prepare(str(tmp_path)), "bin", name)
    result = subprocess.run([program, "install", "x"], capture_output=True, text=True, check=False, timeout=10)
    assert result.returncode == status
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"error: {name} is not available in a process box",
        "hint: a template has it: paddock run -t base ...",
    ]


def test_a_shell_finds_the_shim_before_the_real_program(tmp_path: Path) -> None:
    path = f"{shims.prepare(str(tmp_path))}/bin:/usr/bin:/bin"
    result = subprocess.run(
        ["/bin/sh", "-c", "command -v su"], capture_output=True, text=True, check=True, env={"PATH": path}, timeout=10
    )
    assert result.stdout.strip() == f"{shims.prepare(str(tmp_path))}/bin/su"


def test_everyone_can_run_them_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = Path(shims.prepare(str(tmp_path)))
    finally:
        os.umask(before)
    assert {entry.stat().st_mode & 0o777 for entry in (path, path / "bin", *(path / "bin").iterdir())} == {0o755}


def test_a_second_call_writes_nothing(tmp_path: Path) -> None:
    path = Path(shims.prepare(str(tmp_path)))
    before = (path / "bin/sudo").stat()
    assert shims.prepare(str(tmp_path)) == str(path)
    assert (path / "bin/sudo").stat().st_ino == before.st_ino
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_files_wait_to_be_covered_by_a_boxs_own(tmp_path: Path) -> None:
    path = Path(shims.prepare(str(tmp_path)))
    assert sorted(entry.name for entry in path.iterdir()) == ["bin", "ca-bundle.pem", "denials.jsonl"]
    assert [(path / name).read_bytes() for name in shims.FILES] == [b"", b""]
