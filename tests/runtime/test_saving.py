"""Templates into files."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model.reference import Reference
from paddock.runtime import loading, saving, space
from tests.images import tars
from tests.runtime.test_loading import LAYER, home, image, put, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime

__all__ = ["home"]
V1 = Reference.parse("team:v1")


def empty(home: Path, name: str = "out.tar") -> Path:
    path = home / name
    path.write_bytes(b"")
    return path


def test_what_is_saved_loads_as_the_same_and_saves_as_the_same_bytes(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(home, image(LAYER, tars.archive(tars.file(b"etc/.wh.name")))))
        one, two = empty(home, "one"), empty(home, "two")
        digest = await saving.save(runtime, V1, str(one))
        await runtime.catalogue.remove(V1)
        await space.prune(runtime)
        (row,) = await loading.load(runtime, str(one))
        assert (row.name, row.tag, len(row.chain)) == ("team", "v1", 2)
        assert await saving.save(runtime, V1, str(two)) == digest
        assert one.read_bytes() == two.read_bytes()

    within(home, act)


def test_one_that_cannot_be_read_hides_no_other(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def act(runtime: Runtime) -> None:
        (row,) = await loading.load(runtime, put(home, image(LAYER)))
        bad = json.dumps({"architecture": "amd64", "config": {"Cmd": ["\ud800"]}, "rootfs": {"diff_ids": []}})
        await runtime.catalogue.add(replace(row, name="bad", config=bad))
        assert [found.name for found in await saving.listed(runtime)] == ["team:v1"]
        assert "the template bad:v1 cannot be read" in caplog.text
        await runtime.catalogue.remove(Reference.parse("bad:v1"))

    within(home, act)


def test_only_an_empty_file_is_written(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(home, image(LAYER)))
        (home / "full").write_text("mine")
        os.mkfifo(home / "pipe")
        for name in ("full", "pipe", "missing", "."):
            with pytest.raises(UserError):
                await saving.save(runtime, V1, str(home / name))
        assert (home / "full").read_text() == "mine"
        with pytest.raises(UserError, match="there is no template other:latest"):
            await saving.save(runtime, Reference.parse("other"), str(empty(home)))

    within(home, act)


def test_without_room_it_is_said(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(home, image(LAYER)))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))  # the filter of calls fits in
        try:
            with pytest.raises(Unavailable) as caught:
                await saving.save(runtime, V1, str(empty(home)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (caught.value.code, caught.value.hint) == ("disk", "free some space and try again")

    within(home, act)


def test_a_layer_that_is_gone_is_said(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (row,) = await loading.load(runtime, put(home, image(LAYER)))
        kind, _, name = row.chain[0].partition(":")
        os.rename(f"{runtime.paths.layers}/{kind}/{name}", home / "elsewhere")
        with pytest.raises(PaddockError, match="there is no layer"):
            await saving.save(runtime, V1, str(empty(home)))

    within(home, act)


def test_a_template_is_shown_with_what_it_runs(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(home, image(LAYER)))
        (listed,) = await saving.listed(runtime)
        assert (listed.name, listed.source, listed.env_names, listed.command) == ("team:v1", "file", ("A",), ("sh",))
        assert (listed.boxes, listed.disk_bytes) == ((), 0)
        assert (await saving.inspect(runtime, V1)).disk_bytes > 0

    within(home, act)
