"""kill -9 of the daemon at each step of what is done with templates: each is there whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.images.layers import LayerId, Layers
from paddock.model.reference import Reference
from paddock.runtime import boxsaving, loading
from tests.runtime.test_loading import LAYER, image, put
from tests.support.killing import every_step, stopped_box, view, within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box
    from tests.support.killing import View

pytestmark = pytest.mark.box  # of its programs, which take their time

V1 = Reference.parse("team:v1")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


class Look:
    """After each kill: which templates there are, all of them whole, and the box as it was."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, ...]] = set()
        self.views: list[View] = []

    def __call__(self, runtime: Runtime) -> None:
        layers = Layers(runtime.paths.layers)
        rows = runtime._store.templates()
        assert runtime._store.checkpoints() == []
        self.seen.add(tuple(f"{row.name}:{row.tag}" for row in rows))
        layers.prune(runtime.register.layers)
        assert all(layers.has(LayerId(layer)) for row in rows for layer in row.chain)
        used = {layer for layer in runtime._store.layers() if not layer.startswith("/")}
        assert {*layers.whole()} == used
        self.views.append(view(runtime, runtime.find("mine")))


def test_a_load(place: Path, tmp_path: Path) -> None:
    path = put(tmp_path, image(LAYER))

    async def act(runtime: Runtime, _box: Box) -> None:
        await loading.load(runtime, path)

    look = Look()
    assert every_step(place, act, look) > 5
    assert look.seen == {(), ("team:v1",)}
    assert all(found == look.views[0] for found in look.views)


def test_a_removal(place: Path, tmp_path: Path) -> None:
    path = put(tmp_path, image(LAYER))

    async def begin(runtime: Runtime) -> None:
        await loading.load(runtime, path)

    async def act(runtime: Runtime, _box: Box) -> None:
        await runtime.catalogue.remove(V1)

    within(place, begin)
    look = Look()
    assert every_step(place, act, look) > 3
    assert look.seen == {(), ("team:v1",)}


@pytest.mark.timeout(600)  # some 70 steps, each of which starts programs where the caller is not root
def test_saving_a_box(place: Path) -> None:
    async def act(runtime: Runtime, box: Box) -> None:
        await boxsaving.save(runtime, box, V1)

    look = Look()
    assert every_step(place, act, look) > 10
    assert look.seen == {(), ("team:v1",)}
    assert look.views[0]
    assert all(found == look.views[0] for found in look.views)
