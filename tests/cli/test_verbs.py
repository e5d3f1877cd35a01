"""One function a verb, and each loads only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paddock.cli import nouns, parser, verbs
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
    "diff": ["box"],
    "apply": ["box"],
    "discard": ["box"],
    "git": ["box", "log"],
    "daemon": ["status"],
    "completion": ["bash"],
    "ports": ["box"],
    "network proxy": ["box"],
    "policy check": ["example.com"],
    "policy why": ["example.com"],
    "policy allow": ["example.com"],
    "policy deny": ["example.com"],
    "policy rm": ["example.com"],
    "policy suggest": ["box"],
    "policy approve": ["x"],
    "policy import": ["file"],
    "agent rm": ["name"],
    "checkpoint create": ["box"],
    "checkpoint restore": ["box@c1"],
    "checkpoint workspace": ["box@c1", "dir"],
    "checkpoint fork": ["box"],
    "checkpoint diff": ["box@c1", "box"],
    "checkpoint rm": ["box@c1"],
    "checkpoint export": ["box@c1", "-o", "file"],
    "checkpoint import": ["file"],
    "save": ["box", "name"],
    "template build": ["-t", "name", "."],
    "template inspect": ["name"],
    "template rm": ["name"],
    "template load": ["file"],
    "template save": ["name", "-o", "file"],
    "template pull": ["image"],
    "template push": ["name", "image"],
    "secret set": ["name"],
    "secret rm": ["name"],
    "secret login": ["claude"],
}


@pytest.mark.parametrize("page", parser.pages())
def test_every_verb_has_a_function_of_its_name(page: str) -> None:
    action, _ = parser.parse([*page.split(), *EXAMPLES.get(page, [])])
    name = page.replace(" ", "_")
    assert action is getattr(verbs, name, None) or action is getattr(verbs, f"{name}_")


@pytest.mark.parametrize("noun", nouns.NOUNS)
@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_a_noun_alone_explains_itself(noun: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    action, options = parser.parse([noun, *words])
    assert action(options) == 0
    assert capsys.readouterr().out == parser.noun_overview(noun)


@pytest.mark.parametrize("words", [["--help"], ["version"], ["completion", "bash"], ["run", "--help"]])
def test_what_needs_no_daemon_loads_no_client(words: list[str]) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.cli.main import main; "
    code += "main(sys.argv[2:]); print(*sys.modules, file=sys.stderr)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "src"), *words]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stderr.split()
    assert "paddock.cli.parser" in loaded
    assert {"paddock.client", "socket", "json", "dataclasses"} & set(loaded) == set()
