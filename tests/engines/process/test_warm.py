"""The daemon's side of the launcher: warm when it is needed, replaced when it died, one request at a time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import warm
from paddock.engines.process.warm import Launcher
from paddock.errors import Unavailable
from tests.support.installation import alive, children, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAP = "0 1900000000 1"


def within(log: Path, act: Callable[[Launcher], Awaitable[None]]) -> None:
    """With a launcher that is gone afterwards."""

    async def run() -> None:
        launcher = Launcher(str(log))
        try:
            await act(launcher)
        finally:
            pid = launcher.pid
            await launcher.close()
        if pid is not None:
            until(lambda: not alive(pid), "the launcher ended with its socket")

    asyncio.run(run())
    assert children(os.getpid()) == []


async def _clone(launcher: Launcher) -> tuple[int, socket.socket]:
    """A box that waits for its plan, and the socket it waits on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs, open("/dev/null", "rb") as listener:
            return await launcher.clone(MAP, MAP, theirs.fileno(), listener.fileno()), ours
    except BaseException:
        ours.close()
        raise


def test_a_launcher_starts_when_it_is_first_needed(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        assert (launcher.pid, repr(launcher)) == (None, "<Launcher cold>")
        await launcher.warm_up()
        first = launcher.pid
        assert first is not None
        assert repr(launcher) == "<Launcher warm>"
        await launcher.warm_up()
        assert launcher.pid == first

    within(tmp_path / "log", act)


def test_a_clone_waits_for_its_plan_and_ends_without_one(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        pid, plan = await _clone(launcher)
        assert alive(pid)
        assert children(launcher.pid or 0) == [pid]
        plan.close()
        until(lambda: not alive(pid), "it ended, and nobody had to reap it")

    within(tmp_path / "log", act)


def test_clones_at_the_same_moment_are_each_their_own(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        made = await asyncio.gather(*(_clone(launcher) for _ in range(8)))
        assert len({pid for pid, _ in made}) == 8
        for _, plan in made:
            plan.close()
        until(lambda: not children(launcher.pid or 0), "all ended")

    within(tmp_path / "log", act)


def test_boxes_outlive_their_launcher(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        pid, plan = await _clone(launcher)
        await launcher.close()
        await launcher.warm_up()
        assert alive(pid)
        plan.close()
        until(lambda: not alive(pid), "it ended with its plan")

    within(tmp_path / "log", act)


def test_a_launcher_that_died_is_replaced_and_nobody_notices(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        await launcher.warm_up()
        first = launcher.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: not alive(first), "it is dead")
        pid, plan = await _clone(launcher)
        assert launcher.pid != first
        plan.close()
        until(lambda: not alive(pid), "it ended")

    within(tmp_path / "log", act)


def test_a_launcher_that_dies_while_it_is_asked_is_an_error_and_then_replaced(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        await launcher.warm_up()
        assert launcher.pid is not None
        os.kill(launcher.pid, signal.SIGSTOP)
        asked = asyncio.create_task(_clone(launcher))
        await asyncio.sleep(0.05)
        os.kill(launcher.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="the launcher failed"):
            await asked
        await launcher.warm_up()

    within(tmp_path / "log", act)


def test_a_launcher_that_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "REPLY_TIMEOUT_S", 0.1)

    async def act(launcher: Launcher) -> None:
        await launcher.warm_up()
        stuck = launcher.pid
        assert stuck is not None
        os.kill(stuck, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="the launcher failed"):
            await _clone(launcher)
        until(lambda: not alive(stuck), "it was not left behind")

    within(tmp_path / "log", act)


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [("sys.executable", "/bin/false", "cannot start"), ("paddock.engines.process.warm._BOOT", "1/0", "has more")],
)
def test_a_launcher_that_cannot_start_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, value: str, said: str
) -> None:
    monkeypatch.setattr(attribute, value)

    async def act(launcher: Launcher) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            with pytest.raises(Unavailable, match=said):
                await launcher.warm_up()
        assert (launcher.pid, repr(launcher)) == (None, "<Launcher cold>")
        assert len(os.listdir("/proc/self/fd")) == before
        monkeypatch.undo()
        await launcher.warm_up()

    within(tmp_path / "log", act)


@pytest.mark.privileged
def test_an_id_map_is_a_user_namespace_of_nobody(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        fd = await launcher.id_map("0 1900000000 1", "0 1900000000 1")
        assert os.readlink(f"/proc/self/fd/{fd}").startswith("user:")
        assert not os.get_inheritable(fd)
        os.close(fd)
        until(lambda: not children(launcher.pid or 0), "the process it was made with is gone")

    within(tmp_path / "log", act)


@pytest.mark.privileged
def test_a_map_that_the_kernel_refuses_is_an_error_and_leaves_no_process(tmp_path: Path) -> None:
    async def act(launcher: Launcher) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs, pytest.raises(Unavailable, match="the kernel refused a new box"):
            await launcher.clone("garbage", "garbage", theirs.fileno(), 0)
        until(lambda: not children(launcher.pid or 0), "nothing is left")
        await launcher.warm_up()

    within(tmp_path / "log", act)


def test_the_launcher_is_small_single_threaded_and_knows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")

    async def act(launcher: Launcher) -> None:
        await launcher.warm_up()
        place = Path(f"/proc/{launcher.pid}")
        assert b"s3cret" not in (place / "environ").read_bytes()
        assert (place / "cmdline").read_bytes().strip(b"\0") == b"paddock-init"
        assert len(list((place / "task").iterdir())) == 1
        assert os.readlink(place / "cwd") == "/"
        fds = {int(fd.name): os.readlink(fd) for fd in (place / "fd").iterdir()}
        assert set(fds) == {0, 1, 2, 3}
        assert (fds[0], fds[1], fds[3].startswith("socket:")) == ("/dev/null", str(tmp_path / "log"), True)

    within(tmp_path / "log", act)


def test_what_the_launcher_says_is_read_as_json(tmp_path: Path) -> None:
    async def act() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(json.dumps({"a": 1}).encode())
            assert await warm._receive(ours) == ({"a": 1}, [])
            theirs.send(b"no json")
            with pytest.raises(ValueError, match="Expecting value"):
                await warm._receive(ours)
            theirs.close()
            with pytest.raises(OSError, match="the launcher ended"):
                await warm._receive(ours)

    asyncio.run(act())


def test_the_package_root_holds_the_package() -> None:
    assert (Path(warm.package_root()) / "paddock/engines/process/warm.py").is_file()
