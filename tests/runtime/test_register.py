"""Every box there is: what is acknowledged is in the store and on disk, and nothing else is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import BoxState, Evidence
from paddock.runtime import records
from paddock.store import JobRow, Store
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


def test_a_box_is_on_disk_and_in_the_store_when_it_is_acknowledged(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        assert os.path.isfile(f"{box.directory}/{records.FILE}")
        assert os.stat(box.directory).st_mode & 0o777 == 0o700
        store = Store(runtime.paths.database)
        rows, damaged = store.load()
        store.close()
        assert ([row.spec for row in rows], damaged) == ([box.row.spec], [])

    within(tmp_path, act)


def test_a_store_that_fails_leaves_no_directory(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(runtime: Runtime) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "insert", _full)
            with pytest.raises(Unavailable, match="disk full"):
                await runtime.create(request(workspace))
        assert (runtime.boxes, os.listdir(runtime.paths.boxes)) == ({}, [])

    within(tmp_path, act)


def test_a_box_is_found_by_its_name_its_id_and_the_beginning_of_it(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, name="mine"))
        for name in ("mine", box.row.id, box.row.id[:4]):
            assert runtime.find(name) is box
        for name in ("min", box.row.id[:3], "", "mine2"):
            with pytest.raises(UserError) as caught:
                runtime.find(name)
            assert caught.value.code == "no-box"

    within(tmp_path, act)


def test_a_box_is_the_same_by_its_agent_and_the_real_path_of_its_workspace(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "link").symlink_to(workspace)

    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace, ephemeral=True))
        assert runtime.register.same(request(workspace)) is None
        box = await runtime.create(request(workspace, name="mine"))
        assert runtime.register.same(request(tmp_path / "link")) is box
        assert runtime.register.same(request(workspace, agent="claude")) is None
        assert runtime.register.same(request(tmp_path)) is None

    within(tmp_path, act)


def test_names_of_damaged_rows_are_taken(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        runtime.register.reserved_names.add("damaged")
        await runtime.create(request(workspace, name="mine"))
        assert runtime.register.taken() == {"mine", "damaged"}

    within(tmp_path, act)


@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_start_is_recorded_with_its_evidence(tmp_path: Path, workspace: Path, ephemeral: bool) -> None:
    evidence = Evidence(pid=42, start_ticks=1, boot_id="b")

    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace, ephemeral=ephemeral))
        await runtime.register.note_start(box, evidence)
        assert (box.row.state, box.row.evidence) == (BoxState.RUNNING, evidence)
        rows, _ = await runtime.background.write(runtime._store.load)  # after what was queued before it
        assert [(row.state, row.evidence) for row in rows] == [(BoxState.RUNNING, evidence)]

    within(tmp_path, act)


def test_an_end_that_cannot_be_recorded_is_true_all_the_same(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace))
        with monkeypatch.context() as patch:
            patch.setattr(Store, "set_state", _full)
            await runtime.register.note_end(box, BoxState.FAILED, "memory")
        assert (box.state, box.info().reason) == (BoxState.FAILED, "memory")

    within(tmp_path, act)


@pytest.mark.parametrize(("code", "goes"), [("disk", True), ("locked", False)])
def test_a_box_is_forgotten_when_its_files_fill_the_disk(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, code: str, goes: bool
) -> None:
    remove = Store.remove
    said: list[str] = []

    def once(store: Store, box_id: str) -> None:
        if not said:
            said.append(code)
            raise Unavailable("no room", code=code)
        remove(store, box_id)

    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace))
        with monkeypatch.context() as patch:
            patch.setattr(Store, "remove", once)
            if goes:
                await runtime.register.forget(box)
            else:
                with pytest.raises(PaddockError, match="no room"):
                    await runtime.register.forget(box)
        assert (box in runtime.register, os.listdir(runtime.paths.boxes)) == (not goes, [])

    within(tmp_path, act)


def test_jobs_are_kept_in_their_order(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await runtime.create(request(workspace))
        for name in ("one", "two", "three"):
            await runtime.register.add_job(box, JobRow(id=name, argv=("true",), started_at="now"))
        await runtime.register.remove_job(box, "two")
        assert [job.id for job in await runtime.register.jobs(box)] == ["one", "three"]

    within(tmp_path, act)


def test_its_repr_counts_boxes(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await runtime.create(request(workspace))
        assert repr(runtime.register) == "<Register 1 boxes>"

    within(tmp_path, act)


def _full(*_: object) -> None:
    raise Unavailable("disk full", code="disk")
