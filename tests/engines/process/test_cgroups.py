"""Limits by cgroup, held by the real kernel; each denial beside the same act that succeeds."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Self
from unittest.mock import ANY

import pytest

from paddock.engines.process import cgroups
from paddock.engines.process.cgroup_tree import pids_in, write
from paddock.engines.process.cgroups import CONTROLLERS, Cgroups
from paddock.errors import Unavailable, UserError
from paddock.limits import MIB
from paddock.model import BoxId, Enforcement, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.engines.process.box_cgroup import BoxCgroup, Controller

pytestmark = pytest.mark.box

ORDINARY = 61234
BOX = BoxId("b1")
TAG = f"test{os.getpid()}"


@pytest.fixture
def found() -> Iterator[Cgroups]:
    """What this machine offers; no cgroup may be left behind."""
    found = cgroups.find(TAG)
    yield found
    left = found.leftovers()
    for box in left.values():
        box.kill()
        box.remove()
    assert left == {}


def needs(found: Cgroups, *controllers: Controller) -> None:
    missing = [f"{name}: {found.reasons[name]}" for name in controllers if name in found.reasons]
    if missing:
        pytest.skip("; ".join(missing))


@contextlib.contextmanager
def made(found: Cgroups, **limits: float) -> Iterator[BoxCgroup]:
    box = found.create(BOX, **limits)  # type: ignore[arg-type]  # the table mixes whole numbers and cpus
    try:
        yield box
    finally:
        box.kill()
        box.remove()


def used(box: BoxCgroup, *names: str) -> int:
    """The figure of the kernel's in the first of these files that is there."""
    files = [group.path / name for group in box.groups for name in names]
    return next(int(file.read_text()) for file in files if file.exists())


class Waiting:
    """A forked process in a session of its own that acts when told to."""

    def __init__(self, action: Callable[[], int]) -> None:
        reader, self._writer = os.pipe()
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                os.close(self._writer)
                os.setsid()
                if os.read(reader, 1):
                    code = action()
            except BaseException:  # noqa: BLE001 - a forked test must not return into pytest
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(reader)

    def go(self) -> None:
        os.write(self._writer, b"g")

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._writer)  # one that was never told leaves by itself
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.wait()


def run(box: BoxCgroup | None, action: Callable[[], int]) -> int:
    with Waiting(action) as process:
        if box is not None:
            box.attach(process.pid)
        process.go()
        return process.wait()


def hog() -> int:
    kept = bytearray(b"x") * (96 * MIB)
    return 0 if kept else 1


def fork_twenty() -> int:
    children = 0
    with contextlib.suppress(BlockingIOError):
        for _ in range(20):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            children += 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    for _ in range(children):
        os.wait()
    return children


def spin() -> int:
    """Percent of one core that this process got."""
    end = time.monotonic() + 0.7
    while time.monotonic() < end:
        pass
    return int(100 * time.process_time() / 0.7)


def test_memory_beyond_the_limit_kills_inside_and_is_counted(found: Cgroups) -> None:
    needs(found, "memory")
    with made(found, memory_bytes=48 * MIB) as box:
        assert run(box, hog) == -signal.SIGKILL
        assert box.events() == 1
    with made(found, memory_bytes=512 * MIB) as box:
        assert run(box, hog) == 0
        assert box.events() == 0
    assert run(None, hog) == 0


def test_swap_is_no_way_around_the_memory_limit(found: Cgroups) -> None:
    needs(found, "memory")
    with made(found, memory_bytes=48 * MIB) as box:
        group = box.groups[0]
        name, value = ("memory.memsw.limit_in_bytes", 48 * MIB) if group.version == 1 else ("memory.swap.max", 0)
        if not (group.path / name).exists():
            pytest.skip("this kernel accounts no swap")
        assert int((group.path / name).read_text()) == value


def test_forks_beyond_the_limit_fail_inside(found: Cgroups) -> None:
    needs(found, "pids")
    with made(found, pids=8) as box:
        assert run(box, fork_twenty) == 7
    with made(found, pids=64) as box:
        assert run(box, fork_twenty) == 20


