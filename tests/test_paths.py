"""Where an installation keeps its things."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.guard import check_source
from paddock.paths import Paths, home_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("environ", "state", "config"),
    [
        ({"PADDOCK_HOME": "/p"}, "/p/state", "/p/config"),
        ({"PADDOCK_HOME": "/p/", "HOME": "/h", "XDG_STATE_HOME": "/s"}, "/p/state", "/p/config"),
        ({"PADDOCK_HOME": "/p/../q"}, "/q/state", "/q/config"),
        ({"HOME": "/h"}, "/h/.local/state/paddock", "/h/.config/paddock"),
        ({"PADDOCK_HOME": "", "HOME": "/h"}, "/h/.local/state/paddock", "/h/.config/paddock"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, "/s/paddock", "/c/paddock"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/paddock", "/h/.config/paddock"),
    ],
)
def test_the_environment_says_where(environ: dict[str, str], state: str, config: str) -> None:
    where = Paths(environ)
    assert (where.state, where.config) == (state, config)
    assert where.private == (state, config, *(f"{config}/{name}" for name in ("policy.toml", "mcp.toml", "agents")))
    assert all(path.startswith(f"{state}/") for path in (where.run, where.boxes, where.trash, where.database))


def test_a_relative_home_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert Paths({"PADDOCK_HOME": "here"}).state == "/usr/here/state"


@pytest.mark.parametrize(
    "environ", [{"PADDOCK_HOME": "/p/./x/"}, {"HOME": "/h"}, {"HOME": "/h", "XDG_STATE_HOME": "/s"}]
)
def test_another_process_finds_the_same_place_by_the_home(environ: dict[str, str]) -> None:
    where = Paths(environ)
    assert Paths({**environ, "PADDOCK_HOME": where.home}).state == where.state


def test_without_any_variable_the_account_says_where() -> None:
    try:
        account = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        account = "/nonexistent"
    assert Paths({}).state == f"{account}/.local/state/paddock"


def test_the_home_is_the_accounts_and_not_a_variables() -> None:
    try:
        account = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        account = "/elsewhere"
    assert home_directory({"HOME": "/elsewhere"}) == account


def test_its_repr_says_where() -> None:
    assert repr(Paths({"PADDOCK_HOME": "/p"})) == "<Paths /p/state>"


def test_no_box_sees_what_the_configuration_links_to(tmp_path: Path) -> None:
    """Who writes there writes programs, hosts and mounts into the user's mouth."""
    config, dotfiles, other = tmp_path / "config", tmp_path / "dotfiles", tmp_path / "other"
    (config / "agents").mkdir(parents=True)
    dotfiles.mkdir()
    other.mkdir()
    for name in ("policy.toml", "mcp.toml", "agents/mine.toml"):
        (dotfiles / "file").touch()
        private = Paths({"PADDOCK_HOME": str(tmp_path)}).private
        assert check_source(str(dotfiles), home="", state_dirs=private, what="workspace"), "the oracle: before the link"
        (config / name).symlink_to(dotfiles / "file")
        private = Paths({"PADDOCK_HOME": str(tmp_path)}).private
        with pytest.raises(UserError, match="private directory of paddock"):
            check_source(str(dotfiles), home="", state_dirs=private, what="workspace")
        assert check_source(str(other), home="", state_dirs=private, what="workspace")
        (config / name).unlink()
