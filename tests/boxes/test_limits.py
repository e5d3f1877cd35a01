"""Processes, memory, processors and time: a bomb ends inside its box, and everybody is told why. RES-01, 02, 05.

Every test runs on both kinds of machine (tests/support/worlds.py), because other parts hold the limits there.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import accounting
from paddock.errors import PaddockError, Unavailable
from paddock.limits import MIB
from paddock.model import BoxState, Limits
from tests.support import bombs, contract
from tests.support.installation import PROGRAM, alive, until
from tests.support.worlds import PYTHON, World, init_pid

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock

pytestmark = pytest.mark.box
ENGINES = contract.FULL

# What becomes of a bomb with cgroups and without: "killed" with the reason told, or "refused" what it asked for.
MEMORY_ENDS = {
    "one process": ("killed", "refused"),
    "many processes": ("killed", "killed"),
    "a file in memory": ("killed", "killed"),
    "a shared mapping": ("killed", "killed"),
    "page tables": ("killed", "killed"),
    "System V segments": ("refused", "refused"),
    "a file in /dev/shm": ("refused", "refused"),
}
EXITS = {"killed": 137, "refused": 3}


def neighbour(world: World, sdk: Paddock) -> tuple[int, int]:
    """A box beside the bomb: its first process and the daemon's."""
    sdk.create("calm", workspace=str(world.workspace)).exec(["true"])
    return init_pid(sdk, "calm"), world.daemon_pid()


def check_unharmed(world: World, sdk: Paddock, before: tuple[int, int]) -> None:
    assert sdk.get("calm").exec([PYTHON, "-c", "x = bytearray(b'x') * (100 << 20)"]).ok
    assert (init_pid(sdk, "calm"), world.daemon_pid()) == before


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(bombs.PROCESSES))
def test_a_fork_bomb_stops_at_the_limit_and_its_neighbours_do_not_notice(world: World, kind: str) -> None:
    spread = "import os\npids = [os.fork() or os._exit(0) for _ in range(200)]\nprint(len(pids))"
    with world.sdk() as sdk:
        before = neighbour(world, sdk)
        bomb = sdk.create("bomb", workspace=str(world.workspace), limits=Limits(pids=50))
        bomb.detach([PYTHON, "-c", bombs.whole(bombs.PROCESSES[kind])])
        init = init_pid(sdk, "bomb")

        def tasks() -> int:
            return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in accounting.family(init))

        until(lambda: tasks() >= 50, "the bomb has spread")
        assert tasks() == 50
        began = time.monotonic()
        done = world.cli("exec", "calm", PYTHON, "-c", spread)
        assert (done.stdout, done.returncode) == (b"200\n", 0)
        assert time.monotonic() - began < 10

        refused = world.cli("exec", "bomb", "true")
        assert refused.returncode == 126
        assert b"error: true: the box has as many processes as it may have\n" in refused.stderr
        assert tasks() == 50

        family = accounting.family(init)
        assert world.cli("rm", "-f", "bomb").returncode == 0
        until(lambda: not any(map(alive, family)), "nothing of the bomb is left", 5)
        check_unharmed(world, sdk, before)


def test_a_fork_bomb_that_ignores_requests_is_stopped_all_the_same(world: World) -> None:
    deaf = "for number in {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}: signal.signal(number, signal.SIG_IGN)\n"
    with world.sdk() as sdk:
        bomb = sdk.create("bomb", workspace=str(world.workspace), limits=Limits(pids=50))
        bomb.detach([PYTHON, "-c", bombs.whole(deaf + bombs.PROCESSES["processes"])])
        init = init_pid(sdk, "bomb")
        until(lambda: len(accounting.family(init)) >= 50, "the bomb has spread")
        family = accounting.family(init)
        began = time.monotonic()
        bomb.stop(grace_s=0.5)
        assert time.monotonic() - began < 10
        until(lambda: not any(map(alive, family)), "nothing of the bomb is left", 5)
        assert bomb.refresh().state is BoxState.STOPPED
        assert bomb.exec(["echo", "again"]).stdout == b"again\n"


