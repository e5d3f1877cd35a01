"""The process engine: what a box is given, how it is found again, and that a failed start leaves nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import fs, proc
from paddock.engines.base import Placement
from paddock.engines.process import cgroups, engine
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.errors import Unavailable, UserError
from paddock.model import BoxId, BoxSpec, Evidence, Limits, Mount, WorkspaceMode
from tests.support.installation import alive, children, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Act = Callable[[ProcessEngine, Launcher], Awaitable[None]]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("state", "boxes/one", "work/real"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def placed(host: Path, *mounts: Mount, **rest: Any) -> Placement:
    spec = BoxSpec(name="one", agent="shell", workspace=f"{host}/work", mounts=mounts, **rest)
    return Placement(id=BoxId("one"), spec=spec, directory=f"{host}/boxes/one", index=7)


def made(host: Path) -> tuple[ProcessEngine, Launcher]:
    launcher = Launcher(f"{host}/log")
    return ProcessEngine(f"{host}/state", launcher, Bounds(cgroups.Cgroups(tag="test"))), launcher


def within(host: Path, act: Act) -> None:
    """With an engine; afterwards its launcher and its boxes must be gone."""

    async def run() -> None:
        one, launcher = made(host)
        try:
            await act(one, launcher)
            until(lambda: not (launcher.pid and children(launcher.pid)), "no box is left")
        finally:
            await launcher.close()

    asyncio.run(run())


# -- what it says without starting anything ----------------------------------------------------------------------------


def test_the_environment_is_the_boxs_own(host: Path) -> None:
    one, _ = made(host)
    found = one.environment(placed(host, caller_path="/usr/bin:/nonexistent:relative", caller_home="/nonexistent"))
    assert (found["HOME"], found["USER"], found["PADDOCK_BOX"]) == ("/home/agent", "agent", "one")
    path = found["PATH"].split(":")
    assert path[0] == "/run/paddock/bin"
    assert len(path) == len(set(path))
    assert "/nonexistent" not in path
    assert {"PATH", "HOME", "TMPDIR", "SHELL", "LANG", "TERM"} <= set(found)


def test_commands_are_told_of_the_boxs_authorities_when_it_has_some(host: Path) -> None:
    one, _ = made(host)
    names = (
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
        *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "PIP_CERT"),
    )
    assert not set(names) & set(one.environment(placed(host)))
    (host / "boxes/one/net").mkdir()
    (host / "boxes/one/net/bundle.pem").touch()
    found = one.environment(placed(host))
    assert {found[name] for name in names} == {"/run/paddock/ca-bundle.pem"}


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


@given(st.integers(0, 1_000_000), st.integers(0, 9_999))
def test_an_owner_stands_for_the_boxs_user_and_every_other_id_for_itself(owner: int, index: int) -> None:
    subordinate = engine.FIRST_SUBORDINATE_ID + index
    rows = [tuple(map(int, line.split())) for line in engine._swap(owner, subordinate).splitlines()]
    assert (owner, subordinate, 1) in rows
    assert len(rows) <= 340, "the kernel takes no more"
    for column in (0, 1):
        spans = sorted((row[column], row[column] + row[2]) for row in rows)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "no two overlap"
    for first, second, count in rows:
        assert first == second or count == 1


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(pid=os.getpid(), start_ticks=1, boot_id="current"),
        Evidence(pid=4_000_000, start_ticks=1, boot_id="current"),
        Evidence(pid=1, start_ticks=0, boot_id="another boot"),
        None,
    ],
)
def test_nobody_elses_process_is_taken_for_a_box(host: Path, evidence: Evidence | None) -> None:
    one, _ = made(host)
    if evidence is not None and evidence.boot_id == "current":
        evidence = dataclasses.replace(evidence, boot_id=proc.boot_id())
    before = len(os.listdir("/proc/self/fd"))
    assert one.adopt(placed(host), evidence) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_socket_of_somebody_elses_is_not_taken_for_a_boxs(host: Path) -> None:
    """A process of this very test answers, which is the first of no pid namespace but the machine's."""
    import threading

    from paddock import fs

    (host / "boxes/one/run").mkdir()
    listener = fs.bind_unix(f"{host}/boxes/one/run", "init.sock")
    listener.listen()

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(100)
            sock.send(b"x")

    thread = threading.Thread(target=answer)
    thread.start()
    one, _ = made(host)
    handle = one.adopt(placed(host), None)
    thread.join()
    listener.close()
    assert handle is None


def test_cleaning_takes_the_socket_and_is_no_error_twice(host: Path) -> None:
    one, _ = made(host)
    (host / "boxes/one/run").mkdir()
    (host / "boxes/one/run/init.sock").touch()
    for _ in range(2):
        assert one.clean(placed(host)) == ""
    assert list((host / "boxes/one/run").iterdir()) == []


# -- boxes -------------------------------------------------------------------------------------------------------------

box = pytest.mark.box


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
    (host / "extra").mkdir()

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
            if isinstance(done, engine.ProcessHandle):
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
        return pid

    clone = Launcher.clone
    monkeypatch.setattr(Launcher, "clone", killed)

    async def act(one: ProcessEngine, launcher: Launcher) -> None:
        for _ in range(5):
            with pytest.raises(Unavailable):
                await one.start(placed(host))

    within(host, act)


# -- reviews -----------------------------------------------------------------------------------------------------------


@box
def test_the_layers_of_a_review_lie_in_its_storage_and_stay(host: Path) -> None:
    (host / "work").chmod(0o750)
    placement = placed(host, mode=WorkspaceMode.REVIEW)
    layers = host / "boxes/one/review"

    async def act(one: ProcessEngine, _launcher: Launcher) -> None:
        for _ in range(2):
            handle = await one.start(placement)
            assert len(handle.overlays) == 1
            assert handle.refresh()
            handle.kill()
            until(handle.ended, "the box ended")
            handle.close()

    within(host, act)
    assert stat.S_IMODE((layers / "upper").stat().st_mode) == 0o750
    assert {path.name for path in layers.iterdir()} == {"upper", "work"}


@box
def test_a_review_box_that_is_found_again_can_be_told_to_look(host: Path) -> None:
    placement = placed(host, mode=WorkspaceMode.REVIEW)

    async def act(one: ProcessEngine, _: Launcher) -> None:
        handle = await one.start(placement)
        found = await asyncio.to_thread(one.adopt, placement, handle.evidence)
        assert found is not None
        assert len(found.overlays) == 1
        assert found.refresh()
        os.close(found.overlays.pop())
        assert not found.refresh(), "without a handle it has to be started anew"
        found.overlays.append(os.open("/dev/null", os.O_RDONLY))
        assert not found.refresh(), "what a box gave may be anything"
        handle.kill()
        for each in (handle, found):
            each.close()

    within(host, act)


@box
def test_a_live_box_has_nothing_to_look_at_again(host: Path) -> None:
    async def act(one: ProcessEngine, _: Launcher) -> None:
        handle = await one.start(placed(host))
        assert (handle.overlays, handle.refresh()) == ([], True)
        handle.kill()
        handle.close()

    within(host, act)


@box
@pytest.mark.privileged
def test_more_trees_than_one_message_carries_are_refused_by_number(host: Path) -> None:
    view = tuple(Mount(source=f"{host}/work/real", target=f"/mnt/{number}") for number in range(260))

    async def act(one: ProcessEngine, _: Launcher) -> None:
        with pytest.raises(UserError, match="253 mounts"):
            await one.start(dataclasses.replace(placed(host), view=view))

    within(host, act)
