"""Two programs live inside boxes: init, a package that needs nothing else of ours, and the launcher, which is small.

Every module the launcher loads is memory in every box and time at every start, so the heavy ones are banned from all
it can reach.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.style.source import SRC, Import, Module, modules, within, write_tree

if TYPE_CHECKING:
    from pathlib import Path

GUEST = "paddock.engines.guest"
LAUNCHER = "paddock.engines.process.launcher"
HEAVY = ("dataclasses", "typing", "asyncio", "subprocess", "sqlite3")


def ties_of_init(src: Path) -> list[str]:
    """What init imports that a bare interpreter does not have."""
    parts = [module for name, module in modules(src).items() if within(name, GUEST)]
    targets = [item.target for module in parts for item in module.imports()]
    return [
        target
        for target in targets
        if target.partition(".")[0] not in sys.stdlib_module_names and not within(target, GUEST)
    ]


def heavy_imports(src: Path, start: str) -> list[str]:
    known = modules(src)
    problems = []
    for name in sorted(_reachable(known, start)):
        module = known[name]
        for item in _at_run_time(module):
            problems += [f"{module.path}:{item.line}: {heavy}" for heavy in HEAVY if within(item.target, heavy)]
    return problems


def loaded_heavy(src: Path, start: str) -> list[str]:
    """The heavy modules that importing `start` really loads, the standard library's own doing included."""
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import {start}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, src], capture_output=True, text=True, timeout=30, check=True
    )
    return [name for name in HEAVY if name in done.stdout.split()]


def _reachable(known: dict[str, Module], start: str) -> set[str]:
    """`start`, the modules it imports, the packages around them, and so on."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        while name:
            if name in known and name not in found:
                found.add(name)
                waiting += [item.target for item in _at_run_time(known[name])]
            name = name.rpartition(".")[0]
    return found


def _at_run_time(module: Module) -> list[Import]:
    return [item for item in module.imports() if not item.typing_only and not item.on_demand]


def test_init_needs_nothing_but_a_bare_interpreter() -> None:
    assert ties_of_init(SRC) == []


def test_nothing_the_launcher_reaches_imports_a_heavy_module() -> None:
    assert heavy_imports(SRC, LAUNCHER) == []


def test_loading_the_launcher_loads_no_heavy_module() -> None:
    if LAUNCHER not in modules(SRC):
        pytest.skip("there is no launcher yet")
    assert loaded_heavy(SRC, LAUNCHER) == []


@pytest.mark.parametrize("text", ["import paddock.errors", "from ..process import launcher", "import requests"])
def test_a_tie_of_init_is_named(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"paddock/engines/guest/init.py": f"import os, json\n{text}"})
    assert len(ties_of_init(tmp_path)) == 1


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"engines/process/launcher.py": "import os, dataclasses"}, "engines/process/launcher.py:1: dataclasses"),
        (
            {"engines/process/launcher.py": "from paddock.frames import encode", "frames.py": "from typing import Any"},
            "frames.py:1: typing",
        ),
        (
            {
                "engines/process/launcher.py": "def f():\n    from . import b",
                "engines/process/b.py": "import asyncio.base_events",
            },
            "engines/process/b.py:1: asyncio",
        ),
        (
            {"engines/process/launcher.py": "", "engines/__init__.py": "import subprocess"},
            "engines/__init__.py:1: subprocess",
        ),
        (
            {
                "engines/process/launcher.py": "from paddock import fs",
                "fs.py": "try:\n    import paddock.text\nexcept ImportError: pass",
                "text.py": "import sqlite3",
            },
            "text.py:1: sqlite3",
        ),
    ],
)
def test_a_heavy_import_is_found_however_far_away(tmp_path: Path, files: dict[str, str], said: str) -> None:
    write_tree(tmp_path / "paddock", files)
    assert heavy_imports(tmp_path, LAUNCHER) == [said]


@pytest.mark.parametrize(
    "files",
    [
        {
            "engines/process/launcher.py": "if TYPE_CHECKING:\n    import typing\n    from paddock import model",
            "model.py": "import dataclasses",
        },
        {
            "engines/process/launcher.py": "",
            "__init__.py": "def __getattr__(name):\n    from paddock import client",
            "client.py": "import asyncio",
        },
        {"engines/process/launcher.py": "import os", "engines/process/engine.py": "import asyncio"},
    ],
)
def test_what_the_launcher_does_not_run_may_be_heavy(tmp_path: Path, files: dict[str, str]) -> None:
    write_tree(tmp_path / "paddock", files)
    assert heavy_imports(tmp_path, LAUNCHER) == []


def test_a_heavy_module_is_found_behind_the_standard_library(tmp_path: Path) -> None:
    write_tree(tmp_path / "paddock", {"light.py": "import os, json, ctypes, socket", "heavy.py": "import pprint"})
    assert loaded_heavy(tmp_path, "paddock.light") == []
    assert heavy_imports(tmp_path, "paddock.heavy") == []
    assert "dataclasses" in loaded_heavy(tmp_path, "paddock.heavy")


def test_a_plain_run_does_not_load_policies_secrets_or_agents() -> None:
    """Imports are most of a short command's time."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import paddock.cli.running; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code, SRC], capture_output=True, text=True, check=True)
    heavy = {"paddock.policy", "paddock.secrets", "paddock.agents", "paddock.workspace", "asyncio", "tomllib"}
    assert heavy.intersection(done.stdout.split()) == set()


def test_an_agent_is_asked_for_before_what_attaches_to_it_is_loaded() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import paddock.cli.starting; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, SRC], capture_output=True, text=True, check=True)
    heavy = {"dataclasses", "typing", "paddock.model", "paddock.codec", "paddock.agents", "paddock.secrets", "tomllib"}
    assert heavy.intersection(done.stdout.split()) == set()
