"""Where a build reads, beside boxes that have the place as their workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxRequest
from paddock.model.build import BuildRequest
from paddock.runtime import buildplaces
from tests.support.serving import within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace in which the box has put links out of it."""
    (tmp_path / "ws/sub").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private/Dockerfile").write_text("FROM secrets")
    (tmp_path / "ws/planted").symlink_to(tmp_path / "private")
    (tmp_path / "mine").symlink_to(tmp_path / "ws")
    return tmp_path


def _names(runtime: Runtime, path: Path) -> list[str]:
    with buildplaces.opened(runtime, str(path), "/own") as fd:
        return os.listdir(fd)


def test_a_directory_behind_a_link_of_a_box_is_not_built(place: Path) -> None:
    async def act(runtime: Runtime) -> None:
        assert _names(runtime, place / "ws/planted") == ["Dockerfile"], "the oracle: without a box it is the user's"
        await runtime.create(BoxRequest(workspace=str(place / "ws")))
        for path in ("ws/planted", "mine/planted"):
            with pytest.raises(UserError, match="is a symbolic link"):
                _names(runtime, place / path)
        for path in ("ws/sub", "mine/sub", "mine"):
            _names(runtime, place / path)
        for path in ("", "relative", "/a\0b"):
            with pytest.raises(UserError), buildplaces.opened(runtime, path, "/own"):
                pass

    within(place / "home", act)


def test_a_dockerfile_elsewhere_is_not_behind_one_either(place: Path) -> None:
    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="x", directory=str(place / "ws/sub"), dockerfile=str(place / "ws/planted/Dockerfile"))
        assert buildplaces.dockerfile(runtime, order, -1) == b"FROM secrets"
        await runtime.create(BoxRequest(workspace=str(place / "ws")))
        with pytest.raises(UserError, match="is a symbolic link"):
            buildplaces.dockerfile(runtime, order, -1)
        with pytest.raises(UserError, match="is no file"):
            buildplaces.dockerfile(runtime, BuildRequest(name="x", directory="/d", dockerfile="/a\0b"), -1)

    within(place / "home", act)
