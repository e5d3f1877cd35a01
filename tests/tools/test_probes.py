"""What a program says is searched for its version and its flags, and what it lacks is known before a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock import limits
from paddock.agents.definition import Flags
from paddock.errors import UserError
from paddock.tools import Probe, Probes, probes, refuse_missing
from tests.support.tools import agent

if TYPE_CHECKING:
    from paddock.agents import Agent

HELP = """
Usage: demo [options] [prompt]
  -p, --print            print and exit
      --full             no questions
      --resume[=ID]      take up
  --output-format=FORMAT  (choices: "text", "json")
  use--this and 2.0--beta are no flags, nor is -- or ---x
"""


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("v1.18.33", "1.18.33"),
        ("demo version 1.2", "1.2"),
        ("0.61.0-nightly.2026+x", "0.61.0-nightly.2026+x"),
        ("warning: 12 things\n3.4.5", "3.4.5"),
        ("", ""),
        ("no version", ""),
        ("\x1b[2J\x1b]0;x\x07", ""),
        ("9" * 100_000, ""),
    ],
)
def test_a_version_is_found_among_what_is_said(said: str, version: str) -> None:
    assert probes.version_in(said) == version


def test_flags_are_found_in_help_and_nowhere_else() -> None:
    assert probes.flags_in([HELP]) == ("--full", "--output-format", "--print", "--resume", "-p")
    assert len(probes.flags_in([" ".join(f"--flag{n}" for n in range(9999))])) == 4096


def test_the_flags_that_a_definition_uses_are_those_of_its_words() -> None:
    assert probes.used(agent()) == ("--full", "--model", "-p")
    assert probes.used(_with(flags=Flags(hidden=("--full",)))) == ("--model", "-p")


def _with(**rest: Any) -> Agent:
    return replace(agent(), **rest)


def test_what_a_program_lacks_is_named_with_the_versions_that_have_it() -> None:
    old = Probe(version="0.8.0", flags=("-p",))
    assert probes.missing(agent(), old) == ("--full", "--model")
    assert probes.missing(agent(), old, ["-p", "--full", "hello"]) == ("--full",)
    with pytest.raises(UserError, match=r"demo 0\.8\.0 has no --full: 0\.9 and later have it") as caught:
        refuse_missing(agent(), old, ["-p", "--full"])
    assert "paddock agent install demo" in caught.value.hint
    with pytest.raises(UserError, match=r"has no --model: 1\.0\.0 has it"):
        refuse_missing(agent(), old, ["--model=x"])
    with pytest.raises(UserError, match=r"demo 1\.0\.0 has no --model$"):
        refuse_missing(agent(), Probe(version="1.0.0", flags=("-p", "--full")), ["--model", "x"])


def test_a_run_is_not_refused_for_words_of_its_users_own() -> None:
    refuse_missing(agent(), Probe(flags=("-p", "--full")), ["-p", "--full", "--users-own", "--", "--model-is-no-flag"])


def test_a_program_without_help_lacks_nothing_that_we_know_of() -> None:
    assert probes.missing(_with(help=()), Probe()) == ()


def test_what_was_learned_is_kept_by_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Probes(f"{tmp_path}/probes.json")
    assert known.find("a") is None
    probe = Probe(version="1.0", flags=("--x",))
    known.keep("a", probe)
    known.keep("b", Probe())
    assert (known.find("a"), known.find("b"), known.find("c")) == (probe, Probe(), None)
    monkeypatch.setattr(limits, "PROBES_MAX", 2)
    known.keep("a", probe)
    known.keep("c", Probe())
    assert (known.find("a"), known.find("b"), known.find("c")) == (probe, None, Probe())


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"a": 1}', '{"a": {"version": 3}}', '{"a": {"else": ""}}'])
def test_a_damaged_file_knows_nothing_and_is_written_anew(tmp_path: Path, damage: str) -> None:
    Path(tmp_path, "probes.json").write_text(damage)
    known = Probes(f"{tmp_path}/probes.json")
    assert known.find("a") is None
    known.keep("a", Probe(version="1"))
    assert known.find("a") == Probe(version="1")
