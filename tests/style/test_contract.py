"""Exceptions from what every box holds name tests that there are, in modules that ask every kind."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.style.source import ROOT
from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

# Modules of tests with boxes that are not asked of every kind, and why. Those that are marked `container` need no row.
_NO_BOX = "of the gateway, which a scene of its own asks as boxes do: there is none"
ALONE: dict[str, str] = {
    "adversarial/test_gateway_share.py": _NO_BOX,
    "adversarial/test_sniffing.py": _NO_BOX,
    "adversarial/test_stale_policy.py": _NO_BOX,
    "network/test_agent_install.py": "packages are fetched in a process box, whatever boxes run them",
    "boxes/test_checkpoint_room.py": "of the disk below boxes, whatever isolates them",
    "boxes/test_no_overlay.py": "a machine without overlays has no containers",
    "boxes/test_spelling.py": "file systems without case, which no layer can lie on",
    "network/test_registries.py": "the box of a pull is a process box, whatever its user has",
}


def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", contract.EXCEPT, ids=lambda row: row.test)
def test_a_row_names_a_test_that_is_asked_of_its_kinds(row: contract.Row) -> None:
    module, _, name = row.test.partition("::")
    path = ROOT / "tests" / module
    assert name in _functions(path)
    assert "\nENGINES = contract." in path.read_text(), "without a row it would not be asked either"
    assert set(row.kinds) <= set(contract.CONTAINERS)
    assert row.why


def test_no_test_has_two_rows() -> None:
    names = [row.test for row in contract.EXCEPT]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("directory", ["boxes", "adversarial", "network"])
def test_a_module_of_boxes_is_asked_of_every_kind(directory: str) -> None:
    known = {path for path in (ROOT / "tests" / directory).glob("test_*.py") if "mark.box" in path.read_text()}
    says = ("\nENGINES = ", "mark.container")
    silent = {f"{directory}/{path.name}" for path in known if not any(word in path.read_text() for word in says)}
    assert silent - ALONE.keys() == set()


@pytest.mark.parametrize("name", ALONE)
def test_a_module_that_is_left_alone_is_there(name: str) -> None:
    assert (ROOT / "tests" / name).is_file()
