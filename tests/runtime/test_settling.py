"""What a crash left of a checkpoint is finished, or undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.images.layers import Layers, new_frozen_id
from paddock.runtime import freezing, settling
from paddock.store import CheckpointRow, Store, now
from tests.support.killing import View, look, stopped_box, view, within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_what_recovery_has_no_room_to_write_down_is_not_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def full(_store: Store, _checkpoint: str) -> None:
        raise Unavailable("cannot write: no room", code="disk")

    views: list[View] = []

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        frozen = new_frozen_id()
        row = CheckpointRow(id="c", box=box.row.id, name="c", created_at=now(), home=(frozen,))
        await runtime.register.begin_checkpoint(row)
        layers = Layers(runtime.paths.layers)
        with layers.lease() as lease:
            layers.freeze(lease, f"{box.directory}/home", frozen, 0)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "finish_checkpoint", full)
            await settling.settle(runtime, runtime._store)
        assert "no room" in runtime.repairs[-1]
        assert view(runtime, box) == views[0]

    within(home, act)

    def check(runtime: Runtime) -> None:
        assert view(runtime, runtime.find("mine")) == views[0]
        assert runtime._store.checkpoints() == []

    look(home, check)


def test_a_checkpoint_that_was_to_pass_goes_and_what_it_froze_stays(home: Path) -> None:
    views: list[View] = []

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        views.append(view(runtime, box))
        await freezing.create(runtime, box, "fork.mine")
        layers = Layers(runtime.paths.layers)
        for what in ("fork", "save"):
            with layers.lease() as lease:
                await freezing.freeze(runtime, box, freezing.passing_name(what), lease)

    within(home, act)

    def check(runtime: Runtime) -> None:
        assert [row.name for row in runtime._store.checkpoints()] == ["fork.mine"], "which is a user's own"
        assert view(runtime, runtime.find("mine")) == views[0]

    look(home, check)
