"""The program of a tool starts what its package brought, with the words it was given."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.tools import wrapper
from tests.support.tools import agent

if TYPE_CHECKING:
    from pathlib import Path


def _tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "node_modules/.bin").mkdir(parents=True)
    (tree / "node_modules/demo.sh").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (tree / "node_modules/.bin/demo").symlink_to("../demo.sh")
    return tree


def _run(tree: Path, *words: str) -> str:
    """Where it is, and not where a box has it."""
    program = tree / "bin/demo"
    program.write_text(program.read_text().replace("/opt/paddock/demo", str(tree)))
    head = [sys.executable] if "python" in program.read_text() else []
    argv = [*head, str(program), *words]
    return subprocess.run(argv, env={}, capture_output=True, text=True, check=True).stdout


def test_words_are_passed_as_they_are(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    wrapper.write(agent(), str(tree))
    assert _run(tree, "-p", "two words", "$HOME", "") == "<-p><two words><$HOME><>"


def test_what_needs_a_node_is_run_by_the_one_beside_it(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    wrapper.write(agent(install='npm = "demo"\nnode = "24.21.0"'), str(tree))
    text = (tree / "bin/demo").read_text()
    assert "exec /opt/paddock/demo/node_modules/node-linux-" in text
    assert '/bin/node /opt/paddock/demo/node_modules/.bin/demo "$@"' in text


def test_a_package_of_pip_finds_its_own_modules_and_nobody_else_does(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "lib/bin").mkdir(parents=True)
    (tree / "lib/demo.py").write_text("import os, sys\nprint(sys.argv[1:], os.environ.get('PYTHONPATH'))\n")
    (tree / "lib/bin/demo").write_text("#!/nowhere/python3\nimport demo\n")
    wrapper.write(agent(install='pip = "demo"'), str(tree))
    assert _run(tree, "a b") == "['a b'] None\n"


@pytest.mark.parametrize(
    "entry", ["node_modules/none", "node_modules", "/bin/sh", "../x", "node_modules/../../out", "out"]
)
def test_a_program_that_is_not_in_the_package_is_refused(tmp_path: Path, entry: str) -> None:
    tree = _tree(tmp_path)
    (tmp_path / "x").write_text("")
    (tmp_path / "out").write_text("")
    (tree / "out").symlink_to("../out")
    with pytest.raises(UserError, match="has no"):
        wrapper.write(agent(install=f'npm = "demo"\nentry = "{entry}"'), str(tree))
    assert not (tree / "bin").exists()


def test_a_packages_own_file_of_that_name_is_not_followed(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    (tree / "bin").mkdir()
    (tmp_path / "victim").write_text("as it was")
    (tree / "bin/demo").symlink_to(tmp_path / "victim")
    wrapper.write(agent(), str(tree))
    assert (tmp_path / "victim").read_text() == "as it was"
    assert _run(tree, "x") == "<x>"
