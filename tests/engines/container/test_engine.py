"""Container boxes, whole: what is inside them, what they can do to the host, and what is left of them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.errors import Unavailable
from paddock.model import ImageRun, WorkspaceMode
from tests.engines.container.boxes import placed, run, within
from tests.support import roots
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.base import Placement
    from paddock.engines.container.engine import ContainerEngine

pytestmark = [pytest.mark.box, pytest.mark.container]
# cap_setuid, as setcap writes it
_GIVE = (
    "import os, struct; "
    'os.setxattr("p", "security.capability", struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0)); print("given")'
)
IS_ROOT = os.getuid() == 0


@pytest.mark.parametrize("runtime", roots.installed())
def test_a_box_has_its_root_its_workspace_and_no_more_of_the_host(tmp_path: Path, root: Path, runtime: str) -> None:
    placement = placed(tmp_path, root, runtime=runtime)
    (tmp_path / "work/file").write_text("of the host\n")

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        await asyncio.to_thread(_look_around, engine, placement)
        until(handle.is_idle, "nothing runs but init")
        handle.kill()
        until(handle.ended, "the box is gone")
        handle.close()
        engine.clean(placement)

    within(tmp_path, act)
    assert (tmp_path / "work/made").read_text() == "inside\n"
    assert (tmp_path / "work/made").stat().st_uid == os.getuid()
    assert (tmp_path / "boxes/one/root/upper/etc/new").exists()
    assert not (root / "etc/new").exists()


def _look_around(engine: ContainerEngine, placement: Placement) -> None:
    assert run(engine, placement, "id", "-u") == (0, "0\n")
    assert run(engine, placement, "cat", "/etc/of-the-root", "file") == (0, "below\nof the host\n")
    assert run(engine, placement, "sh", "-c", "echo inside > made; echo > /etc/new; rm /etc/of-the-root")[0] == 0
    assert run(engine, placement, "ls", "/etc/of-the-root")[0] != 0
    assert os.path.isdir("/usr/share/doc")  # which the host has
    assert run(engine, placement, "ls", "/usr/share/doc")[0] != 0
    assert run(engine, placement, "sh", "-c", "sleep 0 & wait; echo $(ls /proc | grep -c '^[0-9]*$')")[1].strip() < "9"
    links = run(engine, placement, "python3", "-c", "import socket; print([n for _, n in socket.if_nameindex()])")
    assert links == (0, "['lo']\n")


def test_root_in_a_box_is_nobody_on_the_host(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root)

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        found = await asyncio.to_thread(run, engine, placement, "cat", "/proc/self/uid_map")
        assert found[1].split()[:2] == ["0", "0"]  # to the outer namespace, in which it is
        with open(f"/proc/{handle.evidence.pid}/uid_map", encoding="ascii") as file:
            outside = int(file.read().split()[1])
        assert outside == (2_000_000_000 + 7 * 65536 if IS_ROOT else os.getuid())
        handle.kill()
        until(handle.ended, "the box is gone")
        handle.close()

    within(tmp_path, act)


@pytest.mark.parametrize("runtime", roots.installed())
def test_the_images_user_has_the_workspace_inside_and_the_caller_outside(
    tmp_path: Path, root: Path, runtime: str
) -> None:
    placement = placed(tmp_path, root, runtime=runtime, image=ImageRun(user="agent", uid=1000, gid=1000))
    (tmp_path / "work/file").write_text("of the host\n")

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        await asyncio.to_thread(_be_somebody, engine, placement)
        handle.kill()
        until(handle.ended, "the box is gone")
        handle.close()
        engine.clean(placement)

    within(tmp_path, act)
    for name in ("made", "home"):
        status = (tmp_path / "work" / name).stat()
        assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())


def _be_somebody(engine: ContainerEngine, placement: Placement) -> None:
    alone = ids.of_caller(7).count == 1
    me = 0 if alone and placement.spec.runtime in {"runc", "runsc"} else 1000
    look = "id -u; id -g; stat -c %u:%g file . /home/agent; touch made /home/agent/x; cp file home; echo $USER"
    said = f"{me}\n{me}\n" + f"{me}:{me}\n" * 3 + "agent\n"
    assert run(engine, placement, "sh", "-c", look) == (0, said)
    assert run(engine, placement, "sh", "-c", "echo again > /dev/stderr") == (0, "again\n"), "its pipes are its own"
    assert run(engine, placement, "ls", user="nobody-here") == (
        -1,
        "the box cannot run it as another user: no user 'nobody-here' is in its /etc/passwd",
    )
    if alone:
        other = "root" if me else "5:5"
        refusal = f"this box has one user, {me}: its host gave it no other ids"
        assert run(engine, placement, "id", user=other) == (-1, refusal)
        return
    as_root = run(engine, placement, "sh", "-c", "id -u; echo $HOME; echo > /etc/by-root", user="root")
    assert as_root == (0, "0\n/root\n")
    assert run(engine, placement, "id", "-G", user="5:6") == (0, "6\n")
    by_root = run(engine, placement, "sh", "-c", "touch by-root 2>&1; stat -c %u by-root 2>&1", user="root")
    one_user = IS_ROOT and placement.spec.runtime != "runsc"  # a root caller's workspace; gVisor's files are its root's
    assert (by_root[1] == "0\n") is not one_user, by_root
    capabilities = run(engine, placement, "grep", "CapEff", "/proc/self/status")
    assert int(capabilities[1].split()[1], 16) == 0
    assert int(run(engine, placement, "grep", "CapEff", "/proc/self/status", user="root")[1].split()[1], 16)


def test_a_live_workspace_gets_no_program_that_runs_as_its_owner(tmp_path: Path, root: Path) -> None:
    """The oracle: in a box whose workspace is not the host's, where nobody obeys it, the same act succeeds."""
    answers = {}
    for mode in (WorkspaceMode.LIVE, WorkspaceMode.REVIEW):
        host = tmp_path / mode.value
        host.mkdir()
        placement = placed(host, root, mode=mode)

        async def act(engine: ContainerEngine, placement: Placement = placement) -> None:
            handle = await engine.start(placement)
            script = (
                f"echo '#!/bin/sh' > p; chmod 755 p && chmod 4755 p; stat -c %a p; python3 -c '{_GIVE}' 2>&1 | tail -n1"
            )
            answers[placement.spec.mode] = await asyncio.to_thread(run, engine, placement, "sh", "-c", script)
            handle.kill()
            until(handle.ended, "the box is gone")
            handle.close()

        within(host, act)
    assert "Operation not permitted" in answers[WorkspaceMode.LIVE][1]
    said = answers[WorkspaceMode.LIVE][1].splitlines()
    assert "755" in said
    assert said[-1].startswith("PermissionError")
    assert answers[WorkspaceMode.REVIEW] == (0, "4755\ngiven\n")


def test_a_box_without_a_root_says_what_it_needs(tmp_path: Path, root: Path) -> None:
    placement = placed(tmp_path, root / "missing")

    async def act(engine: ContainerEngine) -> None:
        with pytest.raises((Unavailable, OSError)):
            await engine.start(placement)

    within(tmp_path, act)
    assert not os.path.exists(f"{placement.directory}/run/init.sock")
    assert not os.path.exists(f"{placement.directory}/run/keeper.sock")
