"""What each box holds and writes, read from /proc in one pass: for limits that no controller of the kernel holds.

A process belongs to the box whose init is its nearest ancestor. The kernel gives orphans of a pid namespace to its
pid 1, so forking twice does not leave the box. Figures come in two grades. The cheap one (`/proc/PID/status`) counts a
page once for every process that maps it, so it is never too low; the exact one (`smaps_rollup`) shares such a page out,
but the kernel walks page tables for it. A box whose cheap figure is within its allowance is not looked at more closely.

Memory held by no mapping is seen by who has it open (openfiles.py): a memfd counts with the pages it has, once per box.
Files with a name on a tmpfs are not counted here; the size of their mount bounds them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from paddock.engines.process import openfiles
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})

_OF_NO_DISK: Final = ("/dev/", "/run/", "/proc/")  # mounts whose size bounds them
_TABLES: Final = (b"VmPTE:",)  # page tables: reading through empty memory makes gigabytes of them
_STATUS_OWN: Final = (b"RssAnon:", b"VmSwap:", *_TABLES)
_STATUS_SHARED: Final = (b"RssShmem:",)
_ROLLUP_OWN: Final = (b"Pss_Anon:", b"SwapPss:")
_ROLLUP_SHARED: Final = (b"Pss_Shmem:",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    parent: int
    threads: int
    defunct: bool


def memory_of(
    init_pids: Iterable[int], within: Mapping[int, int] = _NOTHING, proc_root: str = "/proc"
) -> dict[int, int]:
    """Bytes of memory per living init; a box gets the cheap figure only where that is no more than `within` allows."""
    members = _members(set(init_pids), _processes(proc_root), proc_root)
    return {init: _memory(own, within.get(init, -1), proc_root) for init, own in members.items()}


def family(pid: int, proc_root: str = "/proc") -> frozenset[int]:
    """`pid` and all its descendants; nobody if it is gone."""
    return frozenset(_members({pid}, _processes(proc_root), proc_root).get(pid, {}))


def available(proc_root: str = "/proc") -> int:
    """Bytes of memory the host can still give out without swapping."""
    for line in (_read(f"{proc_root}/meminfo") or b"").splitlines():
        if line.startswith(b"MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise Unavailable(f"{proc_root}/meminfo does not say how much memory is available", hint="is /proc mounted?")


def disk_free(path: Path) -> int:
    """Bytes an ordinary user can still write to the file system of `path`."""
    figures = os.statvfs(path)
    return figures.f_bavail * figures.f_frsize


def files_free(path: Path) -> int | None:
    """Files an ordinary user can still make there; None where only space bounds them, as on btrfs."""
    figures = os.statvfs(path)
    return figures.f_favail if figures.f_files else None


def unlinked_of(places: Mapping[int, tuple[str, ...]], proc_root: str = "/proc") -> dict[int, int]:
    """Disk space per init of files without a name that are open beneath its `places`, as its box names them."""
    members = _members(set(places), _processes(proc_root), proc_root)
    return {
        init: openfiles.held([f"{proc_root}/{pid}" for pid in own], _is_unlinked(places[init]), with_memory=False)
        for init, own in members.items()
    }


def written_of(init_pids: Iterable[int], proc_root: str = "/proc") -> dict[int, int]:
    """Bytes sent to disks per init: of its living processes and of all those they have waited for."""
    members = _members(set(init_pids), _processes(proc_root), proc_root)
    return {init: sum(_written(pid, proc_root) for pid in own) for init, own in members.items()}


def processor_of(init_pid: int, proc_root: str = "/proc") -> float:
    """Seconds of processors that a box used: its living processes, and all those they have waited for."""
    ticks = sum(_ticks(pid, proc_root) for pid in family(init_pid, proc_root))
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int, proc_root: str) -> int:
    data = _read(f"{proc_root}/{pid}/stat") or b""
    fields = data[data.rfind(b")") + 1 :].split()
    return sum(map(int, fields[11:15]))  # of its own and of its children, in programs and in the kernel


def _written(pid: int, proc_root: str) -> int:
    for line in (_read(f"{proc_root}/{pid}/io") or b"").splitlines():
        if line.startswith(b"write_bytes:"):
            return int(line.split()[1])
    return 0  # gone, or closed to us, as an init is to an ordinary user


def _processes(proc_root: str) -> dict[int, _Process]:
    found = {}
    for name in os.listdir(proc_root):
        if name.isdecimal() and (process := _process(int(name), proc_root)):
            found[int(name)] = process
    return found


def _process(pid: int, proc_root: str) -> _Process | None:
    data = _read(f"{proc_root}/{pid}/stat")
    if data is None:
        return None
    # A program chooses its own name, brackets, blanks and newlines included; only what follows the last bracket counts.
    fields = data[data.rfind(b")") + 1 :].split()
    if len(fields) < 18:
        return None
    return _Process(parent=int(fields[1]), threads=int(fields[17]), defunct=fields[0] == b"Z")


def _members(inits: set[int], processes: dict[int, _Process], proc_root: str) -> dict[int, dict[int, _Process]]:
    """The processes of each living init, itself included."""
    members: dict[int, dict[int, _Process]] = {init: {} for init in inits if init in processes}
    home: dict[int, int] = {0: 0, **{init: init for init in members}}
    for pid in list(processes):
        init = _home(pid, processes, home, proc_root)
        if init in members:
            members[init][pid] = processes[pid]
    return members


def _home(pid: int, processes: dict[int, _Process], home: dict[int, int], proc_root: str) -> int:
    """The init above `pid`, 0 if there is none; `home` remembers answers, so the whole pass is linear."""
    path = []
    while pid not in home:
        path.append(pid)
        home[pid] = 0  # ends a loop, should pids have been reused while we read
        parent = processes[pid].parent
        if parent not in processes and parent != 0:
            # The parent ended between two reads: its child has a new one by now, perhaps the init.
            parent = (_process(pid, proc_root) or processes[pid]).parent
        pid = parent if parent in processes else 0
    answer = home[pid]
    home.update(dict.fromkeys(path, answer))
    return answer


def _memory(members: dict[int, _Process], within: int, proc_root: str) -> int:
    views = [_view(pid, process, proc_root) for pid, process in members.items()]
    cheap = _total([_status(view) for view in views], openfiles.held(views, _is_memfd))
    if cheap <= within:
        return cheap
    # Threads can have descriptor tables of their own; looking at each is for boxes that are worth the time.
    threads = [f"{proc_root}/{pid}/task/{tid}" for pid in members for tid in _list(f"{proc_root}/{pid}/task")]
    return _total([_rollup(view) or _status(view) for view in views], openfiles.held(threads, _is_memfd))


def _view(pid: int, process: _Process, proc_root: str) -> str:
    """Where the memory of a process shows: a first thread that has ended, with others alive, shows none."""
    if process.defunct and process.threads > 1:
        for tid in reversed(_list(f"{proc_root}/{pid}/task")):
            return f"{proc_root}/{pid}/task/{tid}"
    return f"{proc_root}/{pid}"


def _total(figures: list[tuple[int, int]], held: int) -> int:
    # A memfd that is open and mapped appears in both sums and is one memory: the larger sum counts, not both.
    return sum(own for own, _ in figures) + max(held, sum(shared for _, shared in figures))


def _status(view: str) -> tuple[int, int]:
    data = _read(f"{view}/status") or b""
    return _sum(data, _STATUS_OWN), _sum(data, _STATUS_SHARED)


def _rollup(view: str) -> tuple[int, int] | None:
    """None where the kernel does not let us look, as into a process that is not dumpable."""
    data = _read(f"{view}/smaps_rollup")
    if not data or b"Pss_Anon:" not in data:
        return None
    tables = _sum(_read(f"{view}/status") or b"", _TABLES)
    return _sum(data, _ROLLUP_OWN) + tables, _sum(data, _ROLLUP_SHARED)


def _sum(data: bytes, keys: tuple[bytes, ...]) -> int:
    # A program's name is in it, with any byte but a newline, which is escaped: no other end of a line may count.
    found = (line.split() for line in data.split(b"\n") if line.startswith(keys))
    return sum(int(words[1]) * 1024 for words in found if len(words) > 1 and words[1].isdigit())


def _is_memfd(name: str) -> bool:
    return name.startswith("/memfd:")


def _is_unlinked(below: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda name: name.endswith(" (deleted)") and name.startswith(below) and not name.startswith(_OF_NO_DISK)


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str) -> bytes | None:
    """The file, or None: a process may end, or be closed to us, between any two reads."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_all(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    chunks = []
    while chunk := os.read(fd, 65536):
        chunks.append(chunk)
    return b"".join(chunks)
