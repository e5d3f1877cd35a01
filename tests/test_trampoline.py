"""The steps between our exec and the program's, each on its own; tests/test_proc.py has them together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from paddock import trampoline


@pytest.mark.parametrize(
    ("text", "moves"), [("", {}), ("5:3", {3: 5}), ("5:3,6:4", {3: 5, 4: 6}), ("5:1,5:2", {1: 5, 2: 5})]
)
def test_moves_are_read(text: str, moves: dict[int, int]) -> None:
    assert trampoline.parse_moves(text) == moves


@pytest.mark.parametrize("text", ["5", "a:b", "1:2:3"])
def test_malformed_moves_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        trampoline.parse_moves(text)


def bounce(*words: str, **options: object) -> tuple[bytes, int]:
    """Run the file as proc.py does and return what it reports."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", trampoline.__file__, words[0], str(writer), *words[1:]],
        pass_fds=[writer],
        env={},
    )
    os.close(writer)
    with open(reader, "rb") as report:
        said = report.read()
    return said, process.wait(30)


def test_it_becomes_the_program_and_reports_its_pid() -> None:
    said, code = bounce("stay", "", "/bin/sh", "-c", "exit 5")
    assert len(said.split()) == 1
    assert code == 5


def test_detached_it_ends_while_the_program_runs() -> None:
    said, code = bounce("detach", "", "/bin/sh", "-c", "exit 5")
    assert len(said.split()) == 1
    assert code == 0


def test_it_reports_why_the_program_did_not_start() -> None:
    said, code = bounce("stay", "", "/no/such/program")
    assert [int(word) for word in said.split()][1:] == [2]
    assert code == 127


def test_it_imports_nothing_of_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", trampoline.__file__],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "ValueError" in done.stderr  # it got as far as its missing words
    assert "paddock" not in done.stderr.partition("Traceback")[0]
