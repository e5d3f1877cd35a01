"""Tests mirror the tree: src/paddock/x/y.py has its tests in tests/x/test_y.py."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

from tests.style.source import ROOT, write_tree

# Files without tests of their own, and why. The patterns are those of fnmatch: a star crosses slashes.
EXEMPT: dict[str, str] = {
    "_version.py": "one constant",
    "*__init__.py": "re-exports only",
    "*__main__.py": "calls main() of a module that has tests",
}


def missing_mates(root: Path, exempt: dict[str, str]) -> list[str]:
    package = root / "src/paddock"
    paths = [file.relative_to(package).as_posix() for file in sorted(package.rglob("*.py"))]
    alone = [path for path in paths if not any(fnmatch(path, pattern) for pattern in exempt)]
    return [f"{path} has no {mate}" for path in alone if not (root / (mate := _mate(path))).is_file()]


def _mate(path: str) -> str:
    file = PurePosixPath("tests", path)
    return str(file.with_name(f"test_{file.name.lstrip('_')}"))


def test_every_file_has_its_tests() -> None:
    assert missing_mates(ROOT, EXEMPT) == []


@pytest.mark.parametrize("pattern", [pattern for pattern in EXEMPT if "*" not in pattern])
def test_an_exemption_names_a_file_that_exists(pattern: str) -> None:
    assert (ROOT / "src/paddock" / pattern).is_file()


def test_a_file_without_tests_is_named(tmp_path: Path) -> None:
    paths = ["src/paddock/a.py", "src/paddock/x/b.py", "src/paddock/x/_c.py", "src/paddock/x/d.py", "src/paddock/e.py"]
    mates = ["tests/test_a.py", "tests/test_b.py", "tests/x/test_c.py"]
    write_tree(tmp_path, dict.fromkeys([*paths, *mates], ""))
    assert missing_mates(tmp_path, {"e.py": "a reason"}) == [
        "x/b.py has no tests/x/test_b.py",
        "x/d.py has no tests/x/test_d.py",
    ]
