"""What of the disk is whose: own, shared, cached, or nobody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.images.documents import ImageConfig
from paddock.images.layers import Layers, new_frozen_id
from paddock.images.oci import own_architecture
from paddock.model import BoxRequest, EngineName
from paddock.model.reference import Reference
from paddock.runtime import forking, freezing, restoring, space
from paddock.store import Store, TemplateRow
from tests.support.killing import View, every_step, stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box


_CONFIG = ImageConfig(architecture=own_architecture(), diff_ids=()).to_json().decode()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def _layer(runtime: Runtime, place: Path) -> str:
    place.mkdir()
    (place / "file").write_bytes(b"x" * 10_000)
    layers, layer = Layers(runtime.paths.layers), new_frozen_id()
    with layers.lease() as lease:
        layers.freeze(lease, str(place), layer, 0)
    return layer


def test_what_only_one_has_is_its_own_and_the_rest_is_shared(home: Path, tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"), "first")
        await forking.fork(runtime, "mine@first")
        template, step, nobodys = (_layer(runtime, tmp_path / name) for name in ("template", "step", "nobodys"))
        runtime._store.add_template(TemplateRow(name="t", tag="v1", chain=(template,), config="{}"))
        runtime._store.cache("key", step)
        found = {(info.kind, info.name): info for info in await space.usage(runtime)}
        for key in (("box", "mine"), ("box", "mine-fork"), ("checkpoint", "mine@first")):
            assert found[key].shared_bytes > 0, key
        assert found["checkpoint", "mine@first"].own_bytes == 0
        assert found["template", "t:v1"].own_bytes > 10_000
        assert found["build cache", "1 layers"].own_bytes > 10_000
        assert not found["layer", nobodys].is_used
        assert all(info.is_used for (kind, name), info in found.items() if name != nobodys)
        assert ("tools", "of agents") in found

    within(home, act)


def test_pruning_takes_what_nobody_uses_and_old_steps_of_builds(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"), "first")
        was = view(runtime, runtime.find("mine"))
        step, nobodys = (_layer(runtime, tmp_path / name) for name in ("step", "nobodys"))
        runtime._store.cache("key", step)
        assert await space.prune(runtime) == [nobodys]
        monkeypatch.setattr("paddock.limits.BUILD_CACHE_S", -1.0)
        assert await space.prune(runtime) == [step]
        assert view(runtime, runtime.find("mine")) == was

    within(home, act)


def _full(*_: object) -> None:
    raise Unavailable("disk full", code="disk")


def test_a_run_whose_row_could_not_be_written_keeps_its_root(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for that row, and a full disk is when layers are pruned."""

    async def act(runtime: Runtime) -> None:
        layer = _layer(runtime, tmp_path / "template")
        runtime._store.add_template(TemplateRow(name="t", tag="v1", chain=(layer,), config=_CONFIG))
        request = BoxRequest(
            workspace=str(tmp_path / "workspace"), engine=EngineName.CONTAINER, template="t:v1", ephemeral=True
        )
        with monkeypatch.context() as patch:
            patch.setattr(Store, "insert", _full)
            box = await runtime.create(request)
            await runtime.catalogue.remove(Reference.parse("t:v1"))
        assert layer not in runtime._store.layers(), "the oracle: the store knows of nobody"
        assert await space.prune(runtime) == []
        await runtime.lifetimes.undo(box)
        assert await space.prune(runtime) == [layer]

    within(home, act)


def test_what_recovery_could_not_write_down_keeps_its_layers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        await freezing.create(runtime, box, "first")
        views.append(view(runtime, box))
        write(box, "two")
        await freezing.create(runtime, box, "second")
        views.append(view(runtime, box))
        runtime._store.remove(box.row.id)  # as after a database was lost

    async def act(runtime: Runtime) -> None:
        assert "could not be written down" in " ".join(runtime.repairs)
        await space.prune(runtime)
        assert view(runtime, runtime.find("mine")) == views[1]

    async def again(runtime: Runtime) -> None:
        for name, seen in zip(("first", "second"), views, strict=True):
            await restoring.restore(runtime, f"mine@{name}")
            assert view(runtime, runtime.find("mine")) == seen

    within(home, prepared)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "insert", _full)
        within(home, act)
    within(home, again)


def test_pruning_that_is_killed_at_any_step_takes_nothing_that_is_used(home: Path, tmp_path: Path) -> None:
    views: list[View] = []

    async def prepared(runtime: Runtime) -> None:
        box = runtime.find("mine")
        for name in ("first", "second"):
            await freezing.create(runtime, box, name)
            write(box, name)
        (fork,) = await forking.fork(runtime, "mine@first")
        await runtime.register.drop_checkpoint(box, (await runtime.register.checkpoints(box))[0].id)
        _layer(runtime, tmp_path / "nobodys")
        views.extend(view(runtime, one) for one in (box, fork))

    within(home, prepared)

    async def prune(runtime: Runtime, _box: Box) -> None:
        await space.prune(runtime)

    def check(runtime: Runtime) -> None:
        assert [view(runtime, runtime.find(name)) for name in ("mine", "mine-fork")] == views
        assert {layer for layer in runtime.register.layers() if layer[0] != "/"} <= {
            *Layers(runtime.paths.layers).whole()
        }

    assert every_step(home, prune, check) > 3