def test_a_box_of_two_processes_starts_every_time_and_has_no_third(world: World) -> None:
    """Its engine may need more than that for a moment."""
    with world.sdk() as sdk:
        for number in range(8):
            small = sdk.create(f"small{number}", workspace=str(world.workspace), limits=Limits(pids=2))
            assert small.exec(["sh", "-c", "echo one; exec true"]).stdout == b"one\n"
        forks = sdk.named("small0").exec(["sh", "-c", "echo one; (sleep 0; echo two); echo three"])
    assert forks.stdout.startswith(b"one\n")
    assert b"two" not in forks.stdout
    assert b"fork" in forks.stderr


def test_commands_refused_for_lack_of_processes_leave_no_descriptor_behind(world: World) -> None:
    with world.sdk() as sdk:
        bomb = sdk.create("full", workspace=str(world.workspace), limits=Limits(pids=5))
        bomb.detach([PYTHON, "-c", bombs.whole(bombs.PROCESSES["processes"])])
        init = init_pid(sdk, "full")
        until(lambda: len(accounting.family(init)) >= 5, "the box is full")

        def refuse() -> None:
            for timeout_s in (None, 5.0):
                with pytest.raises(PaddockError, match="as many processes as it may have"):
                    bomb.exec(["true"], timeout_s=timeout_s)

        refuse()
        before = len(bomb.files.list("/proc/self/fd"))  # init's own
        for _ in range(10):
            refuse()
        assert len(bomb.files.list("/proc/self/fd")) == before


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(bombs.MEMORY))
def test_a_memory_bomb_ends_inside_its_box_and_the_reason_is_told(world: World, kind: str) -> None:
    code = bombs.whole(bombs.MEMORY[kind])
    expected = MEMORY_ENDS[kind][not world.has_cgroups]
    if kind == "System V segments" and world.sh("cat /proc/sys/kernel/shmall", "-m", "128m").stdout != b"8192\n":
        if not world.has_cgroups:
            pytest.skip("this kernel keeps System V limits to the host's root")
        expected = "killed"
    with world.sdk() as sdk:
        before = neighbour(world, sdk)
        free = world.python(code, "-m", "2g", env={"HOLD": "0"})
        assert (free.stdout, free.returncode) == (b"done\n", 0), free.stderr
        bomb = world.python(code, "-m", "128m")
        assert b"done" not in bomb.stdout
        assert bomb.returncode == EXITS[expected], bomb.stderr
        if expected == "killed":
            assert b"memory limit: " in bomb.stderr
            assert b"error: " in bomb.stderr
            assert b"hint: allow the box more with --memory\n" in bomb.stderr
        check_unharmed(world, sdk, before)


def test_a_box_over_its_memory_ends_or_goes_on_as_inspect_said(world: World) -> None:
    """With cgroups the kernel ends processes and the box goes on; without, the box is ended."""
    with world.sdk() as sdk:
        before = neighbour(world, sdk)
        box = sdk.create("hungry", workspace=str(world.workspace), limits=Limits(memory_bytes=128 * MIB))
        expected = "kernel" if world.has_cgroups else "per-process"
        assert world.enforcement("hungry")["memory"] == expected
        argv = [PYTHON, "-c", bombs.whole(bombs.MEMORY["many processes"])]
        if world.has_cgroups:
            assert box.exec(argv).exit_code == 137
            info = box.refresh()
            assert (info.state, info.reason) == (BoxState.RUNNING, "")
            assert "of its processes ended when the box went over 128MiB" in info.limits[0].note
        else:
            with pytest.raises(Unavailable, match=bombs.over("memory", 128 * MIB)) as caught:
                box.exec(argv)
            assert caught.value.exit_code == 137
            info = box.refresh()
            assert info.state is BoxState.FAILED
            assert info.reason in str(caught.value)
            assert info.reason.encode() in world.cli("ls").stdout
        assert world.enforcement("hungry")["memory"] == expected
        assert box.exec(["echo", "alive"]).stdout == b"alive\n"
        check_unharmed(world, sdk, before)


