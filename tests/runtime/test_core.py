"""The runtime: boxes are made, opened again, changed and removed; what is refused leaves nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container.removal import remove_tree
from paddock.errors import UserError
from paddock.images.layers import LayerId, Layers
from paddock.model import BoxState, EngineName, Limits, Mount, WorkspaceMode
from paddock.runtime import space, templates
from tests.runtime.test_loading import LAYER, image, put
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


def test_a_refused_request_leaves_nothing(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        for bad in ("/", "/nonexistent", runtime.paths.state):
            with pytest.raises(UserError):
                await runtime.create(request(bad))  # type: ignore[arg-type]
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

    within(tmp_path, act)


def test_requests_at_the_same_moment_get_names_of_their_own(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        boxes = await asyncio.gather(*(runtime.create(request(workspace, ephemeral=True)) for _ in range(20)))
        assert len({box.name for box in boxes}) == 20

    within(tmp_path, act)


def test_one_of_two_requests_for_a_name_gets_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        made = await asyncio.gather(
            *(runtime.create(request(workspace, name="mine")) for _ in range(5)), return_exceptions=True
        )
        refused = [error for error in made if isinstance(error, UserError) and error.code == "exists"]
        assert (len(refused), len(runtime.boxes)) == (4, 1)

    within(tmp_path, act)


def test_opening_at_the_same_moment_is_one_box(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        opened = await asyncio.gather(*(runtime.open(request(workspace)) for _ in range(5)))
        assert sorted(new for _, new in opened) == [False] * 4 + [True]
        assert len({box.row.id for box, _ in opened}) == 1

    within(tmp_path, act)


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ({}, ""),
        ({"name": "mine"}, ""),
        ({"limits": Limits(pids=5)}, ""),
        ({"limits": Limits(pids=6)}, "different"),
        ({"mounts": (Mount(source="/usr/share/doc", target="/mnt/doc"),)}, "different"),
    ],
)
def test_a_box_is_opened_again_only_as_it_is(
    tmp_path: Path, workspace: Path, rest: dict[str, object], code: str
) -> None:
    async def act(runtime: Runtime) -> None:
        first, _ = await runtime.open(request(workspace, name="mine", limits=Limits(pids=5)))
        if not code:
            assert await runtime.open(request(workspace, **rest)) == (first, False)
            return
        with pytest.raises(UserError) as caught:
            await runtime.open(request(workspace, **rest))
        assert caught.value.code == code
        assert "mine" in caught.value.message

    within(tmp_path, act)


def test_a_name_or_a_mode_of_its_own_is_another_box(tmp_path: Path, workspace: Path) -> None:
    elsewhere = workspace / "inner"
    elsewhere.mkdir()

    async def act(runtime: Runtime) -> None:
        async def opened(**rest: object) -> tuple[str, bool]:
            box, is_new = await runtime.open(request(workspace, **rest))
            return box.name, is_new

        review = {"mode": WorkspaceMode.REVIEW}
        assert await opened(name="first") == ("first", True)
        assert await opened(name="second") == ("second", True)
        assert await opened(name="third", **review) == ("third", True)
        assert await opened(name="second") == ("second", False)
        assert await opened() == ("first", False)
        assert await opened(**review) == ("third", False)
        with pytest.raises(UserError, match="'second' exists with other mode"):
            await opened(name="second", **review)
        with pytest.raises(UserError, match="'first' exists"):
            await runtime.open(request(elsewhere, name="first"))

    within(tmp_path, act)


def test_a_review_stays_one_when_it_is_not_asked_for_again(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        made, _ = await runtime.open(request(workspace, mode=WorkspaceMode.REVIEW))
        assert await runtime.open(request(workspace)) == (made, False)

    within(tmp_path, act)


def test_opening_again_with_variables_adds_them(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.open(request(workspace, env={"A": "1"}))
        box, _ = await runtime.open(request(workspace, env={"B": "2"}))
        assert box.row.spec.env == {"A": "1", "B": "2"}

    within(tmp_path, act)


def test_an_ephemeral_box_is_never_opened_again(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace, ephemeral=True))
        assert (await runtime.open(request(workspace)))[1] is True

    within(tmp_path, act)


@pytest.mark.parametrize("env", [{"1A": "x"}, {"A": "\0"}, {"A": "x" * 300_000}])
def test_a_bad_variable_changes_nothing(tmp_path: Path, workspace: Path, env: dict[str, str]) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine", env={"A": "1"}))
        with pytest.raises(UserError):
            await runtime.set_env("mine", env, ())
        assert box.row.spec.env == {"A": "1"}

    within(tmp_path, act)


def test_prune_leaves_what_never_ran(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        assert await runtime.prune() == []
        box.row = await runtime.background.write(runtime._store.set_state, box.row, BoxState.STOPPED)
        assert [info.box for info in await runtime.prune()] == ["mine"]

    within(tmp_path, act)


def test_its_repr_counts_boxes(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace))
        assert repr(runtime) == "<Runtime 1 boxes>"

    within(tmp_path, act)


@pytest.mark.parametrize("verb", ["create", "open"])
def test_an_image_that_takes_long_keeps_nobody_else_waiting(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Its layers are in no row while it is unpacked, and others make boxes, fork and prune meanwhile."""
    path = put(tmp_path, image(LAYER))
    at_work, may_go_on = threading.Event(), threading.Event()
    unpacked = templates.unpacked

    def slow(*args: object) -> object:
        found = unpacked(*args)  # type: ignore[arg-type]
        at_work.set()
        assert may_go_on.wait(60)
        return found

    async def act(runtime: Runtime) -> None:
        runtime.engines = dict.fromkeys(EngineName, runtime.engines[EngineName.PROCESS])
        monkeypatch.setattr(templates, "unpacked", slow)
        asked = request(workspace, name="long", engine=EngineName.CONTAINER, template=path)
        made = asyncio.create_task(getattr(runtime, verb)(asked))
        assert await asyncio.to_thread(at_work.wait, 60)
        await asyncio.wait_for(runtime.create(request(workspace, name="other")), 60)
        assert await asyncio.wait_for(space.prune(runtime), 60) == []
        may_go_on.set()
        await made
        assert await space.prune(runtime) == []
        (layer,) = runtime.find("long").row.spec.layers
        assert Layers(runtime.paths.layers).has(LayerId(layer))

    within(tmp_path, act)
    remove_tree(f"{tmp_path}/state")
