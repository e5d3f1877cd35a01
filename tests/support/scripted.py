"""An agent of the tests' own: a shell script, and a definition that says how to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.tools import put

if TYPE_CHECKING:
    from pathlib import Path

DEFINITION = """\
name = "mine"
title = "an agent of the tests"
program = "{program}"

[words]
full = ["--all"]
ask = ["--careful"]
model = ["--model", "{{}}"]
continue = ["--again"]
resume = ["--session", "{{}}"]
prompt = ["--", "{{}}"]
json = ["--events"]

[interactive]
argv = ["{{full}}", "{{model}}", "{{continue}}", "{{args}}", "{{prompt}}"]

[headless]
argv = ["exec", "{{full}}", "{{model}}", "{{continue}}", "{{json}}", "{{args}}", "{{prompt}}"]

[flags]
full = ["--all"]
values = ["--depth"]

[env]
MINE = "its own"

[state]
paths = [".mine"]

[[seed]]
path = ".mine/config.json"
json = '{{"trusted": {{"{{workspace}}": true}}}}'
"""


def install(directory: Path, script: str, more: str = "") -> Path:
    """The file of its definition, beside the workspace; the script lies in it, which a box has at its own path."""
    program = put(directory, script, "mine.sh")
    file = directory.with_name("mine.toml")
    file.write_text(DEFINITION.format(program=program) + more)
    return file