def test_cached_files_are_not_memory(world: World) -> None:
    """What the kernel can give back at any time ends nobody: a box may read and write more than its memory."""
    script = "dd if=/dev/zero of=/tmp/x bs=1M count=300 2>/dev/null && sync && cat /tmp/x | wc -c && rm /tmp/x"
    done = world.sh(script, "-m", "96m", "--disk", "1g")
    assert (done.stdout, done.returncode) == (b"314572800\n", 0), done.stderr


RESERVE = """
import mmap
mmap.mmap(-1, 1 << 42, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)[1 << 41] = 1
print("reserved")
"""


def test_a_program_may_reserve_more_than_it_uses(world: World) -> None:
    """As sanitizers and race detectors do; what is used is what counts."""
    if subprocess.run([PYTHON, "-c", RESERVE], capture_output=True, check=False).returncode:
        pytest.skip("this host overcommits no memory")
    assert world.python(RESERVE).stdout == b"reserved\n"


# -- processors --------------------------------------------------------------------------------------------------------

SPIN = """
import os, time
end = time.monotonic() + 2
for _ in range(2 * os.cpu_count() - 1):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    pass
try:
    while True:
        os.wait()
except ChildProcessError:
    print(sum(os.times()[:4]) / 2)
"""


def used_processors(world: World, *options: str) -> float:
    done = world.python(SPIN, *options)
    assert done.returncode == 0, done.stderr
    return max(map(float, done.stdout.split()))


def test_half_a_processor_is_half_a_processor_or_said_not_to_be(world: World) -> None:
    made = world.cli("create", "slow", "--cpus", "0.5")
    assert made.returncode == 0
    warning = b"warning: --cpus is not enforced here: "
    if not world.has_cgroups:
        assert world.enforcement("slow")["cpus"] == "none"
        for done in (made, world.sh("true", "--cpus", "0.5")):
            assert done.stderr.startswith(warning)
        assert world.sh("true").stderr == b""
        return
    assert made.stderr == b""
    assert world.enforcement("slow")["cpus"] == "kernel"
    assert used_processors(world, "--cpus", "0.5") < 0.75
    tenth = used_processors(world, "--cpus", "0.1")  # so little that an unlimited box gets more on the busiest machine
    assert tenth < 0.2
    assert any(used_processors(world) > 1.5 * tenth for _ in range(5)), "an unlimited box gets no more"


def test_the_daemon_answers_while_a_box_keeps_every_processor_busy(world: World) -> None:
    with world.sdk() as sdk:
        box = sdk.create("busy", workspace=str(world.workspace))
        for _ in range(2 * (os.cpu_count() or 1)):
            box.detach(["sh", "-c", "while :; do :; done"])
        until(lambda: len(box.processes()) == 2 * (os.cpu_count() or 1), "all of them spin")
        times = []
        for _ in range(300):
            began = time.perf_counter()
            sdk.call("status")
            times.append(time.perf_counter() - began)
        assert sorted(times)[296] < 0.25
        began = time.monotonic()
        assert world.sh("true").returncode == 0
        assert time.monotonic() - began < 10


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_box_is_ended_when_its_time_is_over(world: World) -> None:
    with world.sdk() as sdk:
        before = neighbour(world, sdk)
        box = sdk.create("timed", workspace=str(world.workspace), limits=Limits(wall_s=1.5))
        assert world.enforcement("timed") == {**world.enforcement("calm"), "wall time": "watched"}
        began = time.monotonic()
        done = world.cli("exec", "timed", "sleep", "600")
        assert 1 < time.monotonic() - began < 10
        assert done.returncode == 124
        assert done.stderr == (
            b"error: the box 'timed' ended: wall time limit: 1.5 s are over\nhint: allow the box more with --timeout\n"
        )
        info = box.refresh()
        assert (info.state, info.reason) == (BoxState.FAILED, "wall time limit: 1.5 s are over")
        assert box.exec(["echo", "again"]).stdout == b"again\n"  # a new start has its time again
        check_unharmed(world, sdk, before)


