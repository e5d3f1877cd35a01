"""What a new daemon finds and clears away; the crashes themselves are in tests/soak and tests/boxes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxState
from paddock.runtime.recovery import recover
from tests.support.serving import request, running

if TYPE_CHECKING:
    from pathlib import Path


def _recovered(home: Path) -> tuple[dict[str, BoxState], list[str], list[str]]:
    """A second life: the boxes it knows, what it repaired, and the directories that are left."""

    async def act() -> tuple[dict[str, BoxState], list[str], list[str]]:
        async with running(home) as runtime:
            await recover(runtime, runtime._store)
            states = {box.name: box.state for box in runtime.boxes.values()}
            found = states, list(runtime.repairs), os.listdir(runtime.paths.boxes)
            runtime.boxes.clear()  # the support would reset them
            return found

    return asyncio.run(act())


def _first_life(home: Path, workspace: Path, **rest: object) -> str:
    """The id of a box that a daemon made before it died."""

    async def act() -> str:
        async with running(home) as runtime:
            box = await runtime.create(request(workspace, **rest))
            runtime.boxes.clear()
            return box.row.id

    return asyncio.run(act())


def _change(home: Path, text: str, *values: object) -> None:
    database = sqlite3.connect(home / "state/paddock.db")
    with database:
        database.execute(text, values)
    database.close()


def test_a_box_that_was_made_is_there_again(tmp_path: Path, workspace: Path) -> None:
    box = _first_life(tmp_path, workspace, name="mine")
    assert _recovered(tmp_path) == ({"mine": BoxState.CREATED}, [], [box])


def test_an_ephemeral_box_that_never_began_is_cleared_away(tmp_path: Path, workspace: Path) -> None:
    _first_life(tmp_path, workspace, ephemeral=True)
    states, repairs, left = _recovered(tmp_path)
    assert (states, left) == ({}, [])
    assert repairs == ["box run-workspace: its run never began; removed"]


@pytest.mark.parametrize(
    ("pid", "ticks", "boot"),
    [
        (1, 0, "current"),
        (os.getpid(), 1, "current"),
        (4_000_000, 5, "current"),
        (os.getpid(), 1, "another"),
        (None, None, None),
    ],
    ids=["the machine's init", "ourselves", "nobody", "ourselves before a restart", "no record"],
)
def test_a_box_that_ran_is_believed_only_with_evidence(
    tmp_path: Path, workspace: Path, pid: int | None, ticks: int | None, boot: str | None
) -> None:
    """A pid alone may be somebody else's by now; nobody else's process is taken for a box, and none is killed."""
    from paddock import proc

    box = _first_life(tmp_path, workspace, name="mine")
    boot_id = proc.boot_id() if boot == "current" else boot
    text = "UPDATE boxes SET state='running', pid=?, start_ticks=?, boot_id=? WHERE id=?"
    _change(tmp_path, text, pid, ticks, boot_id, box)
    states, repairs, left = _recovered(tmp_path)
    assert (states, left) == ({"mine": BoxState.STOPPED}, [box])
    why = "it ended while no daemon ran" if boot == "current" else "the machine was restarted"
    assert repairs == [f"box mine: {why}; marked stopped"]


def test_a_damaged_row_is_reported_and_its_files_are_kept(tmp_path: Path, workspace: Path) -> None:
    box = _first_life(tmp_path, workspace, name="mine")
    _change(tmp_path, "UPDATE boxes SET spec='{' WHERE id=?", box)
    states, repairs, left = _recovered(tmp_path)
    assert (states, left) == ({}, [box])
    assert repairs[0].startswith("box mine: its record is damaged")


def test_a_damaged_row_is_in_nobodys_way(tmp_path: Path, workspace: Path) -> None:
    """Its name and its position in the store are taken, although no box has them."""
    box = _first_life(tmp_path, workspace, name="mine")
    _change(tmp_path, "UPDATE boxes SET spec='{' WHERE id=?", box)

    async def act() -> None:
        async with running(tmp_path) as runtime:
            await recover(runtime, runtime._store)
            made = await runtime.create(request(workspace, name="other"))
            brief = await runtime.create(request(workspace, ephemeral=True))
            assert len({0, made.row.position, brief.row.position}) == 3
            with pytest.raises(UserError, match="exists"):
                await runtime.create(request(workspace, name="mine"))

    asyncio.run(act())


def test_a_directory_nobody_knows_is_cleared_away(tmp_path: Path, workspace: Path) -> None:
    box = _first_life(tmp_path, workspace, name="mine")
    stray = tmp_path / "state/boxes/abandoned"
    (stray / "deep/er").mkdir(parents=True)
    assert _recovered(tmp_path)[2] == [box]


def test_a_socket_without_a_process_is_no_box(tmp_path: Path, workspace: Path) -> None:
    from paddock import fs

    box = _first_life(tmp_path, workspace, name="mine")
    run = tmp_path / f"state/boxes/{box}/run"
    run.mkdir()
    fs.bind_unix(os.fspath(run), "init.sock").close()
    assert _recovered(tmp_path)[0] == {"mine": BoxState.CREATED}
