"""A machine that cannot mount what a box would stand on makes no checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from paddock.errors import Unavailable
from paddock.runtime import overlays
from tests.support.namespaces import inside, private_mounts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.box
def test_where_no_overlay_can_be_mounted_is_found_out_by_doing(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "view", "plain"):
        (tmp_path / name).mkdir()

    def act() -> None:
        private_mounts()
        options = f"userxattr,lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
        kernel.mount("overlay", f"{tmp_path}/view", "overlay", 0, options)
        (tmp_path / "view/trash").mkdir()
        with pytest.raises(Unavailable, match="no checkpoint here") as caught:
            overlays.require(f"{tmp_path}/view/trash")  # a layer on layers cannot be changed by a third one
        assert caught.value.code == "no-overlay"
        assert os.listdir(tmp_path / "view/trash") == []

    inside(act)
    overlays.require(f"{tmp_path}/plain")
    assert os.listdir(tmp_path / "plain") == []
