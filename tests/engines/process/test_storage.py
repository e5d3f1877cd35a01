"""A box's private storage: what stays from run to run and what does not."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import storage
from paddock.errors import Unavailable
from paddock.model import WorkspaceMode
from tests.support.engine import placed, within
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.engine import ProcessEngine
    from paddock.engines.process.warm import Launcher


def test_home_and_journals_stay_and_tmp_does_not(host: Path) -> None:
    place = host / "boxes/one"
    for _ in range(2):
        asyncio.run(storage.prepare(placed(host)))
        for name in ("home", "journal", "tmp"):
            (place / name / "file").touch()
    asyncio.run(storage.prepare(placed(host)))
    kept = {name for name in ("home", "journal", "tmp") if (place / name / "file").exists()}
    assert kept == {"home", "journal"}
    assert stat.S_IMODE((place / "tmp").stat().st_mode) == 0o1777
    assert {stat.S_IMODE((place / name).stat().st_mode) for name in ("home", "run", "journal")} == {0o700}
    assert not (place / "review").exists()


def test_a_plan_that_is_only_shown_makes_nothing_but_its_ground(host: Path) -> None:
    for _ in range(2):
        storage.stand_in(placed(host))
    assert sorted(os.listdir(host / "boxes/one")) == ["home", "tmp"]


def test_a_review_needs_extended_attributes_and_says_so(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(Unavailable, match="without extended attributes") as caught:
        asyncio.run(storage.prepare(placed(host, mode=WorkspaceMode.REVIEW)))
    assert (caught.value.code, "PADDOCK_HOME" in caught.value.hint) == ("no-attributes", True)


@pytest.mark.box
def test_the_layers_of_a_review_lie_in_its_storage_and_stay(host: Path) -> None:
    (host / "work").chmod(0o750)
    placement = placed(host, mode=WorkspaceMode.REVIEW)
    layers = host / "boxes/one/review"

    async def act(one: ProcessEngine, _launcher: Launcher) -> None:
        for _ in range(2):
            handle = await one.start(placement)
            assert len(handle.overlays) == 1
            assert handle.refresh()
            handle.kill()
            until(handle.ended, "the box ended")
            handle.close()

    within(host, act)
    assert stat.S_IMODE((layers / "upper").stat().st_mode) == 0o750
    assert {path.name for path in layers.iterdir()} == {"upper", "work"}
