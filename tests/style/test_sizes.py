"""A file is one idea and a function fits on a screen: over the first number is noted, over the second refused."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.style.source import ROOT, write_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_NOTED, FILE_REFUSED = 400, 700
FUNCTION_NOTED, FUNCTION_REFUSED = 60, 100


def sizes(root: Path) -> Iterator[tuple[str, int, int, int]]:
    """(what, its lines, noted over, refused over) for each file and function of ours."""
    for file in sorted(file for top in ("src", "tests", "benches") for file in (root / top).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        text = file.read_text("utf-8")
        yield path, len(text.splitlines()), FILE_NOTED, FILE_REFUSED
        for node in ast.walk(ast.parse(text, file)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{path}:{node.lineno}: {node.name}", lines, FUNCTION_NOTED, FUNCTION_REFUSED


def noted(root: Path) -> list[str]:
    return [f"{what} has {lines} lines" for what, lines, note, refuse in sizes(root) if note < lines <= refuse]


def refused(root: Path) -> list[str]:
    return [f"{what} has {lines} lines, at most {most}" for what, lines, _, most in sizes(root) if lines > most]


def test_no_file_and_no_function_is_too_long(notes: list[str]) -> None:
    notes += noted(ROOT)
    assert refused(ROOT) == []


@pytest.mark.parametrize(("lines", "is_noted", "is_refused"), [(400, 0, 0), (401, 1, 0), (700, 1, 0), (701, 0, 1)])
def test_a_long_file_is_noted_and_a_longer_one_refused(
    tmp_path: Path, lines: int, is_noted: int, is_refused: int
) -> None:
    write_tree(tmp_path, {"src/paddock/a.py": "x = 1\n" * lines})
    assert (len(noted(tmp_path)), len(refused(tmp_path))) == (is_noted, is_refused)


@pytest.mark.parametrize(("lines", "is_noted", "is_refused"), [(60, 0, 0), (61, 1, 0), (100, 1, 0), (101, 0, 1)])
@pytest.mark.parametrize("head", ["def f():", "async def f():"])
def test_a_long_function_is_noted_and_a_longer_one_refused(
    tmp_path: Path, head: str, lines: int, is_noted: int, is_refused: int
) -> None:
    write_tree(tmp_path, {"tests/a.py": "@decorated\n" + head + "\n    x = 1" * (lines - 1)})
    assert (len(noted(tmp_path)), len(refused(tmp_path))) == (is_noted, is_refused)
