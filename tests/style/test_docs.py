"""Documents point at things that exist, and every guarantee names the test that holds it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from tests.style.source import ROOT, write_tree

if TYPE_CHECKING:
    from pathlib import Path

_CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)[^)]*\)|^\s{0,3}\[[^\]^]+\]:\s*<?([^\s>]+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
_GUARANTEE = re.compile(r"^\*\*Guarantee.*?(?=^\s*$|^\*\*Guarantee|\Z)", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"(tests/[\w./-]+\.py)((?:::\w+)+)")


def broken_links(root: Path) -> list[str]:
    problems = []
    for file in _documents(root):
        # Code is blanked but keeps its newlines: a `[x](y)` in it is no link.
        text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), file.read_text("utf-8"))
        for link in _LINK.finditer(text):
            target = link[1] or link[2]
            if not _ELSEWHERE.match(target) and not _exists(root, file, target):
                problems.append(f"{file.relative_to(root)}: no {target}")
    return problems


def unproven_guarantees(root: Path) -> list[str]:
    """Guarantees of docs/security.md without a test, or with one that is not there."""
    problems = []
    for guarantee in _GUARANTEE.findall((root / "docs/security.md").read_text("utf-8")):
        tests = _TEST.findall(guarantee)
        title = guarantee.partition("\n")[0][:80]
        if not tests:
            problems.append(f"{title}: names no test")
        problems += [f"{title}: no {path}{ids}" for path, ids in tests if not _is_test(root / path, ids)]
    return problems


def _documents(root: Path) -> list[Path]:
    files = sorted(root.rglob("*.md"))
    return [file for file in files if not any(_skipped(part) for part in file.relative_to(root).parts[:-1])]


def _skipped(directory: str) -> bool:
    return directory in {"build", "dist", "node_modules"} or (directory.startswith(".") and directory != ".github")


def _exists(root: Path, file: Path, target: str) -> bool:
    path = unquote(target.partition("#")[0])
    wanted = (root / path[1:] if path.startswith("/") else file.parent / path).resolve()
    return wanted.is_relative_to(root.resolve()) and wanted.exists()


def _is_test(file: Path, ids: str) -> bool:
    name = ids.rpartition("::")[2]
    if not file.is_file() or not name.startswith("test"):
        return False
    tree = ast.parse(file.read_text("utf-8"))
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name for node in ast.walk(tree)
    )


def test_relative_links_lead_somewhere() -> None:
    assert broken_links(ROOT) == []


def test_every_guarantee_names_its_test() -> None:
    if not (ROOT / "docs/security.md").is_file():
        pytest.skip("there is no docs/security.md yet")
    assert unproven_guarantees(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "[a](missing.md)",
        "[a](missing.md#part)",
        "![a](missing.png)",
        '[a](missing.md "title")',
        "[a](<missing.md>)",
        "[a]: missing.md",
        "[a](../../outside.md)",
        "[a](/missing.md)",
        "`code` and [a](missing.md)",
        "```\ncode\n```\n[a](missing.md)",
        "[a](there.md) [b](missing.md)",
    ],
)
def test_a_link_to_nothing_is_named(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"outside.md": "", "repo/docs/page.md": text, "repo/docs/there.md": ""})
    assert len(broken_links(tmp_path / "repo")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[a](there.md) [b](../README.md#start) [c](/docs/there.md) [d](../docs) [e](a%20b.md)",
        "[a](https://example.com/x) [b](mailto:a@example.com) [c](#here)",
        "`[a](missing.md)`",
        "```\n[a](missing.md)\n```\n",
        "[^1]: a footnote",
    ],
)
def test_a_link_to_something_passes(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"README.md": "", "docs/page.md": text, "docs/there.md": "", "docs/a b.md": ""})
    assert broken_links(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("**Guarantee 1.** No test at all.", 1),
        ("**Guarantee 1.** `tests/a/test_b.py`", 1),
        ("**Guarantee 1.** `tests/a/test_b.py::test_missing`", 1),
        ("**Guarantee 1.** `tests/a/test_missing.py::test_it`", 1),
        ("**Guarantee 1.** `tests/a/test_b.py::helper`", 1),
        ("**Guarantee 1.** `tests/a/test_b.py::test_it`, `tests/a/test_b.py::test_missing`", 1),
        ("**Guarantee 1.** None.\n**Guarantee 2.** `tests/a/test_b.py::test_it`", 1),
        ("**Guarantee 1.** None.\n\n`tests/a/test_b.py::test_it` belongs to no guarantee.", 1),
        ("**Guarantee 1.** `tests/a/test_b.py::test_it`", 0),
        ("**Guarantee 1.** Wrapped, (tests/a/test_b.py::test_async)\nover two lines", 0),
        ("**Guarantee 1.** Wrapped over two lines,\n`tests/a/test_b.py::TestClass::test_method`", 0),
        ("No **Guarantee** here.", 0),
    ],
)
def test_a_guarantee_without_its_test_is_named(tmp_path: Path, text: str, problems: int) -> None:
    tests = [
        "def test_it(): ...",
        "async def test_async(): ...",
        "def helper(): ...",
        "class TestClass:",
        "  def test_method(self): ...",
    ]
    write_tree(tmp_path, {"docs/security.md": f"# Security\n\n{text}\n", "tests/a/test_b.py": "\n".join(tests)})
    assert len(unproven_guarantees(tmp_path)) == problems
