"""A home on layers, mounted in a real namespace: what is changed lands above, and nothing else of the storage shows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.engines.process import branch, mounting
from paddock.engines.process.operations import MountOp
from tests.support import namespaces
from tests.support.trees import tree_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.box


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Of a box, with a chain of sixty layers beside it."""
    place = tmp_path / "box"
    for name in (branch.UPPER, branch.WORK, "journal"):
        (place / name).mkdir(parents=True)
    for number in range(60):
        layer = tmp_path / f"{number:03}"
        layer.mkdir()
        (layer / f"of-{number}").write_text(str(number))
        (layer / "all").write_text(str(number))
    return place


def operation(storage: Path) -> MountOp:
    lowers = sorted(os.fspath(path) for path in storage.parent.iterdir() if path != storage)
    return MountOp(op="branch", target="/home/agent", layers=os.fspath(storage), lowers=tuple(lowers))


def test_the_top_is_seen_and_changed_above_all_layers(storage: Path) -> None:
    op = operation(storage)
    before = [tree_of(path) for path in op.lowers]

    def act() -> None:
        mounting.build([codec.to_wire(op)], [])  # type: ignore[list-item]
        home = f"{mounting.ROOT}/home/agent"
        assert len(os.listdir(home)) == 61
        with open(f"{home}/all", encoding="ascii") as file:
            assert file.read() == "59"
        with open(f"{home}/all", "w", encoding="ascii") as file:
            file.write("changed")
        os.unlink(f"{home}/of-3")
        assert not os.path.exists(f"{home}/of-3")
        flags = os.statvfs(home).f_flag
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
        assert sorted(os.listdir(mounting.ROOT)) == sorted([mounting.EMPTY_FILE, mounting.EMPTY_DIR, "home"])

    namespaces.inside(act)
    assert [tree_of(path) for path in op.lowers] == before
    assert sorted(os.listdir(storage / branch.UPPER)) == ["all", "of-3"]
    assert os.listdir(storage / "journal") == []


def test_the_plan_says_what_the_home_stands_on(storage: Path) -> None:
    op = operation(storage)
    assert op.trees() == (*op.lowers, os.fspath(storage))
    assert op.describe().startswith(f"branch /home/agent layer {op.lowers[0]} ")
    assert op.describe().endswith(f"changes to {storage}/home")
