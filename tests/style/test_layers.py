"""The import law: imports point down the table, and names in one row do not know each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.style.source import SRC, Module, modules, write_tree

if TYPE_CHECKING:
    from pathlib import Path

# Top to bottom. `__init__` is the package's own front, which hands out the SDK.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli", "server", "daemon"),
    ("__init__",),
    ("client",),
    ("loop",),
    ("runtime",),
    ("sshagent", "tools", "runs", "settings", "mcp"),
    ("engines", "images", "checkpoints", "store", "workspace", "gateway"),
    ("secrets", "metering"),  # pure enough for the gateway, which swaps and counts
    ("watch",),
    ("policy",),
    ("guard", "agents"),
    ("proc", "fs", "text", "readiness"),
    ("trampoline", "paths"),
    ("codec", "frames"),
    ("model", "reports"),
    ("limits",),
    ("errors",),
    ("_version",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}


def broken_imports(src: Path) -> list[str]:
    known = modules(src)
    problems = []
    for module in known.values():
        own = _top(module)
        if own not in RANK:
            problems.append(f"{module.path}: {own} is in no layer")
            continue
        for item in module.imports():
            other = _top_of_target(item.target, known)
            if other in RANK and other != own and RANK[other] <= RANK[own]:
                problems.append(f"{module.path}:{item.line}: {own} imports {other}, which is not below it")
    return problems


def _top(module: Module) -> str:
    return module.name.split(".")[1] if "." in module.name else "__init__"


def _top_of_target(target: str, known: dict[str, Module]) -> str:
    package, _, rest = target.partition(".")
    if package != "paddock":
        return ""
    name = rest.partition(".")[0]
    return name if name in RANK or f"paddock.{name}" in known else "__init__"


def test_imports_point_down() -> None:
    assert broken_imports(SRC) == []


def test_a_name_stands_in_one_row_only() -> None:
    assert len(RANK) == sum(map(len, LAYERS))


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("errors.py", "import paddock.model", "errors imports model"),
        ("errors.py", "from paddock import model", "errors imports model"),
        ("errors.py", "from paddock.model import BoxSpec", "errors imports model"),
        ("errors.py", "from . import model", "errors imports model"),
        ("errors.py", "def f():\n    from paddock import model", "errors imports model"),
        ("errors.py", "if TYPE_CHECKING:\n    from paddock import model", "errors imports model"),
        ("store.py", "from paddock.engines import base", "store imports engines"),
        ("engines/process/box.py", "from ...gateway import seal", "engines imports gateway"),
        ("gateway/__init__.py", "from ..store import Store", "gateway imports store"),
        ("loop/__init__.py", "from paddock import Paddock", "loop imports __init__"),
        ("cli/run.py", "from paddock import daemon", "cli imports daemon"),
        ("misc.py", "", "misc is in no layer"),
    ],
)
def test_an_import_that_breaks_the_law_is_named(tmp_path: Path, path: str, text: str, said: str) -> None:
    write_tree(tmp_path, {f"paddock/{path}": text, "paddock/model.py": ""})
    problems = broken_imports(tmp_path)
    assert len(problems) == 1
    assert said in problems[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("cli/run.py", "from paddock import client, errors\nimport json"),
        ("cli/run.py", "from paddock import Paddock, __version__\nfrom paddock.cli import render"),
        ("engines/process/box.py", "from ..base import Engine\nfrom paddock import policy, model"),
        ("gateway/__init__.py", "from .dial import dial"),
        ("__init__.py", "from paddock._version import VERSION\ndef __getattr__(name):\n    from paddock import client"),
    ],
)
def test_an_import_that_keeps_the_law_passes(tmp_path: Path, path: str, text: str) -> None:
    write_tree(tmp_path, {f"paddock/{path}": text})
    assert broken_imports(tmp_path) == []
