"""Agents of a test's own, and tools of theirs in a store, without a package manager."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import agents
from paddock.tools import Record, Store, trees

if TYPE_CHECKING:
    import pytest

    from paddock.agents import Agent
    from paddock.tools import Tool
    from tests.support.installation import Installation

_COUNT = itertools.count()
_SAYS = "echo demo 1.0.0; echo ' -p --full --model'"
ASKED = """case "$1" in
--version) echo demo 1.0.0;; --help) echo ' -p  --full  --model NAME';; esac"""
TEXT = """\
name = "{name}"
title = "Demo"
program = "{program}"
verified = "1.0.0"
{asked}{more}
[install]
{install}
[words]
full = ["--full"]
model = ["--model", "{{}}"]
prompt = ["{{}}"]
[interactive]
argv = ["{{full}}", "{{args}}", "{{prompt}}"]
[headless]
argv = ["-p", "{{full}}", "{{model}}", "{{args}}", "{{prompt}}"]
[flags]
since = {{"--full" = "0.9"}}
"""


def text(name: str = "demo", *, program: str = "demo", install: str = 'npm = "demo"', more: str = "") -> str:
    asked = "" if "help = " in more else 'version = ["--version"]\nhelp = [["--help"]]\n'
    return TEXT.format(name=name, program=program, install=install, asked=asked, more=more)


def agent(name: str = "demo", **rest: str) -> Agent:
    return agents.parse(text(name, **rest))


def define(config: Path, name: str = "demo", **rest: str) -> Path:
    """Among the user's own agents."""
    file = config / "agents" / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(name, **rest))
    return file


def publish(state: Path, version: str = "1.0.0", body: str = "", *, name: str = "demo", package: str = "demo") -> Tool:
    """A tool whose program is a shell script."""
    store = Store(f"{state}/tools")
    with store.turn(), store.stage() as room:
        tree = Path(room.new, "tree")
        (tree / "bin").mkdir(parents=True)
        put(tree / "bin", body, name)
        (tree / "data").write_text(version)
        trees.close(str(tree))
        made = trees.describe(str(tree))
        Path(room.new, "manifest").write_text(made.manifest)
        record = Record(
            name=name,
            version=version,
            source="npm",
            package=package,
            program=name,
            digest=trees.digest(made.manifest),
            files=made.files,
            size_bytes=made.size_bytes,
            installed=f"2026-01-01T00:00:{next(_COUNT):06}",
        )
        return store.publish(room.new, record)


def put(place: Path, body: str = "", name: str = "demo") -> Path:
    """A program that is a shell script."""
    program = place / name
    program.write_text(f"#!/bin/sh\n{body or _SAYS}\n")
    program.chmod(0o755)
    return program


def on_path(home: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the caller's PATH that boxes see."""
    place = tmp_path / "programs/bin"
    place.mkdir(parents=True)
    path = f"{place}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    home.environ["PATH"] = path
    return place
