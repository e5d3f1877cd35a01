"""A box's program comes from the store when its user installed it there, else from the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock import tools
from paddock.paths import Paths
from tests.support.tools import agent, publish, put


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.local/bin").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths({"PADDOCK_HOME": str(tmp_path / "paddock")})


def _located(paths: Paths, home: Path, **rest: str) -> tools.Located | None:
    return tools.located(agent(**rest), paths, f"{home}/.local/bin", str(home))


def test_what_the_user_installed_comes_before_what_the_host_has(paths: Paths, home: Path) -> None:
    assert _located(paths, home) is None
    program = put(home / ".local/bin")
    found = _located(paths, home)
    assert found is not None
    assert (found.kind, found.program, found.version, found.mounts) == ("host", str(program), "", ())
    tool = publish(Path(paths.state))
    found = _located(paths, home)
    assert found is not None
    assert (found.kind, found.program, found.version) == ("tool", "/opt/paddock/demo/bin/demo", "1.0.0")
    assert found.mounts == (tool.mount,)


def test_a_tool_of_another_package_is_not_this_agents(paths: Paths, home: Path) -> None:
    publish(Path(paths.state), package="somebody-elses")
    assert _located(paths, home) is None
    assert _located(paths, home, install='npm = "somebody-elses"') is not None
    assert _located(paths, home, install="") is None


def test_an_identity_changes_with_the_program_and_with_what_it_is_asked(paths: Paths, home: Path) -> None:
    program = put(home / ".local/bin")
    seen = set()

    def look(**rest: str) -> None:
        found = _located(paths, home, **rest)
        assert found is not None
        assert found.identity not in seen
        seen.add(found.identity)

    look()
    before = program.stat()
    program.write_text(program.read_text().replace("demo", "omed"))
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    look()  # of the same size and date, as npm's files are
    look(more='help = [["--help"], ["exec", "--help"]]')
    publish(Path(paths.state), "1.0.0")
    look()
    publish(Path(paths.state), "1.0.1")
    look()
    found = _located(paths, home)
    assert found is not None
    assert found.identity in seen, "nothing changed"


def test_what_is_missing_says_why_and_what_to_run(paths: Paths, home: Path) -> None:
    (home / "private").mkdir()
    (home / ".local/bin/demo").symlink_to(put(home / "private"))
    error = tools.missing(agent(), f"{home}/.local/bin", str(home))
    assert error.message == (
        f"Demo is not installed; {home}/.local/bin/demo leads to {home}/private/demo, which a box does not see"
    )
    assert error.hint == "`paddock agent install demo`"
    error = tools.missing(agent(install='otherwise = "see its maker"'), "", str(home))
    assert (error.message, error.hint) == ("Demo is not installed", "see its maker")
