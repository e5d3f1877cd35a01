"""The watch: judges under a fake clock, and the task around them with real time and a real hog."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from paddock import limits
from paddock.engines.process import accounting
from paddock.limits import GIB, MIB
from paddock.model import BoxId
from paddock.watch import Casualties, Deadlines, Disk, HostSample, Judge, Memory, Verdict, Watch, WatchedBox

PLENTY = HostSample(mem_available=8 * GIB, disk_free=80 * GIB)
STEP = limits.WATCH_STEP_BYTES


@dataclass
class Figures:
    """What boxes hold, how often someone looked, and what a look costs."""

    held: dict[int, int] = field(default_factory=dict)
    looks: int = 0
    within: list[Mapping[int, int]] = field(default_factory=list)
    cost_s: float = 0.0
    now_s: float = 0.0

    def memory_of(self, pids: Iterable[int], within: Mapping[int, int]) -> dict[int, int]:
        self.looks += 1
        self.within.append(within)
        self.now_s += self.cost_s
        return {pid: self.held[pid] for pid in pids if pid in self.held}

    def disk_of(self, paths: tuple[str, ...]) -> int:
        self.looks += 1
        self.now_s += self.cost_s
        if int(paths[0]) not in self.held:
            raise FileNotFoundError(paths[0])
        return self.held[int(paths[0])]


def box(pid: int, **changes: object) -> WatchedBox:
    plain = WatchedBox(
        id=BoxId(f"b{pid}"), init_pid=pid, memory_bytes=2 * GIB, disk_bytes=2 * GIB, paths=(str(pid),), active=True
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # tables change any field


@dataclass
class Bench:
    """One resource with its judge: the same contract is asked of memory and of disk."""

    name: str
    figures: Figures
    judge: Memory | Disk
    floor: int
    scarce: str

    def step(self, now_s: float, boxes: list[WatchedBox], lost: int = 0, has: int | None = None) -> list[str]:
        """Reasons by box after the host lost something."""
        left = (8 * GIB if has is None else has) - lost
        host = replace(PLENTY, mem_available=left) if self.name == "memory" else replace(PLENTY, disk_free=left)
        return [f"{verdict.box_id} {verdict.reason}" for verdict in self.judge.step(now_s, host, boxes)]


@pytest.fixture(params=["memory", "disk"])
def bench(request: pytest.FixtureRequest) -> Bench:
    figures = Figures()
    clock = lambda: figures.now_s  # noqa: E731 - one word for a fake
    if request.param == "memory":
        judge: Memory | Disk = Memory(figures.memory_of, clock)
        return Bench("memory", figures, judge, limits.MEMORY_FLOOR_BYTES, "host memory is nearly used up")
    judge = Disk(figures.disk_of, clock)
    return Bench("disk", figures, judge, limits.DISK_FLOOR_BYTES, "the host's disk is nearly full")


@pytest.mark.parametrize(
    ("used", "allowed", "text"),
    [
        (2 * GIB + 110 * MIB, 2 * GIB, "2.1 GiB used, 2 GiB allowed"),
        (2 * GIB + 10 * MIB, 2 * GIB, "2058 MiB used, 2048 MiB allowed"),
        (64 * MIB + 1, 64 * MIB, "67108865 bytes used, 67108864 bytes allowed"),
        (600 * MIB, 512 * MIB, "600 MiB used, 512 MiB allowed"),
    ],
)
def test_a_box_over_its_limit_is_named_with_both_sizes(bench: Bench, used: int, allowed: int, text: str) -> None:
    bench.figures.held = {1: used, 2: allowed}
    boxes = [box(pid, memory_bytes=allowed, disk_bytes=allowed) for pid in (1, 2)]
    assert bench.step(0, boxes) == [f"b1 {bench.name} limit: {text}"]


def test_a_limit_the_kernel_holds_is_not_judged(bench: Bench) -> None:
    bench.figures.held = {1: 9 * GIB}
    assert bench.step(0, [box(1, memory_bytes=None, disk_bytes=None)]) == []
    assert bench.step(1, [box(1)], lost=2 * STEP) != []


def test_boxes_are_not_looked_at_while_the_host_loses_nothing(bench: Bench) -> None:
    bench.figures.held = {1: GIB}
    boxes = [box(1, active=False)]
    for tick in range(4000):
        assert bench.step(tick / 4, boxes) == []
    assert bench.figures.looks == 1


def test_a_loss_of_one_step_is_looked_into_at_once(bench: Bench) -> None:
    bench.figures.held = {1: GIB}
    boxes = [box(1, active=False)]
    bench.step(0, boxes)
    bench.figures.held = {1: 3 * GIB}
    assert bench.step(0.25, boxes, lost=STEP) == []
    assert bench.step(0.5, boxes, lost=STEP + 1) == [f"b1 {bench.name} limit: 3 GiB used, 2 GiB allowed"]


def test_a_loss_hidden_behind_what_others_freed_is_looked_into(bench: Bench) -> None:
    bench.figures.held = {1: GIB}
    boxes = [box(1, active=False)]
    bench.step(0, boxes)
    bench.step(0.25, boxes, lost=-2 * STEP)
    assert bench.figures.looks == 1
    bench.step(0.5, boxes)
    assert bench.figures.looks == 2


def test_a_working_box_is_looked_at_now_and_then_in_any_case(bench: Bench) -> None:
    bench.figures.held = {1: GIB}
    period_s = bench.judge.period_s
    for active, expected in ((False, 1), (True, 5)):
        bench.figures.looks = 0
        fresh = type(bench.judge)(getattr(bench.figures, f"{bench.name}_of"), lambda: 0.0)
        for tick in range(int(period_s) * 16 + 1):
            fresh.step(tick / 4, PLENTY, [box(1, active=active)])
        assert bench.figures.looks == expected


@pytest.mark.parametrize(("lost_per_tick", "share"), [(0, 0.011), (2 * STEP, 0.11)])
def test_accounting_that_is_slow_is_done_less_often(bench: Bench, lost_per_tick: int, share: float) -> None:
    """A tenth of a core while the host shrinks, a hundredth while it does not."""
    bench.figures.held, bench.figures.cost_s = {1: GIB}, 1.0
    ticks = 4 * 1000
    for tick in range(ticks):
        bench.step(tick / 4, [box(1)], has=10_000 * GIB, lost=lost_per_tick * tick)
    assert 0 < bench.figures.looks * bench.figures.cost_s / (ticks / 4) <= share


def test_below_the_floor_the_box_that_grew_most_goes_and_then_there_is_time_to_breathe(bench: Bench) -> None:
    boxes = [box(1), box(2), box(3)]
    bench.figures.held = {1: GIB, 2: 100 * MIB, 3: 10 * MIB}
    assert bench.step(0, boxes) == []
    bench.figures.held |= {2: 400 * MIB, 3: 40 * MIB}
    low = bench.floor - 1
    assert bench.step(0.25, boxes, has=low) == [f"b2 {bench.scarce}: this box grew the most, 300 MiB"]
    rest = [box(1), box(3)]
    assert bench.step(0.5, rest, has=low) == []
    assert bench.step(2.5, rest, has=low) == [f"b3 {bench.scarce}: this box grew the most, 30 MiB"]


def test_slow_growth_below_the_floor_adds_up(bench: Bench) -> None:
    bench.figures.held = {1: MIB}
    bench.step(0, [box(1)])
    reasons = []
    for tick in range(1, 21):
        bench.figures.held[1] += MIB
        reasons += bench.step(tick / 4, [box(1)], has=bench.floor, lost=tick * MIB)
    assert reasons == [f"b1 {bench.scarce}: this box grew the most, 16 MiB"]


def test_a_host_that_stays_below_its_floor_is_not_looked_into_all_the_time(bench: Bench) -> None:
    bench.figures.held = {1: MIB}
    for tick in range(4000):
        assert bench.step(tick / 4, [box(1, active=False)], has=bench.floor - MIB, lost=MIB * (tick % 4)) == []
    assert bench.figures.looks == 1


def test_below_the_floor_with_nobody_growing_only_what_is_given_back_counts(bench: Bench) -> None:
    """Stopping a box returns its memory, not its disk; and nobody is stopped for next to nothing."""
    boxes = [box(1), box(2)]
    bench.figures.held = {1: 300 * MIB, 2: GIB}
    bench.step(0, boxes)
    expected = [f"b2 {bench.scarce}: this box held the most, 1 GiB"] if bench.name == "memory" else []
    assert bench.step(0.25, boxes, has=bench.floor - 1) == expected
    bench.figures.held = {1: 20 * MIB, 2: 30 * MIB}
    assert bench.step(9, boxes, has=bench.floor - 1) == []


def test_a_box_over_its_limit_goes_before_one_that_only_grew(bench: Bench) -> None:
    boxes = [box(1), box(2)]
    bench.figures.held = {1: GIB, 2: 0}
    bench.step(0, boxes)
    bench.figures.held = {1: 2 * GIB + 512 * MIB, 2: 1900 * MIB}
    reasons = bench.step(0.25, boxes, has=bench.floor - 1)
    assert reasons == [f"b1 {bench.name} limit: 2.5 GiB used, 2 GiB allowed"]


def test_an_old_boxs_disk_is_not_growth_when_it_is_first_seen_below_the_floor() -> None:
    figures = Figures(held={1: GIB})
    judge = Disk(figures.disk_of)
    assert judge.step(0, replace(PLENTY, disk_free=90 * MIB), [box(1)]) == []
    figures.held[1] += 20 * MIB
    lower = replace(PLENTY, disk_free=70 * MIB)
    assert [verdict.box_id for verdict in judge.step(0.25, lower, [box(1)])] == ["b1"]


def test_below_the_floor_the_box_that_wrote_most_goes_wherever_it_wrote() -> None:
    """A workspace is no box's disk, and fills the host's all the same."""
    figures, written = Figures(held={1: 0, 2: 0}), {1: GIB, 2: 0}
    judge = Disk(figures.disk_of, written_of=lambda _: dict(written))
    boxes = [box(1), box(2)]
    assert judge.step(0, PLENTY, boxes) == []
    figures.held[1] += 20 * MIB
    written |= {1: GIB + 20 * MIB, 2: 300 * MIB}
    low = replace(PLENTY, disk_free=limits.DISK_FLOOR_BYTES - 1)
    reason = "the host's disk is nearly full: this box wrote the most, 300 MiB"
    assert judge.step(0.25, low, boxes) == [Verdict(box_id=BoxId("b2"), reason=reason)]
    assert [verdict.box_id for verdict in judge.step(2.25, low, [box(1)])] == ["b1"]


def test_files_without_a_name_are_part_of_a_boxs_disk() -> None:
    judge = Disk(Figures(held={1: GIB, 2: GIB}).disk_of, unlinked_of=lambda _: {1: 2 * GIB})
    verdicts = judge.step(0, PLENTY, [box(1), box(2)])
    assert [verdict.reason for verdict in verdicts] == ["disk limit: 3 GiB used, 2 GiB allowed"]


def test_a_host_that_loses_files_instead_of_bytes_is_looked_into_at_once() -> None:
    figures = Figures(held={1: GIB})
    judge = Disk(figures.disk_of)
    files = STEP // limits.FILE_BYTES
    judge.step(0, replace(PLENTY, files_free=9 * files), [box(1, active=False)])
    figures.held = {1: 3 * GIB}
    assert judge.step(0.25, replace(PLENTY, files_free=8 * files), [box(1, active=False)]) == []
    assert judge.step(0.5, replace(PLENTY, files_free=8 * files - 1), [box(1, active=False)]) != []


def test_a_host_with_few_files_left_is_below_its_floor() -> None:
    figures = Figures(held={1: GIB})
    judge = Disk(figures.disk_of)
    judge.step(0, replace(PLENTY, files_free=limits.FILES_FLOOR_ENTRIES), [box(1)])
    figures.held[1] += 20 * MIB
    verdicts = judge.step(0.25, replace(PLENTY, files_free=limits.FILES_FLOOR_ENTRIES - 1), [box(1)])
    assert [verdict.reason for verdict in verdicts] == [
        "the host's disk is nearly full: this box grew the most, 20 MiB"
    ]


def test_a_tree_that_cannot_be_walked_leaves_the_others_judged(caplog: pytest.LogCaptureFixture) -> None:
    judge = Disk(Figures(held={2: 9 * GIB}).disk_of)
    assert [verdict.box_id for verdict in judge.step(0, PLENTY, [box(1), box(2), box(3, paths=())])] == ["b2"]
    assert "disk of box b1" in caplog.text


def test_exact_figures_are_asked_for_only_when_the_host_needs_a_victim() -> None:
    figures = Figures(held={1: MIB, 2: MIB})
    judge = Memory(figures.memory_of)
    boxes = [box(1), box(2, memory_bytes=None)]
    judge.step(0, PLENTY, boxes)
    judge.step(1, replace(PLENTY, mem_available=0), boxes)
    assert figures.within[0][1] == 2 * GIB
    assert figures.within[0][2] > 1 << 60
    assert figures.within[1] == {}


def test_a_box_that_cannot_go_on_without_what_the_kernel_ended_is_stopped() -> None:
    said = [""]
    boxes = [box(1), box(2, killed=lambda: said[-1])]
    assert Casualties().step(1.0, PLENTY, boxes) == []
    said.append("memory limit")
    assert Casualties().step(1.0, PLENTY, boxes) == [Verdict(box_id=boxes[1].id, reason="memory limit")]


def test_a_deadline_is_kept_to_the_moment() -> None:
    boxes = [box(1, deadline_s=10.0, wall_s=8.5), box(2)]
    assert Deadlines().step(9.999, PLENTY, boxes) == []
    assert Deadlines().step(10.0, PLENTY, boxes) == [
        Verdict(box_id=BoxId("b1"), reason="wall time limit: 8.5 s are over")
    ]


def test_reprs_say_where_they_stand() -> None:
    judge = Memory(Figures().memory_of, lambda: 0.0)
    judge.step(3, PLENTY, [])
    assert repr(judge) == "<Memory accounted at 3.0 s in 0.000 s>"
    assert repr(watch([judge])[0]) == "<Watch 0 boxes, 0 judges busy>"


# -- the task ----------------------------------------------------------------------------------------------------------


class Stop(Exception):
    """Ends a watch from inside."""


def watch(judges: list[Judge], sample: Callable[[], HostSample] = lambda: PLENTY) -> tuple[Watch, list[str]]:
    """A watch that ends itself with its first verdict."""
    seen: list[str] = []

    def on_verdict(box_id: BoxId, reason: str) -> None:
        seen.append(f"{box_id} {reason}")
        raise Stop

    return Watch(judges, sample, on_verdict), seen


def run(subject: Watch) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await subject.run()

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(limited())
    assert caught.value.subgroup(Stop) is not None


def test_a_judge_that_stumbles_over_what_a_box_says_ends_no_watch() -> None:
    def stumble(*_: object) -> dict[int, int]:
        raise ValueError("not a number")

    subject, seen = watch([Memory(stumble), Deadlines()])
    subject.add(box(1, deadline_s=time.monotonic() + 0.5, wall_s=0.5))
    run(subject)
    assert seen == ["b1 wall time limit: 0.5 s are over"]


def test_a_deadline_is_reported_while_another_judge_is_at_work() -> None:
    """Walking a huge tree must not give a box more time than it has."""
    held_up = threading.Event()

    def walk(paths: tuple[str, ...]) -> int:
        held_up.wait(10)
        return 0

    async def scenario() -> str:
        verdicts: asyncio.Queue[str] = asyncio.Queue()
        subject = Watch([Disk(walk), Deadlines()], lambda: PLENTY, lambda _, reason: verdicts.put_nowait(reason))
        subject.add(box(1, deadline_s=time.monotonic() + 0.05, wall_s=0.05))
        task = asyncio.create_task(subject.run())
        try:
            async with asyncio.timeout(5):
                return await verdicts.get()
        finally:
            held_up.set()
            task.cancel()

    assert asyncio.run(scenario()) == "wall time limit: 0.05 s are over"


def test_a_real_hog_is_found_and_its_twin_with_room_is_not() -> None:
    pid = os.fork()
    if pid == 0:
        kept = bytearray(b"x") * (64 * MIB)
        signal.pause()
        os._exit(len(kept) and 0)
    try:
        while accounting.memory_of([pid]).get(pid, 0) < 64 * MIB:
            time.sleep(0.005)
        subject, seen = watch([Memory(accounting.memory_of)])
        subject.add(box(pid, id=BoxId("room"), memory_bytes=GIB))
        subject.add(box(pid, id=BoxId("tight"), memory_bytes=32 * MIB))
        run(subject)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert len(seen) == 1
    assert seen[0].startswith("tight memory limit: ")
    assert seen[0].endswith(" used, 32 MiB allowed")


def test_nothing_is_read_while_there_is_no_box() -> None:
    async def scenario() -> None:
        samples: asyncio.Queue[HostSample] = asyncio.Queue()

        def sample() -> HostSample:
            samples.put_nowait(PLENTY)
            return PLENTY

        subject, _ = watch([Memory(Figures().memory_of)], sample)
        subject.add(box(1))
        subject.remove(BoxId("b1"))
        task = asyncio.create_task(subject.run())
        for _ in range(100):
            await asyncio.sleep(0)
        assert samples.empty()
        subject.add(box(1))
        await samples.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_host_that_cannot_be_read_for_a_while_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[OSError | HostSample] = [OSError("gone"), PLENTY]

    def sample() -> HostSample:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    subject, seen = watch([Deadlines()], sample)
    subject.add(box(1, deadline_s=0.0, wall_s=1))
    run(subject)
    assert seen == ["b1 wall time limit: 1 s are over"]
    assert "cannot see the host: gone" in caplog.text


def test_a_box_is_judged_once_and_one_started_again_afresh() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        rounds: asyncio.Queue[int] = asyncio.Queue()

        def sample() -> HostSample:
            rounds.put_nowait(len(seen))
            return PLENTY

        subject = Watch([Deadlines()], sample, lambda box_id, _: seen.append(box_id))
        subject.add(box(9))  # keeps the rounds coming
        task = asyncio.create_task(subject.run())
        for pid in (1, 2):
            subject.add(box(pid, id=BoxId("same"), deadline_s=0.0))
            for _ in range(2):
                while await rounds.get() < pid:
                    pass
        task.cancel()
        return seen

    assert asyncio.run(scenario()) == ["same", "same"]


class Slow:
    """A judge that finds box `same` guilty after a long look, once."""

    def __init__(self) -> None:
        self.looking, self.go_on, self.again = threading.Event(), threading.Event(), threading.Event()

    def takes_time(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> bool:
        return True

    def step(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> list[Verdict]:
        if self.looking.is_set():
            self.again.set()
            return []
        self.looking.set()
        self.go_on.wait(10)
        return [Verdict(box_id=BoxId("same"), reason="late")]


@pytest.mark.parametrize(("restarted", "expected"), [(False, ["same"]), (True, [])])
def test_a_verdict_on_a_box_that_was_started_again_meanwhile_is_dropped(restarted: bool, expected: list[str]) -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        judge = Slow()
        subject = Watch([judge], lambda: PLENTY, lambda box_id, _: seen.append(box_id))
        subject.add(box(1, id=BoxId("same")))
        subject.add(box(9))
        task = asyncio.create_task(subject.run())
        await asyncio.to_thread(judge.looking.wait, 10)
        if restarted:
            subject.remove(BoxId("same"))
            subject.add(box(2, id=BoxId("same")))
        judge.go_on.set()
        await asyncio.to_thread(judge.again.wait, 10)
        task.cancel()
        return seen

    assert asyncio.run(scenario()) == expected


def test_a_box_that_starts_working_is_marked_so() -> None:
    subject, _ = watch([])
    subject.add(box(1, active=False))
    subject.set_active(BoxId("b1"), active=True)
    subject.set_active(BoxId("unknown"), active=True)
    assert [one.active for one in subject._boxes.values()] == [True]
