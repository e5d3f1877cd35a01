"""One function a verb, and each loads only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paddock.cli import parser, verbs
from tests.support.installation import ROOT

EXAMPLES = {
    "run": ["--", "true"],
    "create": ["box"],
    "exec": ["box", "true"],
    "inspect": ["box"],
    "env": ["box"],
    "stop": ["box"],
    "rm": ["box"],
    "logs": ["box"],
    "cp": ["box:x", "y"],
    "daemon": ["status"],
    "completion": ["bash"],
}


@pytest.mark.parametrize("verb", parser.VERBS)
def test_every_verb_has_a_function_of_its_name(verb: str) -> None:
    action, _ = parser.parse([verb, *EXAMPLES.get(verb, [])])
    assert action is getattr(verbs, verb, None) or action is getattr(verbs, f"{verb}_")


@pytest.mark.parametrize("words", [["--help"], ["version"], ["completion", "bash"], ["run", "--help"]])
def test_what_needs_no_daemon_loads_no_client(words: list[str]) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.cli.main import main; "
    code += "main(sys.argv[2:]); print(*sys.modules, file=sys.stderr)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "src"), *words]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stderr.split()
    assert "paddock.cli.parser" in loaded
    assert {"paddock.client", "socket", "json", "dataclasses"} & set(loaded) == set()
