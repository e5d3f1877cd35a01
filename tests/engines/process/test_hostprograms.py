"""A program of the host is found as a box would find it, or there are words why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import hostprograms

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    for directory in (".local/bin", ".local/share/claude/versions", "private", ".ssh"):
        (place / directory).mkdir(parents=True)
    return place


def _program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def _find(program: str, home: Path, *entries: str) -> hostprograms.HostProgram:
    return hostprograms.find(program, ":".join(f"{home}/{entry}" for entry in entries), str(home))


def test_a_program_of_the_system_is_found_whatever_the_path(home: Path) -> None:
    assert hostprograms.find("sh", "", str(home)).path in {"/usr/bin/sh", "/bin/sh"}
    assert hostprograms.find("/bin/sh", "", str(home)).path == "/bin/sh"


def test_one_of_the_callers_path_comes_before_it(home: Path) -> None:
    program = _program(home / ".local/bin/sh")
    assert _find("sh", home, ".local/bin").path == str(program)


def test_a_link_into_a_place_that_boxes_see_is_followed(home: Path) -> None:
    _program(home / ".local/share/claude/versions/2.1.3")
    (home / ".local/bin/claude").symlink_to("../share/claude/versions/2.1.3")
    assert _find("claude", home, ".local/bin").path == f"{home}/.local/bin/claude"


@pytest.mark.parametrize("hops", [1, 2])
def test_a_link_that_leads_elsewhere_counts_as_not_found(home: Path, hops: int) -> None:
    program = _program(home / "private/claude")
    (home / ".local/bin/claude").symlink_to("../bin/next" if hops == 2 else program)
    if hops == 2:
        (home / ".local/bin/next").symlink_to(program)
    found = _find("claude", home, ".local/bin")
    assert found.path == ""
    assert found.why == f"{home}/.local/bin/claude leads to {program}, which a box does not see"


def test_a_directory_that_boxes_do_not_see_is_named(home: Path) -> None:
    _program(home / ".ssh/claude")
    found = _find("claude", home, ".ssh")
    assert (found.path, found.why) == ("", f"{home}/.ssh/claude is in a directory that a box does not see")


def test_what_cannot_run_is_no_program(home: Path) -> None:
    (home / ".local/bin/claude").write_text("")
    (home / ".local/bin/codex").mkdir()
    (home / ".local/bin/gemini").symlink_to("nowhere")
    (home / ".local/bin/opencode").symlink_to("opencode")
    for name in ("claude", "codex", "gemini", "opencode", "nothing", "/nonexistent/x"):
        assert _find(name, home, ".local/bin") == hostprograms.HostProgram()
