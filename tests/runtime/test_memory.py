"""What runs in a box is saved only where it should be, and a box that is not saved runs on."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from paddock import frames
from paddock.engines.guest.wire import receive_fds
from paddock.errors import Unavailable, UserError
from paddock.runtime import memory

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


class Held:
    def __init__(self, *, idle: bool) -> None:
        self.idle = idle

    def is_idle(self) -> bool:
        return self.idle

    def ended(self) -> bool:
        return False


def scene(*, idle: bool = False, runtime: str = "runsc", why: str = "") -> tuple[Any, Any]:
    async def save(_placement: object) -> str:
        if why:
            raise Unavailable(why, code="no-memory")
        return "/where"

    ended = asyncio.Event()
    ended.set()
    box = SimpleNamespace(
        handle=Held(idle=idle),
        row=SimpleNamespace(spec=SimpleNamespace(runtime=runtime)),
        verdict=None,
        placement=None,
        ended=ended,
        memory="",
        name="one",
        directory="",
    )

    def connect(_placement: object) -> socket.socket:
        raise ConnectionRefusedError

    async def jobs(_box: object) -> list[Any]:
        return []

    made = SimpleNamespace(save=save, connect=connect)
    return SimpleNamespace(engine=lambda _box: made, register=SimpleNamespace(jobs=jobs)), box


def run(work: Coroutine[None, None, str]) -> str:
    return asyncio.run(work)


@pytest.mark.parametrize(
    ("given", "stop", "saved"),
    [
        ({}, False, "/where"),
        ({}, True, ""),
        ({"idle": True}, False, ""),
        ({"runtime": "crun"}, False, ""),
    ],
)
def test_it_is_saved_when_something_runs_that_may_not_be_stopped(given: Any, stop: bool, saved: str) -> None:
    async def act() -> str:
        runtime, box = scene(**given)
        return await memory.save(runtime, box, stop=stop)

    assert run(act()) == saved


def test_one_that_cannot_be_is_refused_with_the_reason_and_runs_on() -> None:
    async def act() -> str:
        runtime, box = scene(why="it has one id")
        with pytest.raises(UserError, match="it has one id") as found:
            await memory.save(runtime, box, stop=False)
        assert "--stop" in found.value.hint
        assert box.verdict is None, "its end would be news"
        return ""

    run(act())


def test_a_box_begins_from_where_it_lies_and_only_that_once(tmp_path: Path) -> None:
    async def act() -> str:
        runtime, box = scene()
        begun: list[str] = []

        async def begin(one: Any) -> None:
            begun.append(one.memory)

        runtime.lifetimes = SimpleNamespace(begin=begin)
        runtime.paths = SimpleNamespace(layers=f"{tmp_path}/layers")
        (tmp_path / "saved").mkdir()
        await memory.go_on_after(runtime, box, f"{tmp_path}/saved", "frozen:" + "0" * 32)
        await memory.go_on_after(runtime, box, f"{tmp_path}/gone", "")
        assert begun == [f"{tmp_path}/saved"]
        assert box.memory == ""
        return ""

    run(act())


class Inits:
    """What an init was asked, with how many descriptors; it says that it runs `running`."""

    def __init__(self, running: list[str]) -> None:
        self.asked: dict[str, list[str]] = {}
        self._running = running
        self._tasks: list[asyncio.Task[None]] = []

    def connect(self, _placement: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._tasks.append(asyncio.get_running_loop().create_task(self._serve(theirs)))
        return ours

    async def _serve(self, sock: socket.socket) -> None:
        with sock:
            data, fds, _ = await asyncio.to_thread(receive_fds, sock, 4096, 4)
            if not data:  # who called thought better of it
                return
            ((_, payload),) = frames.Decoder().feed(data)
            request = json.loads(payload)
            if request["op"] == "list":
                rows = [{"id": job} for job in self._running]
                sock.sendall(frames.encode_message({"event": "processes", "processes": rows}))
                return
            self.asked[request["id"]] = [os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) for fd in fds]
            for fd in fds:
                os.close(fd)
            sock.sendall(frames.encode_message({"event": "error", "code": "no-process", "message": "none"}))


def test_commands_that_go_on_get_their_journals_and_strangers_none(tmp_path: Path) -> None:
    """Whatever init answers: it may have no such command, or be somebody else's."""
    (tmp_path / "journal").mkdir()
    over = frames.encode_message({"event": "exit", "code": 0, "signal": None, "timed_out": False, "id": "over"})
    for job in ("runs", "ended", "over"):
        for half in "01":
            (tmp_path / f"journal/{job}.{half}").write_bytes(over if job == "over" else b"")

    async def act() -> str:
        runtime, box = scene()
        box.directory = str(tmp_path)
        init = Inits(["runs", "../stranger"])

        async def jobs(_box: object) -> list[Any]:
            return [SimpleNamespace(id=job) for job in ("runs", "ended", "over", "lost")]

        async def begin(_box: object) -> None:
            pass

        runtime.engine = lambda _box: init
        runtime.register = SimpleNamespace(jobs=jobs)
        runtime.lifetimes = SimpleNamespace(begin=begin)
        runtime.paths = SimpleNamespace(layers=f"{tmp_path}/layers")
        await memory.go_on_after(runtime, box, str(tmp_path), "")
        assert init.asked == {"runs": ["runs.0", "runs.1"], "ended": ["ended.0", "ended.1"], "../stranger": []}
        return ""

    run(act())


def test_an_init_that_takes_no_journal_back_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[socket.socket] = []

    async def act() -> None:
        runtime, box = scene()
        ours, theirs = socket.socketpair()
        calls.append(theirs)  # open, and nobody reads it
        runtime.engine(box).connect = lambda _placement: ours
        await memory._give_back_journals(runtime, box)

    monkeypatch.setattr(memory, "_GIVE_BACK_S", 0.05)
    asyncio.run(asyncio.wait_for(act(), 5))  # one job alone may take half a minute to answer
    assert calls
    calls[0].close()
