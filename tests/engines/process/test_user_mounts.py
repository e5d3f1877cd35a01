"""The user's directories, by the mode of the workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import plan as plans
from paddock.engines.process import user_mounts
from paddock.errors import Unavailable, UserError
from paddock.model import Mount, WorkspaceMode
from tests.support.plans import binds, ground, made, over, spec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_review_is_one_overlay_and_nothing_of_the_workspace_is_bound(host: Path) -> None:
    (host / "work/.git").mkdir()
    plan = made(host, mode=WorkspaceMode.REVIEW)
    (overlay,) = [op for op in plan.mounts if op.op == "overlay"]
    found = (host / "work").stat()
    assert (overlay.source, overlay.target, overlay.layers) == (
        f"{host}/work",
        f"{host}/work",
        f"{host}/storage/review",
    )
    assert overlay.identity == (found.st_dev, found.st_ino)
    assert over(plan, f"{host}/work") == [("overlay", "")], "its .git too is the box's own"
    assert f"{host}/work" in plan.writable
    assert f"changes to {host}/storage/review/upper" in overlay.describe()


def test_other_directories_of_a_review_are_as_in_a_live_box(host: Path) -> None:
    (host / "extra/.git").mkdir()
    plan = made(host, ("extra", "/mnt/extra", False), mode=WorkspaceMode.REVIEW)
    assert over(plan, "/mnt/extra") == [("bind", ""), ("readonly", "/.git")]


def test_a_root_callers_overlay_stands_for_the_workspaces_owner(host: Path) -> None:
    plan = plans.make(spec(host, mode=WorkspaceMode.REVIEW), ground(host, is_root=True))
    (overlay,) = [op for op in plan.mounts if op.op == "overlay"]
    assert overlay.owner == ((host / "work").stat().st_uid, (host / "work").stat().st_gid)


def test_a_review_of_a_repository_without_a_work_tree_is_refused(host: Path) -> None:
    for name in ("HEAD", "config", "objects", "refs"):
        (host / "work" / name).touch()
    with pytest.raises(UserError) as caught:
        made(host, mode=WorkspaceMode.REVIEW)
    assert caught.value.code == "git-directory"


def test_masks_come_last_and_every_directory_on_the_way_is_pinned(host: Path) -> None:
    plan = made(host, masks=(".env", "sub/deep/key"))
    assert over(plan, f"{host}/work")[-4:] == [
        ("cover", "/.env"),
        ("pin", "/sub"),
        ("pin", "/sub/deep"),
        ("cover", "/sub/deep/key"),
    ]
    assert all(op.optional for op in plan.mounts if op.op in {"pin", "cover"} and op.target.startswith(f"{host}/work"))


def test_directories_of_the_boxs_own_around_a_mount_are_pinned_before_it(host: Path) -> None:
    shown = [Mount(source=f"{host}/work", target="/home/me/work"), Mount(source=f"{host}/extra", target="/mnt/extra")]
    wanted = replace(spec(host), workspace="/home/me/work")
    found = [(op.op, op.target) for op in user_mounts.mounts(wanted, shown, ground(host), ("/",))]
    for *way, last in (("/home", "/home/me", "/home/me/work"), ("/mnt", "/mnt/extra")):
        assert [op for op in found if op[1] in {*way, last}] == [
            *((kind, step) for step in way for kind in ("dir", "pin")),
            ("bind", last),
        ]
    found = [(op.op, op.target) for op in user_mounts.mounts(wanted, shown, ground(host), ("/mnt",))]
    assert {op for op, _ in found} == {"bind"}, "what is the box's own itself is a mount"
    inner = [*shown, Mount(source=f"{host}/extra", target="/home/me/work/sub/extra")]
    found = [(op.op, op.target) for op in user_mounts.mounts(wanted, inner, ground(host), ("/",))]
    assert ("dir", "/home/me/work/sub") not in found, "nothing is made in the user's own"
    assert ("pin", "/home/me/work/sub") in found


def test_what_is_mounted_on_itself_needs_no_tree(host: Path) -> None:
    """A root caller can open 252 of them, and a workspace may hold many repositories."""
    inside = f"{host}/work/sub"
    view = (
        Mount(source=f"{host}/work/sub/a", target=f"{inside}/a", read_only=True),
        Mount(source=inside, target=inside),
        Mount(source=f"{host}/data", target=f"{inside}/a/.git"),
        Mount(source=f"{host}/data", target="/run/git/0", read_only=True),
    )
    plan = plans.make(spec(host), ground(host, view=view))
    assert over(plan, f"{host}/work") == [
        ("bind", ""),
        ("pin", "/sub"),
        ("readonly", "/sub/a"),
        ("bind", "/sub/a/.git"),
    ]
    assert set(plan.writable) >= {f"{inside}/a/.git"}
    assert "/run/git/0" not in plan.writable


def test_what_is_opened_inside_a_closed_place_is_bound_anew(host: Path) -> None:
    (host / "work/sub/open").mkdir()
    place = f"{host}/work/sub"
    view = (Mount(source=place, target=place, read_only=True), Mount(source=f"{place}/open", target=f"{place}/open"))
    plan = plans.make(spec(host), ground(host, view=view))
    assert over(plan, place) == [("readonly", ""), ("bind", "/open")]


def test_a_clone_is_bound_where_the_workspace_is(host: Path) -> None:
    view = (Mount(source=f"{host}/data", target=f"{host}/work"),)
    plan = plans.make(spec(host, mode=WorkspaceMode.CLONE), ground(host, view=view))
    sources = {op.source for op in binds(plan) if op.target == f"{host}/work"}
    assert sources == {f"{host}/data"}
    with pytest.raises(Unavailable, match="clone"):
        plans.make(spec(host, mode=WorkspaceMode.CLONE), ground(host))