def test_output_from_before_the_end_of_its_time_arrives(world: World) -> None:
    done = world.cli("run", "--timeout", "1s", "--", "sh", "-c", "seq 100000; trap '' TERM; sleep 600")
    assert done.returncode == 124
    assert done.stdout.endswith(b"\n100000\n")
    assert done.stderr == b"warning: the command was ended: its time was over\n"


def test_limits_that_are_watched_are_watched_by_the_next_daemon_too(tmp_path: Path) -> None:
    world = World(tmp_path, hide_cgroups=True)
    try:
        with world.sdk() as sdk:
            workspace = str(world.workspace)
            for name, limits in {
                "timed": Limits(wall_s=4),
                "filling": Limits(disk_bytes=100 * MIB),
                "hungry": Limits(memory_bytes=128 * MIB),
            }.items():
                box = sdk.create(name, workspace=workspace, limits=limits)
                box.exec(["mkfifo", "/home/agent/go"])
            bomb = bombs.whole(bombs.MEMORY["many processes"])
            wait = f'read x < ~/go; exec {PYTHON} -c "$BOMB"'
            sdk.get("hungry").detach(["sh", "-c", wait], env={"BOMB": bomb})
            fill = bombs.whole(bombs.DISK["many files"])
            sdk.get("filling").detach(["sh", "-c", wait], env={"BOMB": fill, "PLACE": "/tmp"})
        world.kill_daemon()
        with world.sdk() as sdk:
            assert world.enforcement("hungry")["memory"] == "per-process", "it was started without a cgroup"
            for name in ("hungry", "filling"):
                sdk.get(name).exec(["sh", "-c", "echo > ~/go"])
            expected = {"timed": "wall time limit: 4 s", "filling": "disk limit: ", "hungry": "memory limit: "}
            for name, start in expected.items():
                until(lambda box=name: sdk.get(box).info.state is BoxState.FAILED, f"{name} is ended", 30)  # type: ignore[misc]
                assert sdk.get(name).info.reason.startswith(start)
    finally:
        world.close()


# -- what inspect says -------------------------------------------------------------------------------------------------


def test_inspect_says_who_holds_each_limit(world: World) -> None:
    options = ("--memory", "1g", "--cpus", "1", "--pids", "100", "--disk", "1g", "--timeout", "1h")
    assert world.cli("create", "all", *options).returncode == 0
    assert world.cli("create", "none").returncode == 0
    kernel = world.has_cgroups
    limited = {
        "memory": "kernel" if kernel else "per-process",
        "cpus": "kernel" if kernel else "none",
        "pids": "kernel",
        "disk": "watched",
        "wall time": "watched",
    }
    default = "kernel" if kernel else "watched"
    for _ in range(2):  # before it runs, and while it does
        assert world.enforcement("all") == limited
        assert world.enforcement("none") == {**limited, "memory": default, "cpus": "none", "wall time": "none"}
        for name in ("all", "none"):
            assert world.cli("exec", name, "true").returncode == 0


def test_a_callers_own_limit_of_processes_is_the_boxs_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        with world.sdk() as sdk:
            world.cli("daemon", "stop")
            start = ["prlimit", "--nproc=2000:2000", str(PROGRAM), "daemon", "start"]
            subprocess.run(start, env=world.environ, capture_output=True, check=True, timeout=30)
            rows = {row.name: row.value for row in sdk.create("a", workspace=str(world.workspace)).refresh().limits}
            assert rows["pids"] == "2000"
            assert world.sh("grep processes /proc/self/limits").stdout.split()[2:4] == [b"2000", b"2000"]
    finally:
        world.close()
