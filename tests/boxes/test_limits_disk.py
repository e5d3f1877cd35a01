"""Disk: what a box writes is bounded, counted and given back, and the host keeps what it needs. RES-03, 04."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock import fs, limits
from paddock.errors import Unavailable
from paddock.limits import MIB
from paddock.model import BoxState, Limits
from tests.support import bombs, contract
from tests.support.installation import until
from tests.support.worlds import PYTHON, World, init_pid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR


def stored(installation: Installation) -> int:
    """Bytes in the storage of boxes, those that are being removed included."""
    places = (installation.state / "boxes", installation.state / "trash")
    return sum(fs.tree_bytes(str(place), 10**6, 60.0)[0] for place in places)


@pytest.mark.parametrize("kind", sorted(bombs.ONE_FILE))
def test_one_file_ends_at_the_limit_by_the_kernel(paddock: Paddock, installation: Installation, kind: str) -> None:
    argv = [PYTHON, "-c", bombs.whole(bombs.ONE_FILE[kind])]
    env = {"HOLD": "0", "SIZE": str(90 * MIB)}
    workspace = str(installation.workspace)
    free = paddock.create("free", workspace=workspace, limits=Limits(disk_bytes=100 * MIB)).exec(argv, env=env)
    assert free.stdout == b"done\n"
    box = paddock.create("held", workspace=workspace, limits=Limits(disk_bytes=50 * MIB))
    held = box.exec(argv, env={**env, "SIZE": str(1 << 40)})
    size = {"written": 50 * MIB, "sparse": 0}[kind]
    assert (held.stdout, held.exit_code) == (b"%d\nrefused\n" % size, 3)
    if kind == "sparse":  # with what else is in it, the other is over its limit whenever somebody counts
        assert box.refresh().state is BoxState.RUNNING


def test_a_program_that_knows_no_limit_is_told_by_a_signal(paddock: Paddock, installation: Installation) -> None:
    box = paddock.create("held", workspace=str(installation.workspace), limits=Limits(disk_bytes=4 * MIB))
    block = ["dd", "if=/dev/zero", "of=/tmp/x", "bs=1M", "count=1"]
    assert box.exec([*block, "seek=4"]).exit_code == 153  # SIGXFSZ
    assert box.exec([*block, "seek=3"]).ok


def _require_disk(place: str) -> None:
    if place == "/tmp" and contract.own_kernel():
        pytest.skip("gVisor has it in its memory, and it counts as such")


@pytest.mark.parametrize("place", ["/tmp", "/home/agent"])
@pytest.mark.parametrize("kind", sorted(bombs.DISK))
def test_a_box_that_writes_too_much_is_ended_and_its_space_comes_back(
    paddock: Paddock, installation: Installation, kind: str, place: str
) -> None:
    argv = [PYTHON, "-c", bombs.whole(bombs.DISK[kind])]
    _require_disk(place)
    box = paddock.create("held", workspace=str(installation.workspace), limits=Limits(disk_bytes=64 * MIB))
    calm = paddock.create("calm", workspace=str(installation.workspace))
    calm.exec(["true"])
    pid = init_pid(paddock, "calm")
    with pytest.raises(Unavailable, match=bombs.over("disk", 64 * MIB)) as caught:
        box.exec(argv, env={"PLACE": place})
    assert caught.value.exit_code == 137
    info = box.refresh()
    assert info.state is BoxState.FAILED
    assert info.reason in str(caught.value)
    assert info.reason.encode() in installation.cli("ls").stdout
    assert box.exec(["echo", "alive"]).stdout == b"alive\n"  # so that its user can clear up
    assert init_pid(paddock, "calm") == pid
    box.remove(force=True)
    calm.remove(force=True)
    until(lambda: stored(installation) < MIB, "the space is given back", 60)


@pytest.mark.parametrize("kind", sorted(bombs.DISK))
def test_a_box_within_its_limit_is_left_alone(paddock: Paddock, installation: Installation, kind: str) -> None:
    """The oracle of the test above: the same programs end well with more room."""
    box = paddock.create("free", workspace=str(installation.workspace), limits=Limits(disk_bytes=600 * MIB))
    env = {"PLACE": "/tmp", "HOLD": "1", "FILES": "20000"}
    result = box.exec([PYTHON, "-c", bombs.whole(bombs.DISK[kind])], env=env)
    assert (result.stdout, result.exit_code) == (b"done\n", 0)


@pytest.mark.parametrize(("disk_bytes", "journal_bytes"), [(None, limits.JOURNAL_BYTES), (40 * MIB, 10 * MIB)])
def test_a_flood_of_output_keeps_its_newest_part_within_bounds(
    paddock: Paddock, installation: Installation, disk_bytes: int | None, journal_bytes: int
) -> None:
    box = paddock.create("loud", workspace=str(installation.workspace), limits=Limits(disk_bytes=disk_bytes))
    script = f"echo the beginning; yes | head -c {2 * journal_bytes}; echo the end"
    job = box.detach(["sh", "-c", script])
    journal = installation.state / "boxes" / box.refresh().id / "journal"
    until(lambda: not box.jobs()[0].running, "the flood is over", 60)
    assert box.jobs()[0].exit_code == 0
    files = [file.stat().st_size for file in journal.iterdir()]
    assert journal_bytes // 2 < sum(files) <= journal_bytes
    logs = installation.cli("logs", f"loud/{job}")
    assert logs.stderr == b"[older output was dropped]\n"
    assert logs.stdout.startswith(b"y\n")
    assert logs.stdout.endswith(b"y\nthe end\n")
    assert journal_bytes // 2 - MIB < len(logs.stdout) <= journal_bytes


def test_files_left_by_the_last_run_do_not_hold_up_the_daemon(paddock: Paddock, installation: Installation) -> None:
    """A box starts with an empty /tmp; emptying it is nobody else's time."""
    box = paddock.create("messy", workspace=str(installation.workspace))
    argv = [PYTHON, "-c", bombs.whole(bombs.DISK["empty files"])]
    assert box.exec(argv, env={"PLACE": "/tmp", "HOLD": "0", "FILES": "40000"}).ok
    box.stop(grace_s=0)
    starting = installation.spawn("exec", "messy", "test", "!", "-e", "/tmp/empty")
    with installation.sdk() as other:
        until(lambda: other.call("status")["starting"] == 1, "it starts")  # type: ignore[index]
        answers = 0
        while starting.poll() is None:
            other.call("status")
            answers += 1
    _, errors = starting.communicate()
    assert (starting.returncode, errors) == (0, b"")
    assert answers > 20


