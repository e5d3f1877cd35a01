"""Checkpoints in files; what boxes make of them is in tests/boxes/test_checkpoint_files.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxSpec, EngineName, ImageRun, Mount, Network, NetworkRule, SecretUse
from paddock.runtime import checkpointfiles, freezing
from tests.runtime.test_loading import LAYER, home, image, put, within
from tests.support.serving import request

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime

__all__ = ["home"]


async def _made(runtime: Runtime, home: Path) -> None:
    """box@c1"""
    workspace = home / "workspace"
    workspace.mkdir(exist_ok=True)
    rules = Network(rules=(NetworkRule(action="allow", pattern="example.com"),))
    box = await runtime.create(request(workspace, name="box", env={"TOKEN": "hush-hush"}, network=rules))
    os.mkdir(f"{box.directory}/home")
    with open(f"{box.directory}/home/file", "w", encoding="ascii") as file:
        file.write("content")
    await freezing.create(runtime, box, "c1")


def test_what_is_taken_in_has_files_and_no_rights(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await _made(runtime, home)
        path = put(home, b"", "out")
        await checkpointfiles.write(runtime, "box@c1", path)
        with open(path, "rb") as file:
            assert b"hush-hush" not in file.read()
        box = await checkpointfiles.take(runtime, path, request(home / "workspace", name="new"))
        spec = box.row.spec
        assert (spec.env, spec.network.rules, spec.mounts, spec.engine) == ({}, (), (), EngineName.PROCESS)
        assert len(spec.home_layers) == 1
        assert os.path.isdir(f"{box.directory}/home")

    within(home, act)


def test_only_an_empty_file_is_written_and_only_what_there_is(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await _made(runtime, home)
        with pytest.raises(UserError, match="is no empty file"):
            await checkpointfiles.write(runtime, "box@c1", put(home, b"mine", "out"))
        with pytest.raises(UserError, match="no checkpoint 'c2'"):
            await checkpointfiles.write(runtime, "box@c2", put(home, b"", "other"))

    within(home, act)


def test_an_image_is_no_checkpoint_and_a_checkpoint_takes_no_more_words(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (home / "workspace").mkdir()
        wanted = request(home / "workspace")
        for data in (image(LAYER), image(LAYER, tag="checkpoint-root:v1"), b"text" * 999):
            with pytest.raises(UserError):
                await checkpointfiles.take(runtime, put(home, data), wanted)
        secret = request(home / "workspace", secrets=(SecretUse(name="github"),))
        with pytest.raises(UserError, match="has its root from it"):
            await checkpointfiles.take(runtime, put(home, image(LAYER)), secret)
        assert runtime.boxes == {}

    within(home, act)


def test_a_root_makes_a_container_with_what_its_image_says() -> None:
    spec = BoxSpec(
        name="a", agent="shell", workspace="/w", env={"B": "mine"}, mounts=(Mount(source="/a", target="/b"),)
    )
    run = ImageRun(user="me", env=("A=1", "B=2"))
    found = checkpointfiles._Found(home=("frozen:h",), root=("frozen:r",), image=run)
    made = checkpointfiles._made_of(spec, found, "/file")
    assert (made.engine, made.layers, made.home_layers) == (EngineName.CONTAINER, ("frozen:r",), ("frozen:h",))
    assert (made.env, made.image, made.mounts, made.template) == ({"A": "1", "B": "mine"}, run, spec.mounts, "/file")
    alone = checkpointfiles._made_of(spec, checkpointfiles._Found(home=("frozen:h",)), "/file")
    assert (alone.engine, alone.template, alone.home_layers) == (EngineName.PROCESS, "", ("frozen:h",))
