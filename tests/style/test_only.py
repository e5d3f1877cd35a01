"""Dangerous names live in one file each, so that a reviewer greps instead of reading."""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from tests.style.source import SRC, modules, within, write_tree

if TYPE_CHECKING:
    from pathlib import Path

TALKS_TO_PEOPLE = ("cli/*", "__main__.py", "*/__main__.py")

# A name, imported or used, and the files it may appear in.
ONLY: dict[str, tuple[str, ...]] = {
    "subprocess": ("proc.py",),
    "asyncio.subprocess": ("proc.py",),
    "asyncio.create_subprocess_exec": ("proc.py",),
    "asyncio.create_subprocess_shell": (),
    "asyncio.wait_for": (),  # readiness.within, which cannot forget that it was cancelled
    "os.system": (),
    "os.popen": (),
    "sqlite3": ("store/database.py",),
    "tarfile": (),  # images/tar.py reads archives, and refuses what that library guesses
    "print": TALKS_TO_PEOPLE,
    "sys.exit": TALKS_TO_PEOPLE,
    "SystemExit": TALKS_TO_PEOPLE,
    # These would go round the import law.
    "__import__": (),
    "importlib.import_module": (),
}

# Packages that are neither ours nor the standard library's, and the files that may import them.
FOREIGN: dict[str, tuple[str, ...]] = {"yaml": ("policy/foreign/agent_sandbox.py",)}


def misplaced_names(src: Path) -> list[str]:
    problems = set()
    for module in modules(src).values():
        for name, line in [*module.uses(), *((item.target, item.line) for item in module.imports())]:
            for rule, places in ONLY.items():
                if within(name, rule) and not _placed(module.path, places):
                    problems.add(f"{module.path}:{line}: {rule} may only appear in {', '.join(places) or 'no file'}")
    return sorted(problems)


def foreign_imports(src: Path) -> list[str]:
    problems = []
    for module in modules(src).values():
        for item in module.imports():
            package = item.target.partition(".")[0]
            if package in {"paddock", "_typeshed"} or package in sys.stdlib_module_names:
                continue
            if not _placed(module.path, FOREIGN.get(package, ())):
                problems.append(f"{module.path}:{item.line}: {package} is not in the standard library")
    return problems


def _placed(path: str, places: tuple[str, ...]) -> bool:
    return any(fnmatch(path, place) for place in places)


def test_dangerous_names_live_where_they_belong() -> None:
    assert misplaced_names(SRC) == []


def test_the_core_is_the_standard_library() -> None:
    assert foreign_imports(SRC) == []


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("fs.py", "import subprocess", "subprocess"),
        ("fs.py", "def f():\n    from subprocess import run", "subprocess"),
        ("engines/proc.py", "import subprocess", "subprocess"),
        ("runtime.py", "from asyncio import create_subprocess_exec", "asyncio.create_subprocess_exec"),
        ("runtime.py", "import asyncio\nasyncio.create_subprocess_exec('true')", "asyncio.create_subprocess_exec"),
        ("proc.py", "import os\nos.system('true')", "os.system"),
        ("model.py", "import sqlite3 as db", "sqlite3"),
        ("store/boxes.py", "import sqlite3", "sqlite3"),
        ("images/oci.py", "import tarfile", "tarfile"),
        ("client.py", "print('x')", "print"),
        ("client.py", "callback = print", "print"),
        ("climate.py", "print('x')", "print"),
        ("daemon/server.py", "import sys\nsys.exit(1)", "sys.exit"),
        ("daemon/server.py", "from sys import exit", "sys.exit"),
        ("daemon/server.py", "raise SystemExit(1)", "SystemExit"),
        ("agents/loader.py", "import importlib\nimportlib.import_module('x')", "importlib.import_module"),
    ],
)
def test_a_misplaced_name_is_named(tmp_path: Path, path: str, text: str, rule: str) -> None:
    write_tree(tmp_path, {f"paddock/{path}": text})
    problems = misplaced_names(tmp_path)
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}:")
    assert f": {rule} may only appear in" in problems[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc.py", "import asyncio, subprocess\nsubprocess.Popen\nasyncio.create_subprocess_exec"),
        ("store/database.py", "import sqlite3"),
        ("cli/render.py", "import sys\nprint('x')\nsys.exit(1)"),
        ("daemon/__main__.py", "import sys\nsys.exit(1)"),
        ("text.py", "footprint = 'print'\nself.print_all()\nimport importlib.resources"),
    ],
)
def test_a_name_in_its_place_passes(tmp_path: Path, path: str, text: str) -> None:
    write_tree(tmp_path, {f"paddock/{path}": text})
    assert misplaced_names(tmp_path) == []


def test_a_package_from_elsewhere_is_named(tmp_path: Path) -> None:
    write_tree(tmp_path, {"paddock/text.py": "import json\nimport requests.sessions\nfrom paddock import errors"})
    assert foreign_imports(tmp_path) == ["text.py:2: requests is not in the standard library"]
