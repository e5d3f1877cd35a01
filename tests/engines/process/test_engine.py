"""The process engine: what a box is given, how it is found again, and that a failed start leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from paddock import fs, proc
from paddock.engines.process.handle import ProcessHandle
from paddock.engines.process.warm import Launcher
from paddock.errors import Unavailable, UserError
from paddock.model import Evidence, Limits, Mount
from tests.support.engine import made, placed, within
from tests.support.installation import alive, children, until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.engine import ProcessEngine

box = pytest.mark.box


def test_a_box_is_described_before_it_runs(host: Path) -> None:
    one, _ = made(host)
    lines = one.describe(placed(host))
    assert lines[0].startswith("namespaces user mnt pid net ipc uts cgroup")
    assert f"bind {host}/work from {host}/work nosuid,nodev" in lines
    assert repr(one) == f"<ProcessEngine for uid {os.getuid()}>"


@pytest.mark.parametrize(
    ("wanted", "deadline", "disk"),
    [(Limits(), False, 20 << 30), (Limits(wall_s=60.0, disk_bytes=5), True, 5)],
)
def test_what_the_kernel_does_not_hold_is_watched(host: Path, wanted: Limits, deadline: bool, disk: int) -> None:
    one, _ = made(host)
    identity = proc.identity(os.getpid())
    assert identity is not None
    watched = one.watched(placed(host, limits=wanted), Evidence(pid=5, start_ticks=identity[1], boot_id="b"))
    assert (watched.init_pid, watched.disk_bytes, watched.deadline_s is not None) == (5, disk, deadline)
    assert watched.memory_bytes is not None
    assert watched.paths == (f"{host}/boxes/one",)


def test_a_deadline_is_counted_from_the_start_of_the_box(host: Path) -> None:
    import time

    one, _ = made(host)
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - 50) * os.sysconf("SC_CLK_TCK"))
    evidence = Evidence(pid=5, start_ticks=ticks, boot_id="b")
    watched = one.watched(placed(host, limits=Limits(wall_s=60.0)), evidence)
    assert watched.deadline_s is not None
    assert watched.deadline_s - time.monotonic() == pytest.approx(10, abs=0.5)


def test_cleaning_takes_the_socket_and_is_no_error_twice(host: Path) -> None:
    one, _ = made(host)
    (host / "boxes/one/run").mkdir()
    (host / "boxes/one/run/init.sock").touch()
    for _ in range(2):
        assert one.clean(placed(host)) == ""
    assert list((host / "boxes/one/run").iterdir()) == []


@box
def test_a_started_box_answers_and_is_killed_whole(host: Path) -> None:
    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        handle = await one.start(placed(host))
        assert repr(handle) == f"<ProcessHandle one pid {handle.evidence.pid}>"
        with one.connect(placed(host)) as channel:
            channel.settimeout(10)
            channel.sendall(b'\x00\x00\x00\x0d\x00{"op":"ping"}')
            assert b"pong" in channel.recv(4096)
        handle.kill()
        until(lambda: not alive(handle.evidence.pid), "it is gone")
        handle.kill()
        handle.close()

    within(host, act)


@box
def test_a_box_is_found_again_by_its_evidence_and_by_its_socket(host: Path) -> None:
    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        place = placed(host)
        first = await one.start(place)
        other = made(host)[0]
        for evidence in (first.evidence, None):
            again = other.adopt(place, evidence)
            assert again is not None
            assert again.evidence == first.evidence
            again.close()
        first.kill()
        until(lambda: not alive(first.evidence.pid), "it is gone")
        assert other.adopt(place, first.evidence) is None
        assert other.adopt(place, None) is None
        first.close()

    within(host, act)


@box
def test_a_start_that_fails_says_which_step_and_leaves_nothing(host: Path) -> None:
    (host / "work/link").symlink_to(host / "state")

    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        before = len(os.listdir("/proc/self/fd"))
        bad = placed(host, Mount(source=f"{host}/extra", target=f"{host}/work/link/x"))
        with pytest.raises(Unavailable) as caught:
            await one.start(bad)
        assert caught.value.code == "start-mounts"
        assert "symbolic link" in caught.value.message
        until(lambda: not children(launcher.pid or 0), "no process is left")
        good = await one.start(placed(host, Mount(source=f"{host}/extra", target=f"{host}/work/real/x")))
        good.kill()
        good.close()
        assert len(os.listdir("/proc/self/fd")) <= before + 8, "the launcher's socket and kept id maps"
        assert not (host / "state/x").exists()

    within(host, act)


@box
def test_git_that_is_a_link_is_refused_and_leaves_nothing(host: Path) -> None:
    (host / "work/.git").symlink_to("/etc")

    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        with pytest.raises(UserError, match="symbolic link"):
            await one.start(placed(host))
        assert list((host / "boxes/one/run").iterdir()) == []

    within(host, act)


@box
def test_a_cancelled_start_leaves_no_box(host: Path) -> None:
    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        await launcher.warm_up()
        for delay in (0.0, 0.001, 0.002, 0.004):
            task = asyncio.create_task(one.start(placed(host)))
            await asyncio.sleep(delay)
            task.cancel()
            done = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(done, ProcessHandle):
                done.kill()
                done.close()
        until(lambda: not (launcher.pid and children(launcher.pid)), "no process is left")
        handle = await one.start(placed(host))
        again = one.adopt(placed(host), None)
        assert again is not None
        assert again.evidence == handle.evidence, "no late answer was taken for this one's"
        handle.kill()
        handle.close()
        again.close()

    within(host, act)


@box
def test_a_cancelled_start_takes_nothing_from_the_next(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cancelled one does in a thread goes on: it must be over before another begins."""
    remove = fs.remove_tree
    begun = threading.Event()

    def slowly(path: str) -> None:
        begun.set()
        time.sleep(0.2)
        remove(path)

    async def act(one: ProcessEngine, _launcher: Launcher) -> None:
        (host / "boxes/one/tmp").mkdir()
        monkeypatch.setattr("paddock.fs.remove_tree", slowly)
        task = asyncio.create_task(one.start(placed(host)))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        monkeypatch.undo()
        handle = await one.start(placed(host))
        handle.kill()
        handle.close()

    within(host, act)


@box
def test_a_box_that_dies_while_it_starts_is_an_error(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def killed(self: Launcher, uid_map: str, gid_map: str, plan: int, listener: int) -> int:
        pid = await clone(self, uid_map, gid_map, plan, listener)
        os.kill(pid, signal.SIGKILL)
        while alive(pid):  # one that is still about to die may be told to go, and ends as any box does
            await asyncio.sleep(0.001)
        return pid

    clone = Launcher.clone
    monkeypatch.setattr(Launcher, "clone", killed)

    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        for _ in range(5):
            with pytest.raises(Unavailable):
                await one.start(placed(host))

    within(host, act)
