"""What is open and has no name, in a process that runs as another id of its caller's: as with subordinate ids."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import accounting, kernel, openfiles
from paddock.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.box, pytest.mark.privileged]
CALLER, OTHER = 61234, 61300
HELD = 24 * MIB


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


@contextlib.contextmanager
def other_id(
    directory: str, before: Callable[[], object] = lambda: None, besides: Callable[[], object] = lambda: None
) -> Iterator[int]:
    """A process in a user namespace that CALLER made, as OTHER there, with memory and a file that have no name.

    `before` it is OTHER it may do what root of a box may.
    """
    said, say = os.pipe()
    go, let_go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(CALLER)
            kernel.set_dumpable(dumpable=True)
            kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
            os.write(say, b"m")
            os.read(go, 1)
            before()
            kernel.become(1, 1)
            os.write(os.memfd_create("hog"), bytes(HELD))
            os.write(os.open(f"{directory}/gone", os.O_CREAT | os.O_RDWR), bytes(HELD))
            os.unlink(f"{directory}/gone")
            besides()
            kernel.set_dumpable(dumpable=True)
            os.write(say, b"r")
            signal.pause()
        finally:
            os._exit(0)
    try:
        assert os.read(said, 1) == b"m"
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                file.write(f"0 {CALLER} 1\n1 {OTHER} 1\n")
        os.write(let_go, b"g")
        assert os.read(said, 1) == b"r"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for fd in (said, say, go, let_go):
            os.close(fd)


def asked_by(uid: int, ask: Callable[[], tuple[float, ...]]) -> list[int]:
    reader, writer = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        try:
            become(uid)
            os.write(writer, " ".join(str(int(figure)) for figure in ask()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        words = file.read().split()
    os.waitpid(watcher, 0)
    return [int(word) for word in words]


def seen_by(uid: int, pid: int, place: str) -> list[int]:
    """Whether its descriptors are listed to this id; what accounting finds of memory and of disk; microseconds."""
    return asked_by(
        uid,
        lambda: (
            os.access(f"/proc/{pid}/fd", os.R_OK),
            accounting.memory_of([pid], {pid: 10**12})[pid],
            accounting.unlinked_of({pid: (place,)})[pid],
            time.process_time() * 10**6,
        ),
    )


@pytest.fixture
def place() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o777)
        yield directory


def test_memory_and_files_of_another_id_count_for_who_made_its_namespace(place: str) -> None:
    with other_id(place) as pid:
        is_listed, memory, disk, _ = seen_by(CALLER, pid, f"{place}/")
        assert not is_listed, "else nothing is proven"
        assert disk == HELD
        stranger = seen_by(OTHER + 1, pid, f"{place}/")
        assert memory >= stranger[1] + HELD, "a stranger sees what is mapped"
        assert stranger[2] == 0


def test_a_box_that_puts_line_ends_into_the_places_of_its_mounts_hides_nothing(place: str) -> None:
    odd = f"{place}/a\r7 - ext4"

    def mount() -> None:
        os.mkdir(odd)
        os.mkdir(f"{odd}/m")
        kernel.mount("none", f"{odd}/m", "tmpfs", 0, "size=64k")

    with other_id(place, mount) as pid:
        assert b"\r7" in Path(f"/proc/{pid}/mountinfo").read_bytes()
        _, memory, disk, _ = seen_by(CALLER, pid, f"{place}/")
    assert disk == HELD
    assert memory >= HELD


def test_what_costs_long_to_look_at_is_left_at_some_moment(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def watch_much() -> None:
        poll = select.epoll()
        for number in range(20):
            event = os.eventfd(0)
            for copy in range(50):
                poll.register(os.dup2(event, 1000 + 50 * number + copy), select.EPOLLIN)
        for number in range(600):
            os.dup2(poll.fileno(), 3000 + number)

    with other_id(place, besides=watch_much) as pid:
        monkeypatch.setattr(openfiles, "_TAKING_S", 3600.0)
        _, memory, _, whole_s = seen_by(CALLER, pid, f"{place}/")
        monkeypatch.setattr(openfiles, "_TAKING_S", 0.02)
        _, part, _, short_s = seen_by(CALLER, pid, f"{place}/")
    assert memory >= HELD
    assert part >= HELD, "what came first was seen"
    assert short_s < whole_s / 2


def test_a_process_that_has_very_many_open_hides_no_other(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As gVisor's process for files, which has those of a box open, and its kernel, which has the memory."""
    monkeypatch.setattr(openfiles, "_FDS_PER_BOX", 100)

    def look() -> tuple[float, ...]:
        many = [os.dup(0) for _ in range(200)]
        views = [f"/proc/{os.getpid()}", f"/proc/{pid}"]
        return len(many), openfiles.held(views, lambda name: name.startswith("/memfd:hog"))

    with other_id(place) as pid:
        assert asked_by(CALLER, look) == [200, HELD]
