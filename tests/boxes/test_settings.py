"""A user's own settings of an agent in its box: read-only, anew at each start, and nothing secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs, paths
from tests.support import contract
from tests.support.robots import Robot, robot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
TOKEN = "ghp_0123456789abcdefghij0123456789abcdef"


@pytest.fixture
def own() -> Iterator[Path]:
    """Settings in the caller's own home, under a name that nobody else has."""
    place = Path(paths.home_directory()) / f".robot-test-{os.getpid()}"
    (place / "commands").mkdir(parents=True)
    (place / "RULES.md").write_text("be kind\n")
    (place / "settings.json").write_text('{"model": "big"}')
    (place / "commands/deploy.md").write_text(f"with {TOKEN}\n")
    (place / "commands/test.md").write_text("run the tests\n")
    (place / "commands/.credentials.json").write_text("{}")
    (place / "history.jsonl").write_text("{}")
    (place / "commands/link.md").symlink_to(place / "history.jsonl")
    yield place
    fs.remove_tree(os.fspath(place))


@pytest.fixture
def agent(installation: Installation, own: Path) -> Iterator[Robot]:
    name = own.name
    with robot(installation, *(f"{name}/{path}" for path in ("RULES.md", "settings.json", "commands"))) as made:
        yield made


def test_settings_are_there_read_only_and_nothing_else_of_the_home_is(agent: Robot, own: Path) -> None:
    agent.installation.cli("create", "--with-settings", agent.name, ".")
    plan = agent.installation.cli("inspect", "--plan", agent.box).stdout.decode()
    assert f"bind /home/agent/{own.name}/commands from " in plan
    look = f"cd ~/{own.name} && find . | sort && cat RULES.md settings.json commands/test.md"
    done = agent.does(look, "--with-settings")
    assert done.returncode == 0, done.stderr
    found = ". ./RULES.md ./commands ./commands/test.md ./settings.json be kind"
    assert " ".join(done.stdout.decode().split()[: len(found.split())]) == found
    said = done.stderr.decode()
    for name in ("deploy.md", ".credentials.json", "link.md"):
        assert name in said
    assert TOKEN not in said
    for act in ("echo x > RULES.md", "rm RULES.md", "mv commands/test.md x", "touch commands/new", "rm -r commands"):
        assert agent.does(f"cd ~/{own.name} && {act}").returncode != 0, act
    assert agent.does(f"cd ~/{own.name} && touch own-file").returncode == 0, "around them the home is the box's"
    assert (own / "RULES.md").read_text() == "be kind\n"
    assert not (own / "own-file").exists()


def test_the_copy_is_made_anew_at_each_start(agent: Robot, own: Path) -> None:
    agent.says("true", "--with-settings")
    (own / "RULES.md").write_text("be kinder\n")
    (own / "commands/test.md").unlink()
    assert agent.says(f"cat ~/{own.name}/RULES.md") == "be kind\n", "a running box has what it started with"
    agent.installation.cli("stop", agent.box)
    assert agent.says(f"cat ~/{own.name}/RULES.md; ls ~/{own.name}") == "be kinder\nRULES.md\ncommands\nsettings.json\n"
    assert agent.says(f"ls -A ~/{own.name}/commands") == "", "its place stays, empty"


def test_without_the_word_nothing_comes_and_it_is_given_when_a_box_is_made(agent: Robot, own: Path) -> None:
    assert agent.does(f"ls ~/{own.name}").returncode == 2
    refused = agent.does("true", "--with-settings")
    assert (refused.returncode, b"exists with other with_settings" in refused.stderr) == (2, True)


def test_a_home_that_lies_in_the_way_keeps_what_it_has(agent: Robot, own: Path) -> None:
    """Links and files that the agent made where its user's settings would be: it starts, and nothing is followed."""
    outside = agent.installation.workspace / "outside"
    outside.mkdir()
    agent.says("true", "--with-settings")
    agent.installation.cli("stop", agent.box)
    place = next((agent.installation.state / "boxes").iterdir()) / "home" / own.name
    fs.remove_tree(os.fspath(place))
    place.symlink_to(outside)
    done = agent.does(f"ls -A ~/{own.name}/ | wc -l")
    assert (done.returncode, done.stdout) == (0, b"0\n")
    assert b"something else in its home" in done.stderr
    assert os.listdir(outside) == []
