"""Boxes as templates; what becomes of them is in tests/boxes/test_templates.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images.layers import LayerId, Layers
from paddock.model import BoxSpec, EngineName, ImageRun
from paddock.model.reference import Reference
from paddock.runtime import boxsaving, loading, steptargets
from tests.runtime.test_loading import LAYER, home, image, put, within
from tests.support import killing
from tests.support.serving import request

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime

__all__ = ["home"]


def test_a_process_box_has_no_root_to_save(home: Path) -> None:
    (home / "workspace").mkdir()

    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(home / "workspace", name="mine"))
        with pytest.raises(UserError, match="mine is a process box: its root is the host's") as caught:
            await boxsaving.save(runtime, box, Reference.parse("x"))
        assert caught.value.code == "no-root"
        assert await runtime.catalogue.listed() == []

    within(home, act)


def test_a_box_that_may_hold_a_token_is_not_saved(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        spec = box.row.spec
        await runtime.register.change(box, _with(spec, logins=("claude",)))
        with pytest.raises(UserError, match="mine may hold a token: claude could log in") as caught:
            await boxsaving.save(runtime, box, Reference.parse("x"))
        assert (caught.value.code, "--allow-login" in caught.value.hint) == ("has-login", True)
        assert await runtime.catalogue.listed() == []
        assert box.row.spec.home_layers == ()
        await runtime.register.change(box, spec)
        assert (await boxsaving.save(runtime, box, Reference.parse("x"))).name == "x", "the oracle: it was the token"

    for place in killing.stopped_box(tmp_path):
        killing.within(place, act)


def test_a_template_that_is_another_by_now_says_nothing_of_the_box(home: Path) -> None:
    run = ImageRun(user="me", entrypoint=("/own",), env=("OWN=1",))

    async def act(runtime: Runtime) -> None:
        (row,) = await loading.load(runtime, put(home, image(LAYER)))
        spec = BoxSpec(
            name="a", agent="shell", workspace="/w", engine=EngineName.CONTAINER, template="team:v1", image=row.image
        )
        same = await boxsaving.config_of(runtime, spec, (*row.chain, "frozen:x"))
        assert (same.env, same.cmd, same.diff_ids) == (("A=1",), ("sh",), ())
        for changed, chain in (
            (spec, ("frozen:x",)),
            (_with(spec, image=run), row.chain),
            (_with(spec, template="/x"), ()),
        ):
            own = await boxsaving.config_of(runtime, changed, chain)
            assert own.env == changed.image.env
        assert (await boxsaving.config_of(runtime, _with(spec, image=run), ())).entrypoint == ("/own",)

    within(home, act)


def _with(spec: BoxSpec, **changes: object) -> BoxSpec:
    from dataclasses import replace

    return replace(spec, **changes)  # type: ignore[arg-type]


def test_a_directory_of_the_users_becomes_a_layer_and_links_in_its_place_do_not(home: Path) -> None:
    (home / "dir").mkdir()
    (home / "dir/file").write_text("content")
    (home / "link").symlink_to("dir")
    layers = Layers(f"{home}/state/layers")
    with layers.lease() as lease:
        (found,) = boxsaving.of_the_store(layers, lease, (str(home / "dir"),))
        with open(f"{layers.tree(LayerId(found))}/file", encoding="ascii") as file:
            assert file.read() == "content"
        with pytest.raises(OSError, match=r"[Nn]ot a directory|symbolic"):
            boxsaving.of_the_store(layers, lease, (str(home / "link"),))
    assert os.listdir(f"{layers.root}/staging") == []


def test_a_directory_of_holes_leaves_the_host_its_space(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "dir").mkdir()
    with open(home / "dir/holes", "wb") as file:
        file.truncate(1 << 20)
    layers = Layers(f"{home}/state/layers")
    with layers.lease() as lease:
        assert boxsaving.of_the_store(layers, lease, (str(home / "dir"),)), "the oracle"
        monkeypatch.setattr(steptargets, "DISK_FLOOR_BYTES", 1 << 60)
        with pytest.raises(Unavailable, match="no space left"):
            boxsaving.of_the_store(layers, lease, (str(home / "dir"),))
    assert os.listdir(f"{layers.root}/staging") == []


def test_only_the_directory_that_a_box_was_made_of_is_given_away(home: Path) -> None:
    """Somebody who can write to a directory around it may have put another there, or a link."""
    (home / "around/dir").mkdir(parents=True)
    (home / "around/dir/file").write_text("content")
    place = str(home / "around/dir")
    status = os.stat(place)
    pinned = (status.st_dev, status.st_ino)
    layers = Layers(f"{home}/state/layers")
    with layers.lease() as lease:
        assert boxsaving.of_the_store(layers, lease, (place,), pinned)
        os.rename(home / "around", home / "moved")
        (home / "around").symlink_to("moved")
        with pytest.raises(OSError, match="symbolic"):
            boxsaving.of_the_store(layers, lease, (place,), pinned)
        (home / "around").unlink()
        (home / "around/dir").mkdir(parents=True)
        with pytest.raises(Unavailable, match="was replaced"):
            boxsaving.of_the_store(layers, lease, (place,), pinned)
    assert os.listdir(f"{layers.root}/staging") == []
