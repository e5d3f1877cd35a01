"""The watch: stops boxes that outgrow a limit the kernel does not hold, or that take the host down with them.

Theory. Looking at every box is dear, looking at the host is cheap, and a box cannot grow without the host shrinking. So
four times a second two figures of the host are read; boxes are accounted only when the host has lost a step since they
last were, now and then while one of them works (what it took may have been freed elsewhere at the same time), and at
once when the host falls below its floor. Each pause is at least a multiple of what the last accounting cost, so that a
thousand boxes are watched more slowly, not at a higher price.

Judges decide and take time and figures from outside: `Deadlines`, `Memory`, `Disk`. `Watch` is the task around them.
"""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import logging
import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from paddock import limits
from paddock.errors import PaddockError
from paddock.model import BoxId

MemoryOf = Callable[[Iterable[int], Mapping[int, int]], Mapping[int, int]]  # accounting.memory_of
DiskOf = Callable[[tuple[str, ...]], int]
BytesOf = Callable[[Iterable[int]], Mapping[int, int]]  # accounting.written_of, by init pid
UnlinkedOf = Callable[[Mapping[int, tuple[str, ...]]], Mapping[int, int]]  # accounting.unlinked_of
Clock = Callable[[], float]

_FLOOR_PAUSE_S: Final = 2.0  # a stopped box gives back what it held within this time, before another is chosen
_IDLE_SHARE: Final = 100  # accounting takes at most this part of a core: a hundredth in peace,
_BUSY_SHARE: Final = 10  # a tenth while the host shrinks,
_FLOOR_SHARE: Final = 2  # half when it is about to run out
_FLOOR_STEP_BYTES: Final = limits.WATCH_STEP_BYTES // 16  # a host that stays low for days is not walked for days
_GROWTH_BYTES: Final = limits.WATCH_STEP_BYTES // 4  # less is noise: nobody is stopped for it
_HOLDING_BYTES: Final = limits.WATCH_STEP_BYTES
_UNITS: Final = ((limits.GIB, "GiB"), (limits.MIB, "MiB"), (limits.KIB, "KiB"), (1, "bytes"))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    mem_available: int
    disk_free: int
    files_free: int | None = None  # None where the file system has no such bound


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedBox:
    """A running box. A limit that is None is held by the kernel, or there is none."""

    id: BoxId
    init_pid: int
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    paths: tuple[str, ...] = ()  # what counts as its disk
    places: tuple[str, ...] = ()  # where that lies for the box: files without a name are known by where they had one
    deadline_s: float | None = None  # monotonic
    wall_s: float = 0.0  # for the message
    active: bool = False  # a command runs in it
    killed: Callable[[], str] | None = None  # which processes of it the kernel ended, if it cannot go on without them


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Stop this box; the reason is for its user."""

    box_id: BoxId
    reason: str


class Judge(Protocol):
    """Says which boxes must stop now. One thread at a time."""

    def takes_time(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> bool: ...

    def step(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> list[Verdict]: ...


class Deadlines:
    """The judge of wall time."""

    def takes_time(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> bool:  # noqa: ARG002
        return False

    def step(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> list[Verdict]:  # noqa: ARG002
        overdue = [box for box in boxes if box.deadline_s is not None and now_s >= box.deadline_s]
        return [Verdict(box_id=box.id, reason=f"wall time limit: {box.wall_s:g} s are over") for box in overdue]


class Casualties:
    """The judge of boxes that hang, for ever, when the kernel ends one of their processes."""

    def takes_time(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> bool:  # noqa: ARG002
        return False

    def step(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> list[Verdict]:  # noqa: ARG002
        told = [(box, box.killed()) for box in boxes if box.killed is not None]
        return [Verdict(box_id=box.id, reason=reason) for box, reason in told if reason]


class _Accounting(abc.ABC):
    """A judge of something boxes hold and the host runs out of."""

    name: ClassVar[str]
    scarce: ClassVar[str]
    floor_bytes: ClassVar[int]
    period_s: ClassVar[float]
    given_back: ClassVar[bool]  # a box begins with none of it and returns it when it stops

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = -math.inf
        self._cost_s = 0.0
        self._most_bytes = -1  # the most the host had since the last accounting
        self._top_mark = -1  # the same for the mark
        self._quiet_until_s = -math.inf
        self._before: dict[int, int] = {}  # by init pid, from the last accounting with the host above its floor

    def __repr__(self) -> str:
        return f"<{type(self).__name__} accounted at {self._at_s:.1f} s in {self._cost_s:.3f} s>"

    @abc.abstractmethod
    def _host(self, host: HostSample) -> int:
        """What the host has left, to be compared with the floor."""

    def _mark(self, host: HostSample) -> int:
        """A figure that falls whenever a box takes something."""
        return self._host(host)

    @abc.abstractmethod
    def _limit(self, box: WatchedBox) -> int | None: ...

    @abc.abstractmethod
    def _measure(self, boxes: Collection[WatchedBox], *, exact: bool) -> Mapping[int, int]: ...

    def takes_time(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> bool:
        """Whether a step with these arguments would look at boxes."""
        has, mark, since_s = self._host(host), self._mark(host), now_s - self._at_s
        # Upwards both follow the host: what others free and a box then takes is a loss too.
        self._most_bytes, self._top_mark = max(self._most_bytes, has), max(self._top_mark, mark)
        lost, scarce = self._top_mark - mark, has < self.floor_bytes
        if scarce and now_s < self._quiet_until_s:
            return False
        if scarce and (self._most_bytes >= self.floor_bytes or self._quiet_until_s > self._at_s):
            return since_s >= _FLOOR_SHARE * self._cost_s  # just fallen below, or the last verdict was not enough
        if lost > (_FLOOR_STEP_BYTES if scarce else limits.WATCH_STEP_BYTES):
            return since_s >= _BUSY_SHARE * self._cost_s
        if since_s < max(self.period_s, _IDLE_SHARE * self._cost_s):
            return False
        return since_s == math.inf or any(box.active and self._limit(box) is not None for box in boxes)

    def step(self, now_s: float, host: HostSample, boxes: Collection[WatchedBox]) -> list[Verdict]:
        if not self.takes_time(now_s, host, boxes):
            return []
        scarce = self._host(host) < self.floor_bytes
        started_s = self._clock()
        held = self._measure(boxes, exact=scarce)
        self._at_s, self._cost_s = now_s, self._clock() - started_s
        self._most_bytes, self._top_mark = self._host(host), self._mark(host)
        found = self._over_limit(boxes, held)
        if not scarce:
            self._remember(held)
            return found
        found = found or self._for_the_host(boxes, held)
        self._quiet_until_s = now_s + _FLOOR_PAUSE_S if found else now_s
        return found

    def _over_limit(self, boxes: Collection[WatchedBox], held: Mapping[int, int]) -> list[Verdict]:
        found = []
        for box in boxes:
            used, allowed = held.get(box.init_pid, 0), self._limit(box)
            if allowed is not None and used > allowed:
                found.append(Verdict(box_id=box.id, reason=f"{self.name} limit: {_compared(used, allowed)}"))
        return found

    def _for_the_host(self, boxes: Collection[WatchedBox], held: Mapping[int, int]) -> list[Verdict]:
        """The one box to stop, by the first figure in which one of them stands out; none if it is in none."""
        self._before = {pid: self._before.get(pid, 0 if self.given_back else used) for pid, used in held.items()}
        grown = {pid: used - self._before[pid] for pid, used in held.items()}
        ids = {box.init_pid: box.id for box in boxes}
        for figures, least, word in self._choices(held, grown):
            pid = max(figures, key=figures.__getitem__, default=0)
            if figures.get(pid, 0) >= least:
                return [
                    Verdict(box_id=ids[pid], reason=f"{self.scarce}: this box {word} the most, {_size(figures[pid])}")
                ]
        return []

    @abc.abstractmethod
    def _choices(self, held: Mapping[int, int], grown: Mapping[int, int]) -> list[tuple[Mapping[int, int], int, str]]:
        """Figures by init pid, the least that counts, and the word for it; the most telling first."""

    def _remember(self, held: Mapping[int, int]) -> None:
        """The host is above its floor: growth is counted from here."""
        self._before = dict(held)


class Memory(_Accounting):
    """The judge of memory."""

    name = "memory"
    scarce = "host memory is nearly used up"
    floor_bytes = limits.MEMORY_FLOOR_BYTES
    period_s = 5.0
    given_back = True

    def __init__(self, memory_of: MemoryOf, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._memory_of = memory_of

    def _host(self, host: HostSample) -> int:
        return host.mem_available

    def _limit(self, box: WatchedBox) -> int | None:
        return box.memory_bytes

    def _measure(self, boxes: Collection[WatchedBox], *, exact: bool) -> Mapping[int, int]:
        # A cheap figure is never too low: it will do while it is within the limit, or where the kernel holds the limit.
        enough = {box.init_pid: sys.maxsize if box.memory_bytes is None else box.memory_bytes for box in boxes}
        return self._memory_of([box.init_pid for box in boxes], {} if exact else enough)

    def _choices(self, held: Mapping[int, int], grown: Mapping[int, int]) -> list[tuple[Mapping[int, int], int, str]]:
        return [(grown, _GROWTH_BYTES, "grew"), (held, _HOLDING_BYTES, "held")]


class Disk(_Accounting):
    """The judge of disk.

    A box's disk is its own storage, with files that have no name any more. The host is filled by more than that (the
    workspace, for one, which belongs to the user and has no limit), so below the floor it is what a box wrote that
    counts, wherever it wrote it.
    """

    name = "disk"
    scarce = "the host's disk is nearly full"
    floor_bytes = limits.DISK_FLOOR_BYTES
    period_s = 60.0  # walks trees; a box that fills the disk shows as a loss of the host long before
    given_back = False

    def __init__(
        self,
        disk_of: DiskOf,
        clock: Clock = time.monotonic,
        *,
        unlinked_of: UnlinkedOf = lambda _: {},
        written_of: BytesOf = lambda _: {},
    ) -> None:
        super().__init__(clock)
        self._disk_of = disk_of
        self._unlinked_of = unlinked_of
        self._written_of = written_of
        self._written: Mapping[int, int] = {}
        self._written_before: Mapping[int, int] = {}

    def _host(self, host: HostSample) -> int:
        if host.files_free is None:
            return host.disk_free
        return min(host.disk_free, host.files_free * limits.DISK_FLOOR_BYTES // limits.FILES_FLOOR_ENTRIES)

    def _mark(self, host: HostSample) -> int:
        return host.disk_free + (host.files_free or 0) * limits.FILE_BYTES

    def _limit(self, box: WatchedBox) -> int | None:
        return box.disk_bytes

    def _measure(self, boxes: Collection[WatchedBox], *, exact: bool) -> Mapping[int, int]:  # noqa: ARG002
        pids = [box.init_pid for box in boxes]
        self._written = self._written_of(pids)
        unlinked = self._unlinked_of({box.init_pid: box.places for box in boxes})
        held = {}
        for box in boxes:
            try:
                if box.paths:
                    held[box.init_pid] = self._disk_of(box.paths) + unlinked.get(box.init_pid, 0)
            except OSError as error:
                _log.warning("cannot account the disk of box %s: %s", box.id, error)
        return held

    def _choices(self, held: Mapping[int, int], grown: Mapping[int, int]) -> list[tuple[Mapping[int, int], int, str]]:
        wrote = {pid: self._written.get(pid, 0) - self._written_before.get(pid, 0) for pid in held}
        return [(wrote, _GROWTH_BYTES, "wrote"), (grown, _GROWTH_BYTES, "grew")]

    def _remember(self, held: Mapping[int, int]) -> None:
        super()._remember(held)
        self._written_before = self._written


class Watch:
    """Puts the boxes it is told of before its judges. Costs nothing while there is no box."""

    def __init__(
        self, judges: Sequence[Judge], sample: Callable[[], HostSample], on_verdict: Callable[[BoxId, str], None]
    ) -> None:
        self._judges = judges
        self._sample = sample
        self._on_verdict = on_verdict
        self._boxes: dict[BoxId, WatchedBox] = {}  # those not judged yet
        self._any = asyncio.Event()
        self._busy: set[Judge] = set()
        # Threads of its own: others are used up while many boxes end, which is when the watch must see.
        self._threads = ThreadPoolExecutor(max(1, len(judges)), "watch")

    def __repr__(self) -> str:
        return f"<Watch {len(self._boxes)} boxes, {len(self._busy)} judges busy>"

    def add(self, box: WatchedBox) -> None:
        self._boxes[box.id] = box
        self._any.set()

    def remove(self, box_id: BoxId) -> None:
        self._boxes.pop(box_id, None)
        if not self._boxes:
            self._any.clear()

    def set_active(self, box_id: BoxId, *, active: bool) -> None:
        """Tell whether a command runs in the box: an idle one is accounted only when the host loses something."""
        box = self._boxes.get(box_id)
        if box is not None and box.active != active:
            self._boxes[box_id] = dataclasses.replace(box, active=active)

    async def run(self) -> None:
        """Watch until cancelled. Each verdict is reported once; its box is not watched any more."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._any.wait()
                try:
                    self._round(group)
                except (OSError, PaddockError) as error:
                    _log.warning("the watch cannot see the host: %s", error)
                await asyncio.sleep(self._pause_s())

    def _round(self, group: asyncio.TaskGroup) -> None:
        now_s, host = time.monotonic(), self._sample()
        for judge in self._judges:
            boxes = tuple(self._boxes.values())
            if judge in self._busy or not boxes:
                continue
            if judge.takes_time(now_s, host, boxes):
                # Walking a large tree must delay neither a deadline nor a look at memory.
                self._busy.add(judge)
                group.create_task(self._step_aside(judge, now_s, host, boxes), name=f"watch {judge!r}")
            else:
                self._report(judge.step(now_s, host, boxes), boxes)

    async def _step_aside(self, judge: Judge, now_s: float, host: HostSample, boxes: tuple[WatchedBox, ...]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._threads, judge.step, now_s, host, boxes)
        except (OSError, PaddockError) as error:
            _log.warning("the watch cannot account boxes: %s", error)
        except Exception:  # noqa: BLE001  what a box says of itself ends no watch, and with that the daemon
            _log.exception("the watch cannot account boxes")
        else:
            self._report(verdicts, boxes)
        finally:
            self._busy.discard(judge)

    def _report(self, verdicts: list[Verdict], boxes: tuple[WatchedBox, ...]) -> None:
        pids = {box.id: box.init_pid for box in boxes} if verdicts else {}
        for verdict in verdicts:
            box = self._boxes.get(verdict.box_id)
            if box is not None and box.init_pid == pids[verdict.box_id]:  # not stopped, or started again, meanwhile
                self.remove(verdict.box_id)
                self._on_verdict(verdict.box_id, verdict.reason)

    def _pause_s(self) -> float:
        now_s = time.monotonic()
        waits = [box.deadline_s - now_s for box in self._boxes.values() if box.deadline_s is not None]
        return min([limits.WATCH_INTERVAL_S, *(wait for wait in waits if wait > 0)])


def _compared(used: int, allowed: int) -> str:
    """Both sizes in the largest unit in which they read differently."""
    texts = ((_in(used, unit), _in(allowed, unit)) for unit in _UNITS if used >= unit[0])
    used_text, allowed_text = next(pair for pair in texts if pair[0] != pair[1])
    return f"{used_text} used, {allowed_text} allowed"


def _size(count: int) -> str:
    return next(_in(count, unit) for unit in _UNITS if count >= unit[0])


def _in(count: int, unit: tuple[int, str]) -> str:
    return f"{count / unit[0]:.1f}".removesuffix(".0") + f" {unit[1]}"
