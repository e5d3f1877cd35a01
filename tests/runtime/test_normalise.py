"""Requests and what becomes of them: one spec, or an error that names the value and nothing made."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import agents
from paddock.errors import UserError
from paddock.model import BoxRequest, EngineName, Limits, Mount, WorkspaceMode, check_name
from paddock.runtime.normalise import free_name, normalise, require_same_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.model import BoxSpec


@pytest.fixture
def ground() -> Iterator[Path]:
    """A home with a project, and a state directory beside it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        for directory in ("home/project", "home/.ssh", "home/My Project!", "state", "data"):
            (path / directory).mkdir(parents=True)
        (path / "data/file").touch()
        (path / "home/link").symlink_to("project")
        yield path


def made(ground: Path, taken: tuple[str, ...] = (), **rest: Any) -> BoxSpec:
    rest.setdefault("workspace", "home/project")
    rest["workspace"] = os.fspath(ground / rest["workspace"]) if rest["workspace"][:1] != "/" else rest["workspace"]
    return normalise(
        BoxRequest(**rest), private=(os.fspath(ground / "state"),), home=os.fspath(ground / "home"), taken=taken
    )


def test_a_plain_request_becomes_a_spec_with_everything_said(ground: Path) -> None:
    spec = made(ground, env={"A": "1"}, limits=Limits(pids=7), caller_path="/usr/bin")
    workspace = os.fspath(ground / "home/project")
    assert (spec.name, spec.agent, spec.workspace, spec.workdir) == ("shell-project", "shell", workspace, workspace)
    assert (spec.env, spec.limits.pids, spec.caller_path) == ({"A": "1"}, 7, "/usr/bin")
    assert spec.caller_home == os.fspath(ground / "home")


def test_the_callers_word_on_its_home_does_not_count(ground: Path) -> None:
    assert made(ground, caller_home="/").caller_home == os.fspath(ground / "home")


def test_a_link_to_a_workspace_is_the_workspace(ground: Path) -> None:
    assert made(ground, workspace="home/link").workspace == os.fspath(ground / "home/project")


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ({"workspace": "/"}, "unsafe-source"),
        ({"workspace": "home"}, "unsafe-source"),
        ({"workspace": "home/.ssh"}, "unsafe-source"),
        ({"workspace": "state"}, "unsafe-source"),
        ({"workspace": "/etc"}, "unsafe-source"),
        ({"workspace": "/proc/self"}, "unsafe-source"),
        ({"workspace": "missing"}, "bad-source"),
        ({"workspace": "data/file"}, "bad-workspace"),
        ({"agent": "clod"}, "unknown-agent"),
        ({"agent": "../shell"}, "unknown-agent"),
        ({"agent": ""}, "unknown-agent"),
        ({"name": "shell"}, "bad-name"),
        ({"name": "claude"}, "bad-name"),
        ({"name": "a/b"}, "bad-name"),
        ({"name": ".."}, "bad-name"),
        ({"name": "a\nb"}, "bad-name"),
        ({"name": "UPPER"}, "bad-name"),
        ({"name": "x" * 65}, "bad-name"),
        ({"name": "taken"}, "exists"),
        ({"workdir": "a\0b"}, "bad-workdir"),
        ({"env": {"1A": "x"}}, "bad-env"),
        ({"env": {"A": "x\0"}}, "bad-env"),
        ({"engine": EngineName.CONTAINER, "template": "./data", "runtime": "runsc", "mcp": ("a",)}, "no-sockets"),
    ],
)
def test_a_bad_request_is_refused_by_its_own_code(ground: Path, rest: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as caught:
        made(ground, ("taken",), **rest)
    assert caught.value.code == code
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("source", "target", "shown_at"),
    [
        ("data", "", "{0}/data"),
        ("data", "/mnt/x", "/mnt/x"),
        ("data", "/mnt/./x//", "/mnt/x"),
        ("data/file", "", "{0}/data/file"),
    ],
)
def test_a_mount_lands_where_it_was_asked_to_or_at_its_own_path(
    ground: Path, source: str, target: str, shown_at: str
) -> None:
    spec = made(ground, mounts=(Mount(source=os.fspath(ground / source), target=target, read_only=True),))
    (mount,) = spec.mounts
    assert mount == Mount(source=os.fspath(ground / source), target=shown_at.format(ground), read_only=True)


@pytest.mark.parametrize(
    ("mounts", "code"),
    [
        ([("state", "/mnt/x")], "unsafe-source"),
        ([("home", "/mnt/x")], "unsafe-source"),
        ([("missing", "/mnt/x")], "bad-source"),
        ([("data", "relative")], "bad-target"),
        ([("data", "/")], "bad-target"),
        ([("data", "/usr/bin")], "bad-target"),
        ([("data", "/etc/x")], "bad-target"),
        ([("data", "/home/agent")], "bad-target"),
        ([("data", "/mnt/../proc/x")], "bad-target"),
        ([("data", "/mnt/x"), ("data/file", "/mnt/x")], "bad-mount"),
        ([("data", "/mnt/x"), ("data/file", "/mnt//x/")], "bad-mount"),
        ([("data", "{0}/home/project")], "bad-mount"),
        ([("data", "")] * 2, "bad-mount"),
        ([("data", f"/mnt/{n}") for n in range(65)], "bad-mount"),
    ],
)
def test_a_bad_mount_is_refused(ground: Path, mounts: list[tuple[str, str]], code: str) -> None:
    wanted = tuple(Mount(source=os.fspath(ground / source), target=to.format(ground)) for source, to in mounts)
    with pytest.raises(UserError) as caught:
        made(ground, mounts=wanted)
    assert caught.value.code == code


