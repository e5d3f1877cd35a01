"""A copy of a live workspace: kept where it was asked for, and brought out to a new place alone."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, UserError
from paddock.fs import copying
from paddock.runtime import apart, forking, freezing, livecopies, restoring
from tests.support.killing import stopped_box, view, within
from tests.support.trees import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_it_comes_out_on_request_and_no_restore_or_fork_uses_it(home: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "deep").mkdir()
    (workspace / "deep/file").write_text("then")
    (workspace / "link").symlink_to("/etc")
    was = tree_of(workspace)

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        made = await freezing.create(runtime, box, "with", with_workspace=True)
        assert made.parts[-1] == "workspace"
        plain = await freezing.create(runtime, box, "without")
        assert "workspace" not in plain.parts
        (workspace / "deep/file").write_text("now")
        await restoring.restore(runtime, "mine@with")
        (fork,) = await forking.fork(runtime, "mine@with")
        assert (workspace / "deep/file").read_text() == "now"
        assert view(runtime, fork) == view(runtime, box)
        assert not os.path.exists(f"{fork.directory}/workspace")
        await livecopies.bring(runtime, "mine@with", str(tmp_path / "out"))
        assert tree_of(tmp_path / "out") == was
        (tmp_path / "out/deep/file").write_text("changed")
        await livecopies.bring(runtime, "mine@with", str(tmp_path / "again"))
        assert tree_of(tmp_path / "again") == was, "a copy of its own"
        for place, said in (
            (str(tmp_path / "out"), "exists"),
            (runtime.paths.state + "/new", "own"),
            ("relative", "absolute"),
            (str(tmp_path / "a/../b"), "absolute"),
        ):
            with pytest.raises(UserError, match=said):
                await livecopies.bring(runtime, "mine@with", place)
        with pytest.raises(UserError, match="holds no copy"):
            await livecopies.bring(runtime, "mine@without", str(tmp_path / "other"))
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"root", "workspace", "home", "out", "again"}, "nothing half-made"

    within(home, act)


def test_a_workspace_behind_a_link_of_another_box_is_not_copied(home: Path, tmp_path: Path) -> None:
    """A box that has the directory around it could have another one copied."""
    victim = tmp_path / "victim/workspace"
    victim.mkdir(parents=True)

    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was = view(runtime, box)
        box.row = replace(box.row, spec=replace(box.row.spec, workspace=str(tmp_path / "around/workspace")))
        (tmp_path / "around").symlink_to(tmp_path / "victim")
        with pytest.raises(PaddockError, match="cannot copy"):
            await freezing.create(runtime, box, "with", with_workspace=True)
        assert (view(runtime, box), await runtime.register.checkpoints(box)) == (was, [])
        (tmp_path / "around").unlink()
        (tmp_path / "around/workspace").mkdir(parents=True)
        await freezing.create(runtime, box, "with", with_workspace=True)

    within(home, act)


def test_no_link_that_a_box_made_leads_it_elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one on the way, nor one that is put there while it is copied."""
    workspace, victim = tmp_path / "workspace", tmp_path / "victim"
    (workspace / ".ssh/deep").mkdir(parents=True)
    (workspace / ".ssh/keys").write_text("of the box")
    os.link(workspace / ".ssh/keys", workspace / ".ssh/deep/keys")
    (victim / ".ssh").mkdir(parents=True)
    (victim / ".ssh/keys").write_text("of the host")
    was = tree_of(victim)
    content = copying._content

    def swap(*args: int) -> None:
        content(*args)
        (staged,) = workspace.glob("sub/.out.*")
        os.rename(workspace / "sub", workspace / "moved")
        (workspace / "sub").mkdir()
        (workspace / "sub" / staged.name).symlink_to(victim)

    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"), "with", with_workspace=True)
        (workspace / "sub").symlink_to(victim)
        with pytest.raises(UserError, match="is a symbolic link"):
            await livecopies.bring(runtime, "mine@with", str(workspace / "sub/out"))
        (workspace / "sub").unlink()
        (workspace / "sub").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(copying, "_content", swap)
            patch.setattr(apart, "_do", lambda task, one, other: apart._TASKS[task](one, other, 0))  # in this process
            await livecopies.bring(runtime, "mine@with", str(workspace / "sub/out"))
        assert (workspace / "moved/out/.ssh/deep/keys").read_text() == "of the box"
        assert tree_of(victim) == was
        assert (victim / ".ssh/keys").stat().st_nlink == 1

    within(home, act)
