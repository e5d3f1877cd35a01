"""Owners: a root caller's box is nobody in particular, yet works on root's project and on nothing else in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError
from paddock.model import Mount
from tests.support import contract
from tests.support.attack import inside, outside

if TYPE_CHECKING:
    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR
STRANGER = 61999
FIRST_SUBORDINATE = 1_900_000_000


@pytest.mark.privileged
def test_files_of_others_in_the_project_stay_closed(box: Box, installation: Installation) -> None:
    workspace = installation.workspace
    foreign, shared, closed = workspace / "foreign", workspace / "shared", workspace / "closed"
    for path in (foreign, shared):
        path.write_text("theirs")
    closed.mkdir()
    os.chown(foreign, STRANGER, STRANGER)
    foreign.chmod(0o600)
    os.chown(shared, 0, STRANGER)
    shared.chmod(0o640)
    os.chown(closed, STRANGER, STRANGER)
    closed.chmod(0o755)
    program = """
os.chdir(ARGS[0])
say([
    attempt(open, "foreign"),
    attempt(open, "shared", "a"),
    attempt(os.mkdir, "closed/x"),
    attempt(os.chmod, "foreign", 0o777),
    attempt(os.chown, "shared", 0, 0),
    attempt(os.chown, "shared", ARGS[1], -1),
])
"""
    assert inside(box, program, str(workspace), STRANGER) == ["EACCES", "ok", "EACCES", "EPERM", "EINVAL", "EINVAL"]
    assert outside(program, str(workspace), STRANGER)[:4] == ["ok"] * 4  # the oracle: root itself may


@pytest.mark.privileged
def test_what_a_box_makes_belongs_to_the_projects_owner_and_never_to_the_box(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    box = paddock.create(
        "owners", workspace=str(installation.workspace), mounts=[Mount(source=str(theirs), target="/mnt/theirs")]
    )
    assert box.exec(["sh", "-c", "mkdir -p a/b /mnt/theirs/a; echo > a/b/c; echo > /mnt/theirs/a/d; ln -s x a/l"]).ok
    assert box.exec(["sh", "-c", "echo > /tmp/t; echo > ~/h"]).ok
    owners = {
        path: (os.lstat(path).st_uid, os.lstat(path).st_gid)
        for top in (installation.workspace, theirs, installation.state / "boxes")
        for path in [top, *top.rglob("*")]
    }
    assert {owner for path, owner in owners.items() if theirs in (path, *path.parents)} == {(STRANGER, STRANGER)}
    assert {owner for path, owner in owners.items() if theirs not in (path, *path.parents)} == {(0, 0)}
    assert not [path for path, owner in owners.items() if max(owner) >= FIRST_SUBORDINATE]


@pytest.mark.privileged
def test_boxes_of_a_root_caller_have_ids_of_their_own(paddock: Paddock, installation: Installation) -> None:
    uids = set()
    for name in ("one", "two", "three"):
        box = paddock.create(name, workspace=str(installation.workspace))
        assert box.exec(["true"]).ok
        status = Path(f"/proc/{box.refresh().pid}/status").read_text()
        uids.add(status.split("Uid:")[1].split()[0])
    assert len(uids) == 3
    assert all(int(uid) >= FIRST_SUBORDINATE for uid in uids)


def test_a_setgid_directory_of_the_host_hands_on_its_group_and_nothing_more(
    box: Box, installation: Installation
) -> None:
    shared = installation.workspace / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    assert box.exec(["sh", "-c", "umask 0; mkdir shared/made; echo > shared/file"]).ok
    assert not (shared / "file").stat().st_mode & 0o6000
    done = box.exec(["sh", "-c", "chmod g+s shared/made 2>/dev/null; chmod 2777 shared/file"])
    assert done.exit_code == 1 or contract.own_kernel()
    assert not (shared / "file").stat().st_mode & 0o6000


@pytest.mark.parametrize("target", ["link/x", "link", "deep/link/y"])
def test_a_mount_never_lands_behind_a_link_that_a_box_planted(
    paddock: Paddock, installation: Installation, tmp_path: Path, target: str
) -> None:
    """An earlier run put the link there; the host's own directory it names stays as it was."""
    workspace = installation.workspace
    victim, data = tmp_path / "victim", tmp_path / "data"
    for directory in (victim, data, workspace / "deep"):
        directory.mkdir()
    first = paddock.create("first", workspace=str(workspace))
    assert first.exec(["sh", "-c", f"ln -s {victim} link; ln -s {victim} deep/link"]).ok
    mount = Mount(source=str(data), target=f"{workspace}/{target}")
    second = paddock.create("second", workspace=str(workspace), mounts=[mount])
    with pytest.raises(PaddockError, match="symbolic link"):
        second.exec(["true"])
    assert list(victim.iterdir()) == []
    plain = Mount(source=str(data), target=f"{workspace}/deep/plain")  # the oracle: beside the link it does land
    assert paddock.create("third", workspace=str(workspace), mounts=[plain]).exec(["test", "-d", "deep/plain"]).ok