def test_a_review_has_its_workspace_under_one_name_that_can_be_written_to(ground: Path) -> None:
    (ground / "data/project").mkdir()
    data, second = os.fspath(ground / "data"), Mount(source=os.fspath(ground / "data"), target="/mnt/x")
    for mount in (replace(second, read_only=True), Mount(source=data, target=data)):
        assert made(ground, workspace="data/project", mode=WorkspaceMode.REVIEW, mounts=(mount,)).mounts
    assert made(ground, workspace="data/project", mounts=(second,)).mounts, "live mode hides no change"
    with pytest.raises(UserError, match="unreviewed"):
        made(ground, workspace="data/project", mode=WorkspaceMode.REVIEW, mounts=(second,))


@pytest.mark.parametrize(
    ("workdir", "found"),
    [("", "{0}"), (".", "{0}"), ("sub", "{0}/sub"), ("../other", "{1}/other"), ("/tmp/x", "/tmp/x"), ("/a/../b", "/b")],
)
def test_a_relative_working_directory_begins_at_the_workspace(ground: Path, workdir: str, found: str) -> None:
    workspace = ground / "home/project"
    assert made(ground, workdir=workdir).workdir == found.format(workspace, workspace.parent)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directory", "ephemeral", "name"),
    [
        ("home/project", False, "shell-project"),
        ("home/project", True, "run-project"),
        ("home/My Project!", False, "shell-my-project"),
    ],
)
def test_a_box_without_a_name_is_named_after_its_agent_and_directory(
    ground: Path, directory: str, ephemeral: bool, name: str
) -> None:
    assert made(ground, workspace=directory, ephemeral=ephemeral).name == name


@given(st.binary(min_size=1, max_size=100).filter(lambda name: b"/" not in name and b"\0" not in name))
def test_any_directory_gives_a_good_name(raw: bytes) -> None:
    if raw in {b".", b".."}:
        return
    with tempfile.TemporaryDirectory() as top:
        place = os.path.join(top, os.fsdecode(raw))
        os.mkdir(place)
        spec = normalise(BoxRequest(workspace=place), private=(), home="", taken=())
    assert check_name(spec.name) == spec.name
    assert spec.name not in agents.built_in()


def test_a_taken_name_gets_a_suffix(ground: Path) -> None:
    assert made(ground, ("shell-project",)).name == "shell-project-2"
    assert made(ground, ("shell-project", "shell-project-2")).name == "shell-project-3"
    assert made(ground, ("shell-project", "shell-project-3")).name == "shell-project-2"


@given(st.sets(st.sampled_from(["a", "a-2", "a-3", "a-4", "b"])))
def test_a_free_name_is_free(taken: set[str]) -> None:
    name = free_name("a", taken)
    assert name not in taken
    assert name == "a" or "a" in taken


# -- how the workspace is had ------------------------------------------------------------------------------------------


def test_masks_and_opened_paths_are_relative_and_said_once(ground: Path) -> None:
    project = ground / "home/project"
    (project / ".env").touch()
    (project / ".vscode").mkdir()
    spec = made(ground, masks=(f"{project}/.env", "./.env", ".env"), writable=(".vscode/",))
    assert (spec.mode, spec.masks, spec.writable) == (WorkspaceMode.LIVE, (".env",), (".vscode",))


@pytest.mark.parametrize("path", ["missing", "link", "..", "../data", ".", "", "/etc/passwd", "a\0b", ".git", "fifo"])
def test_what_cannot_be_hidden_is_refused(ground: Path, path: str) -> None:
    project = ground / "home/project"
    (project / "link").symlink_to("..")
    (project / ".git").mkdir()
    os.mkfifo(project / "fifo")
    with pytest.raises(UserError) as caught:
        made(ground, masks=(path,))
    assert caught.value.code == "bad-path"


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"mode": WorkspaceMode.REVIEW}, "mode"),
        ({"mode": WorkspaceMode.CLONE, "branch": "x"}, "mode"),
        ({"masks": ("file",)}, "masks"),
        ({"writable": (".vscode",)}, "writable"),
    ],
)
def test_a_box_does_not_change_its_mode(ground: Path, asked: dict[str, Any], what: str) -> None:
    project = ground / "home/project"
    (project / "file").touch()
    (project / ".vscode").mkdir()
    plain = BoxRequest(workspace=os.fspath(project))
    live, wanted = made(ground), made(ground, **asked)
    require_same_shape(live, plain, live)
    require_same_shape(wanted, plain, live)  # nothing was asked for
    request = BoxRequest(workspace=os.fspath(project), **asked)
    require_same_shape(wanted, request, wanted)
    with pytest.raises(UserError, match=what):
        require_same_shape(live, request, wanted)
