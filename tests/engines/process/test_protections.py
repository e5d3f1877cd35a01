"""What of the user's directories a box must not have."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import hostsockets, protections
from paddock.engines.process import plan as plans
from paddock.errors import UserError
from paddock.model import Mount
from tests.support.plans import ground, made, over, spec

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.plan import Plan


def _git(plan: Plan) -> list[tuple[str, str]]:
    return [(op.op, op.target) for op in plan.mounts if op.target.endswith("/.git")]


def test_a_workspace_without_git_has_nothing_to_protect(host: Path) -> None:
    assert _git(made(host)) == []


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_git_of_a_workspace_is_read_only(host: Path, kind: str) -> None:
    git = host / "work/.git"
    git.mkdir() if kind == "directory" else git.write_text("gitdir: ../elsewhere\n")
    assert _git(made(host)) == [("readonly", f"{host}/work/.git")]


@pytest.mark.parametrize("target", ["elsewhere", "/etc", "nowhere"])
def test_git_that_is_a_link_is_refused(host: Path, target: str) -> None:
    (host / "work/.git").symlink_to(target)
    with pytest.raises(UserError) as caught:
        made(host)
    assert caught.value.code == "git-link"
    assert f"{host}/work/.git" in caught.value.message


def test_git_of_a_mount_is_protected_where_it_lands(host: Path) -> None:
    (host / "extra/.git").mkdir()
    (host / "data/.git").mkdir()
    plan = made(host, ("extra", "/mnt/a", False), ("data", "/mnt/b", True))
    assert _git(plan) == [("readonly", "/mnt/a/.git")], "the other one is read-only as a whole"


def test_sockets_in_what_is_shown_are_covered_where_they_land(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    for name in ("work/sub/a.sock", "extra/b.sock"):
        monkeypatch.chdir((host / name).parent)
        opened.append(socket.socket(socket.AF_UNIX))
        opened[-1].bind(os.path.basename(name))
    plan = made(host, ("extra", "/mnt/a", True))
    for one in opened:
        one.close()
    covers = {op.target for op in plan.mounts if op.op == "cover" and op.target.endswith(".sock")}
    assert covers == {f"{host}/work/sub/a.sock", "/mnt/a/b.sock"}
    assert [op for op in made(host).mounts if op.target.startswith("/mnt/a")] == []


def test_a_gitdir_of_the_boxs_own_takes_the_place_of_the_read_only_one(host: Path) -> None:
    (host / "work/.git").mkdir()
    assert ("readonly", "/.git") in over(made(host), f"{host}/work")
    view = (Mount(source=f"{host}/data", target=f"{host}/work/.git"),)
    plan = plans.make(spec(host), ground(host, view=view))
    assert over(plan, f"{host}/work") == [("bind", ""), ("bind", "/.git")]


def test_a_repository_that_is_mounted_twice_is_protected_under_both_names(host: Path) -> None:
    (host / "extra/deep/.git").mkdir()
    plan = made(host, ("extra", "/mnt/a", False), ("extra/deep", "/mnt/b", False))
    assert _git(plan) == [("readonly", "/mnt/a/deep/.git"), ("readonly", "/mnt/b/.git")]
    assert ("pin", "/deep") in over(plan, "/mnt/a"), "or it could be renamed away"


def test_our_own_program_is_read_only_and_no_part_of_it_is_a_workspace(host: Path) -> None:
    (host / "work/src/paddock").mkdir(parents=True)
    (host / "work/src/paddock/__main__.py").touch()
    (host / "work/paddock").touch()
    done = over(made(host), f"{host}/work")
    assert [one for one in done if one[0] == "readonly"] == [("readonly", "/src"), ("readonly", "/paddock")]
    running = protections._running()[0]
    with pytest.raises(UserError) as caught:
        protections.protected([Mount(source=f"{running}/paddock", target="/mnt/a")], _no_sockets(), ())
    assert caught.value.code == "own-program"


def _no_sockets() -> hostsockets.Bound:
    return hostsockets.Bound(ours="/nonexistent/")