# -- the host's own disk -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room above the floor."""
    if not shutil.which("mkfs.ext4"):
        pytest.skip("needs mkfs.ext4")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("xb") as file:
        file.truncate(limits.DISK_FLOOR_BYTES + 500 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True, check=False).returncode:
        pytest.skip("needs a loop device")
    yield place
    subprocess.run(["umount", str(place)], check=True, timeout=60)


FILL = """
import os, time
number = 0
while True:
    with open(os.path.join(os.environ["PLACE"], str(number)), "wb") as file:
        file.write(b"x" * (10 << 20))
    number += 1
    time.sleep(0.02)
"""


@pytest.mark.privileged
@pytest.mark.parametrize("where", ["workspace", "/tmp"])
def test_the_host_keeps_its_last_space_and_the_box_that_took_it_is_ended(small_disk: Path, where: str) -> None:
    """A workspace has no limit: it is the user's own. The host's floor holds there too."""
    _require_disk(where)
    world = World(small_disk)
    try:
        with world.sdk() as sdk:
            workspace = str(world.workspace)
            calm = sdk.create("calm", workspace=workspace)
            calm.exec(["sh", "-c", "head -c 1000000 /dev/zero > ~/kept"])
            box = sdk.create("filling", workspace=workspace)
            place = workspace if where == "workspace" else where
            with pytest.raises(Unavailable, match=r"the host's disk is nearly full: this box (wrote|grew) the most"):
                box.exec([PYTHON, "-c", FILL], env={"PLACE": place})
            free = os.statvfs(small_disk)
            assert free.f_bavail * free.f_frsize > limits.DISK_FLOOR_BYTES // 2
            assert calm.refresh().state is BoxState.RUNNING
            assert calm.exec(["wc", "-c", "/home/agent/kept"]).stdout.split()[0] == b"1000000"
            assert "is nearly full" in box.refresh().reason
    finally:
        world.close()
