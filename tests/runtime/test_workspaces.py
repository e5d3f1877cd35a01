"""What a box gets of its workspace in each mode, and that a workspace is left as it was."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from paddock.errors import UserError
from paddock.model import BoxSpec, Mount, WorkspaceMode
from paddock.runtime.workspaces import Workspaces
from paddock.workspace import closed, git
from tests.support.serving import request, within
from tests.workspace.scenes import make_repository

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(os.fspath(tmp_path / "placeholders"), {})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = make_repository(tmp_path / "project")
    (place / ".envrc").touch()
    (place / ".vscode").mkdir()
    return place


def prepared(workspaces: Workspaces, project: Path, mode: WorkspaceMode, **rest: Any) -> dict[str, Mount]:
    name = rest.setdefault("name", "box")
    spec = BoxSpec(agent="shell", workspace=os.fspath(project), mode=mode, caller_home="/nonexistent", **rest)
    storage = project.parent / f"storage-{name}-{mode.value}"
    storage.mkdir(exist_ok=True)
    return {mount.target: mount for mount in workspaces.prepare(spec, os.fspath(storage))}


@pytest.mark.parametrize("mode", list(WorkspaceMode))
def test_every_mode_has_a_gitdir_of_its_own_at_the_hosts_place(
    workspaces: Workspaces, project: Path, mode: WorkspaceMode
) -> None:
    mounts = prepared(workspaces, project, mode)
    gitdir = mounts[f"{project}/.git"]
    assert not gitdir.read_only
    assert gitdir.source.startswith(f"{project.parent}/storage-")
    assert (f"{project}" in mounts) == (mode is WorkspaceMode.CLONE)
    assert prepared(workspaces, project, mode) == mounts, "the next start has the same"


def test_what_the_host_trusts_is_closed_in_live_mode_alone(workspaces: Workspaces, project: Path) -> None:
    closed = {f"{project}/.envrc", f"{project}/.vscode"}
    live = prepared(workspaces, project, WorkspaceMode.LIVE)
    assert {target for target in closed if live[target].read_only and live[target].source == target} == closed
    opened = prepared(workspaces, project, WorkspaceMode.LIVE, writable=(".envrc",))
    assert closed & opened.keys() == {f"{project}/.vscode"}
    for mode in (WorkspaceMode.REVIEW, WorkspaceMode.CLONE):
        assert not closed & prepared(workspaces, project, mode).keys()


def test_a_clone_needs_a_repository_and_a_free_branch(workspaces: Workspaces, project: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="branch"):
        prepared(workspaces, project, WorkspaceMode.CLONE, branch="main")
    (tmp_path / "plain").mkdir()
    with pytest.raises(UserError, match="repository"):
        prepared(workspaces, tmp_path / "plain", WorkspaceMode.CLONE, branch="x")


def test_a_placeholder_goes_with_the_last_box_that_needs_it(workspaces: Workspaces, tmp_path: Path) -> None:
    """To remove it earlier would take the mount on it away in the boxes that run."""
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("one", "two"):
        assert f"{plain}/.git" in prepared(workspaces, plain, WorkspaceMode.LIVE, name=name)
    for busy in (str(plain), str(tmp_path), f"{plain}/sub"):
        workspaces.leave([busy])
        assert (plain / ".git").is_dir()
    workspaces.leave([f"{plain}-other"])
    assert not (plain / ".git").exists()
    assert list((tmp_path / "placeholders").iterdir()) == []


def test_nobody_enters_a_workspace_while_its_placeholders_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The box would mount on a directory that then goes, and its mount with it: the host's .git would be open."""
    plain = tmp_path / "plain"
    plain.mkdir()
    begun, go_on = threading.Event(), threading.Event()

    def slow(workspace: str, paths: tuple[str, ...]) -> None:
        begun.set()
        assert go_on.wait(10)
        tidy(workspace, paths)

    tidy = closed.tidy
    monkeypatch.setattr(closed, "tidy", slow)

    async def act(runtime: Runtime) -> None:
        one, two = [await runtime.create(request(plain, name=name)) for name in ("one", "two")]
        await runtime.workspaces.enter(one)
        leaving = asyncio.create_task(runtime.workspaces.left(one))
        assert await asyncio.to_thread(begun.wait, 10)
        entering = asyncio.create_task(runtime.workspaces.enter(two))
        done, _ = await asyncio.wait({entering}, timeout=0.2)
        go_on.set()
        await asyncio.gather(leaving, entering)
        assert not done
        assert (plain / ".git").is_dir()

    within(tmp_path / "home", act)


def test_boxes_that_leave_a_workspace_at_the_same_moment_are_in_nobodys_way(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()

    async def act(runtime: Runtime) -> None:
        boxes = [await runtime.create(request(plain, name=f"box{number}")) for number in range(8)]
        for _ in range(10):
            await asyncio.gather(*map(runtime.workspaces.enter, boxes))
            assert (plain / ".git").is_dir()
            await asyncio.gather(*map(runtime.workspaces.left, boxes))
            assert not (plain / ".git").exists()

    within(tmp_path / "home", act)


def test_what_the_host_put_into_a_placeholder_stays(workspaces: Workspaces, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    prepared(workspaces, plain, WorkspaceMode.LIVE)
    (plain / ".git/HEAD").write_text("ref: refs/heads/main\n")
    workspaces.leave([])
    assert (plain / ".git/HEAD").exists()


def test_a_damaged_record_or_a_lost_workspace_is_in_nobodys_way(workspaces: Workspaces, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    prepared(workspaces, plain, WorkspaceMode.LIVE)
    (plain / ".git").rmdir()
    plain.rmdir()
    (tmp_path / "placeholders/damaged").write_text("{")
    workspaces.leave([])
    assert list((tmp_path / "placeholders").iterdir()) == []


def test_a_host_without_git_has_boxes_too(
    workspaces: Workspaces, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "_PLACES", ("/nonexistent",))
    git.program.cache_clear()
    try:
        assert f"{project}/.git" in prepared(workspaces, project, WorkspaceMode.LIVE)
    finally:
        git.program.cache_clear()


def test_it_says_where_its_records_lie(workspaces: Workspaces, tmp_path: Path) -> None:
    assert repr(workspaces) == f"<Workspaces {tmp_path}/placeholders>"
