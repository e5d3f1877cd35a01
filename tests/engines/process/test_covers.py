"""Which operations of a box the host can undo, and that a later daemon knows them from their record."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from paddock.engines.base import Placement
from paddock.engines.process.covers import Covers, over_host
from paddock.engines.process.operations import MountOp
from paddock.engines.process.warm import Launcher
from paddock.errors import Unavailable
from paddock.fs.births import born
from paddock.model import BoxId, BoxSpec, Mount, WorkspaceMode

if TYPE_CHECKING:
    from pathlib import Path

PLAN = (
    MountOp(op="bind", target="/usr", source="/usr"),
    MountOp(op="cover", target="/proc/keys"),
    MountOp(op="bind", target="/w", source="/w"),
    MountOp(op="bind", target="/w/.git", source="/state/git", attributes=("nosuid",), identity=(1, 2)),
    MountOp(op="readonly", target="/w/.git/inner"),
    MountOp(op="pin", target="/w/way"),
    MountOp(op="bind", target="/w/extra", source="/elsewhere", identity=(1, 3)),
    MountOp(op="readonly", target="/w/extra/.git"),
    MountOp(op="cover", target="/w/.env", optional=True),
    MountOp(op="dir", target="/w/made"),
)


def spec(mode: WorkspaceMode = WorkspaceMode.LIVE, **rest: Any) -> BoxSpec:
    return BoxSpec(name="box", agent="shell", workspace="/w", mode=mode, **rest)


def names(made: BoxSpec) -> dict[str, str]:
    return {cover.op.target: cover.host for cover in over_host(made, PLAN)}


def test_what_lies_in_a_live_workspace_can_be_undone_from_the_host() -> None:
    extra = Mount(source="/elsewhere", target="/w/extra")
    assert names(spec(mounts=(extra,))) == {
        "/w/.git": "/w/.git",
        "/w/.git/inner": "",  # it lies in a directory of the box's own, and goes with it
        "/w/way": "/w/way",
        "/w/extra": "/w/extra",
        "/w/extra/.git": "/elsewhere/.git",  # under the name it has on the host
        "/w/.env": "/w/.env",
    }


@pytest.mark.parametrize("mode", [WorkspaceMode.REVIEW, WorkspaceMode.CLONE])
def test_what_lies_in_a_private_workspace_cannot(mode: WorkspaceMode) -> None:
    assert names(spec(mode)) == {}
    extra = Mount(source="/elsewhere", target="/w/extra")
    assert names(spec(mode, mounts=(extra,))) == {"/w/extra/.git": "/elsewhere/.git"}


@pytest.fixture
def placement(tmp_path: Path) -> Placement:
    (tmp_path / "w").mkdir()
    (tmp_path / "box").mkdir()
    made = BoxSpec(name="box", agent="shell", workspace=f"{tmp_path}/w")
    return Placement(id=BoxId("a"), spec=made, directory=f"{tmp_path}/box", index=0)


def covers() -> Covers:
    return Covers(Launcher(os.devnull), None)


def test_a_later_daemon_knows_what_was_covered_but_not_which_files_it_was(placement: Placement) -> None:
    work = placement.spec.workspace
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    other = os.open("/proc/self/ns/user", os.O_RDONLY)
    first = covers()
    first.begin(placement, (MountOp(op="cover", target=f"{work}/.env"), *PLAN))
    first.keep(placement, namespace)
    assert first.names(placement) == {f"{work}/.env": ()}, "nothing was there"
    with open(f"{work}/.env", "x", encoding="ascii"):
        first.begin(placement, (MountOp(op="cover", target=f"{work}/.env"),))
    first.keep(placement, namespace)
    assert first.names(placement) == {f"{work}/.env": born(f"{work}/.env")}
    second = covers()
    assert second.names(placement) == {f"{work}/.env": ()}
    with pytest.raises(Unavailable, match="which mounts are its own"):
        asyncio.run(second.restore(placement, other))
    second.forget(placement)
    assert covers().names(placement) == {}
    assert os.listdir(placement.directory) == []
    os.close(namespace)
    os.close(other)


@pytest.mark.parametrize("content", ["", "[]", '{"covers": [{"op": {"op": "format"}}]}', "{"])
def test_a_damaged_record_names_nothing(placement: Placement, content: str) -> None:
    with open(f"{placement.directory}/covers.json", "w", encoding="ascii") as file:
        file.write(content)
    assert covers().names(placement) == {}


def test_a_launcher_that_cannot_help_is_told(placement: Placement) -> None:
    """The namespace is that of this test: nobody may enter their own."""
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)

    async def ask() -> None:
        launcher = Launcher(os.devnull)
        asked = Covers(launcher, None)
        asked.begin(placement, (MountOp(op="cover", target=f"{placement.spec.workspace}/.env"),))
        asked.keep(placement, namespace)
        try:
            with pytest.raises(Unavailable, match="cannot be covered in the box: ") as caught:
                await asked.restore(placement, namespace)
            assert caught.value.code == "cover"
        finally:
            await launcher.close()

    asyncio.run(ask())
    os.close(namespace)
