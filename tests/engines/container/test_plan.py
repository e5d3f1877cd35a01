"""The plan of a container box, as data."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from paddock.engines.container.engine import ContainerEngine
from paddock.engines.process import cgroups, storage
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.warm import Launcher
from tests.engines.container.boxes import placed

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_every_layer_and_mount_and_the_bundle(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root)
    asyncio.run(storage.prepare(placement))
    engine = ContainerEngine(f"{tmp_path}/state", Launcher(f"{tmp_path}/log"), Bounds(cgroups.Cgroups(tag="test")))
    lines = engine.describe(placement)
    assert f"layer {root}" in lines
    assert f"changes to {tmp_path}/boxes/one/root/upper" in lines
    assert any(line.startswith(f"bind {tmp_path}/work from {tmp_path}/work") for line in lines)
    assert any(line.startswith("set-id bits refused") for line in lines)
    config = next(line.removeprefix("config ") for line in lines if line.startswith("config "))
    assert json.loads(config)["root"] == {"path": "rootfs", "readonly": False}


def test_what_is_executed_lies_below_the_root_of_the_bundle(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root)
    asyncio.run(storage.prepare(placement))
    engine = ContainerEngine(f"{tmp_path}/state", Launcher(f"{tmp_path}/log"), Bounds(cgroups.Cgroups(tag="test")))
    plan = json.loads(engine._plan(placement, sealed=False).encode())
    assert plan["mounts"]
    assert all(op["target"].startswith("/rootfs/") for op in plan["mounts"])