def test_a_box_gets_no_more_than_its_cpus(found: Cgroups) -> None:
    needs(found, "cpu")
    with made(found, cpus=0.05) as box:  # so little that a busy machine gives more
        limited, free = run(box, spin), run(None, spin)
    assert limited < 10
    assert free > 1.3 * limited, "the machine is too busy to prove anything"


def test_what_is_attached_counts_in_memory_and_tasks(found: Cgroups) -> None:
    needs(found, "memory", "pids")

    def hold() -> int:
        kept = bytearray(b"x") * (32 * MIB)
        os.write(writer, b"r")
        signal.pause()
        return len(kept)

    reader, writer = os.pipe()
    with made(found, memory_bytes=256 * MIB, pids=8) as box, Waiting(hold) as process:
        box.attach(process.pid)
        assert used(box, "pids.current") == 1
        process.go()
        assert os.read(reader, 1) == b"r"
        assert 32 * MIB <= used(box, "memory.current", "memory.usage_in_bytes") < 128 * MIB
    os.close(reader)
    os.close(writer)


def test_kill_ends_a_fork_bomb(found: Cgroups) -> None:
    needs(found, "pids")

    def bomb() -> int:
        while True:
            with contextlib.suppress(BlockingIOError):
                os.fork()

    with made(found, pids=64) as box, Waiting(bomb) as process:
        box.attach(process.pid)
        process.go()
        while used(box, "pids.current") != 64:  # the limit holds the bomb still
            time.sleep(0.005)
        box.kill()
        for group in box.groups:
            assert pids_in(group.path) == []
        assert (box.groups[0].path / "pids.max").read_text() == "0\n", "nothing starts in it any more"


def test_create_makes_all_cgroups_or_none(found: Cgroups) -> None:
    needs(found, "memory", "pids")
    with pytest.raises(Unavailable, match=r"pids\.max: Invalid argument"):
        found.create(BOX, memory_bytes=64 * MIB, pids=1 << 62)
    assert found.leftovers() == {}


def test_an_empty_cgroup_of_the_same_name_is_replaced_and_a_used_one_refused(found: Cgroups) -> None:
    needs(found, "memory")
    found.create(BOX, memory_bytes=64 * MIB)
    with made(found, memory_bytes=128 * MIB) as box, Waiting(lambda: 0) as process:
        box.attach(process.pid)
        with pytest.raises(Unavailable, match="Device or resource busy"):
            found.create(BOX, memory_bytes=64 * MIB)
        assert pids_in(box.groups[0].path) == [process.pid]


def test_a_later_daemon_finds_the_boxes_of_its_own_installation(found: Cgroups) -> None:
    needs(found, *CONTROLLERS)
    assert found.adopt(BOX) is None
    with made(found, memory_bytes=64 * MIB, pids=9) as box:
        later, stranger = cgroups.find(TAG), cgroups.find(f"{TAG}x")
        adopted = later.adopt(BOX)
        assert adopted == box == later.leftovers()[BOX]
        assert stranger.adopt(BOX) is None
        assert stranger.leftovers() == {}


def test_a_daemon_that_lives_elsewhere_finds_them_too(found: Cgroups) -> None:
    needs(found, "pids")
    other = found.parents["pids"] / f"paddock-other{os.getpid()}"
    other.mkdir()
    if found.trees["pids"].version == 2:
        write(other / "cgroup.subtree_control", "+pids")
    try:
        earlier = dataclasses.replace(found, parents={"pids": other})
        with made(earlier, pids=9) as box:
            assert found.adopt(BOX) == box
    finally:
        other.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives cgroups away")
def test_a_cgroup_of_another_user_with_our_name_is_not_ours(found: Cgroups) -> None:
    needs(found, "pids")
    with made(found, pids=9) as box:
        assert list(found.leftovers()) == [BOX]
        os.chown(box.groups[0].path, ORDINARY, ORDINARY)
        assert found.leftovers() == {}


