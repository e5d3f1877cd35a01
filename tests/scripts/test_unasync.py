"""The blocking SDK is made from the async one, and is in step with it."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.style.source import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = ROOT / "scripts/unasync.py"
CLIENT = ROOT / "src/paddock/client"


def test_the_blocking_sdk_is_in_step() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_stale_file_is_named_and_then_made(tmp_path: Path) -> None:
    copy = tmp_path / "scripts/unasync.py"
    copy.parent.mkdir()
    copy.write_bytes(SCRIPT.read_bytes())
    source = tmp_path / "src/paddock/client/_async"
    source.mkdir(parents=True)
    (source / "core.py").write_text("async def f() -> None:\n    await g()\n")
    checked = subprocess.run([sys.executable, copy, "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (1, "not in step with _async/: core.py\n")
    assert not (tmp_path / "src/paddock/client/_sync").exists(), "a check writes nothing"
    subprocess.run([sys.executable, copy], check=True)
    assert (tmp_path / "src/paddock/client/_sync/core.py").read_text() == "def f() -> None:\n    g()\n"
    subprocess.run([sys.executable, copy, "--check"], check=True)


@pytest.mark.parametrize("name", sorted(path.name for path in (CLIENT / "_sync").glob("*.py")))
def test_nothing_of_an_event_loop_is_left_in_it(name: str) -> None:
    text = (CLIENT / "_sync" / name).read_text("utf-8")
    tree = ast.parse(text)
    banned = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, banned)] == []
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert [found for found in names if found.startswith("Async") or found == "asyncio"] == []


@pytest.mark.parametrize("name", sorted(path.name for path in (CLIENT / "_async").glob("*.py")))
def test_both_have_the_same_classes_and_methods(name: str) -> None:
    def shape(directory: str) -> list[str]:
        tree = ast.parse((CLIENT / directory / name).read_text("utf-8"))
        return [
            f"{node.name}.{item.name}".replace("Async", "").replace("__a", "__")
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for item in node.body
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]

    assert shape("_async") == shape("_sync")