def elsewhere(paths: list[Path], user: int, action: Callable[[], object]) -> object:
    """What the action returns in a process of these cgroups and this user, through JSON."""
    reader, writer = os.pipe()

    def act() -> int:
        for path in paths:
            write(path / "cgroup.procs", str(os.getpid()))
        if os.geteuid() != user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os.write(writer, json.dumps(action()).encode())
        return 0

    try:
        assert run(None, act) == 0
        return json.loads(os.read(reader, 65536))
    finally:
        os.close(reader)
        os.close(writer)


def test_without_the_right_to_make_cgroups_each_controller_has_its_reason(found: Cgroups) -> None:
    def look() -> object:
        here = cgroups.find(TAG)
        box = here.create(BOX, memory_bytes=64 * MIB, cpus=1, pids=9)
        box.attach(os.getpid())
        box.kill()
        box.remove()
        return [list(here.parents), here.reasons, len(box.groups)]

    if os.geteuid() and found.parents:
        pytest.skip("this user may make cgroups")
    answer = elsewhere([], os.geteuid() or ORDINARY, look)
    assert answer == [[], dict.fromkeys(CONTROLLERS, ANY), 0]
    assert "''" not in str(answer), "a reason says why"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives cgroups away")
def test_a_v1_cgroup_given_to_a_user_is_enough(found: Cgroups) -> None:
    needs(found, *CONTROLLERS)
    if any(tree.version == 2 for tree in found.trees.values()):
        pytest.skip("the controllers are in v2")
    given = [parent / f"paddock-given{os.getpid()}" for parent in found.parents.values()]

    def work() -> object:
        here = cgroups.find(TAG)
        with made(here, memory_bytes=48 * MIB, pids=50, cpus=1) as box:
            return [here.reasons, run(box, hog), box.events()]

    try:
        for path in given:
            path.mkdir()
            for name in (path, path / "cgroup.procs"):
                os.chown(name, ORDINARY, ORDINARY)
        assert elsewhere(given, ORDINARY, work) == [{}, -signal.SIGKILL, 1]
    finally:
        for path in given:
            path.rmdir()


@pytest.mark.parametrize(
    ("usable", "limits", "expected"),
    [
        ((), Limits(), {"memory": "watched", "cpus": "none", "pids": "kernel", "disk": "watched", "wall": "none"}),
        ((), Limits(memory_bytes=MIB), {"memory": "per-process"}),
        ((), Limits(cpus=2, wall_s=9), {"cpus": "none", "wall": "watched"}),
        (CONTROLLERS, Limits(), {"memory": "kernel", "cpus": "none", "pids": "kernel", "disk": "watched"}),
        (CONTROLLERS, Limits(cpus=2), {"cpus": "kernel"}),
    ],
)
def test_each_limit_says_who_holds_it(usable: tuple[Controller, ...], limits: Limits, expected: dict[str, str]) -> None:
    here = Cgroups(tag=TAG, parents=dict.fromkeys(usable, Path("/nowhere")))
    described = here.describe(limits)
    assert {name: described[name].value for name in expected} == expected
    assert all(isinstance(word, Enforcement) for word in described.values())


@pytest.mark.parametrize("tag", ["", "a-b", "a/b", "../x", "a b"])
def test_a_tag_that_could_be_confused_is_refused(tag: str) -> None:
    with pytest.raises(UserError, match="is not a tag"):
        cgroups.find(tag)


@pytest.mark.parametrize("box_id", ["", "a/b", "..\n", "../../x"])
def test_an_id_that_is_no_file_name_is_refused(box_id: str) -> None:
    with pytest.raises(UserError, match="is not a box id"):
        Cgroups(tag=TAG).create(BoxId(box_id))


def test_a_machine_without_proc_has_reasons_and_no_cgroups(tmp_path: Path) -> None:
    here = cgroups.find(TAG, os.fspath(tmp_path))
    assert here.parents == {}
    assert set(here.reasons) == set(CONTROLLERS)
