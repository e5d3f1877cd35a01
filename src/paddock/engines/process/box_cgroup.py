"""The cgroups of one box: its limits, its processes, what it uses, and its end.

v1 has one cgroup per controller, v2 one for all; the difference ends here, in a table of file names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from paddock.engines.process.cgroup_tree import Version, pids_in, write
from paddock.errors import Unavailable
from paddock.model import BoxId

Controller = Literal["memory", "pids", "cpu"]

_CPU_PERIOD_US: Final = 100_000
_CPU_QUOTA_MIN_US: Final = 1_000  # the kernel refuses less
_SWAP_FILES: Final = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # absent where the kernel accounts no swap
_KILL_BATCH: Final = 64  # descriptors held at once while killing
_RETRY_S: Final = 0.005
_PATIENCE_S: Final = 5.0  # dying processes leave a cgroup late; longer than this is an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One cgroup of a box and the controllers that count there, with a limit or without."""

    version: Version
    path: Path
    controllers: tuple[Controller, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCgroup:
    """The cgroups of one box; with none, every method does nothing. Methods that wait belong in a thread."""

    box_id: BoxId
    groups: tuple[Group, ...] = ()

    def attach(self, pid: int) -> None:
        """Put a process in; what it forks from now on is in too."""
        for group in self.groups:
            try:
                write(group.path / "cgroup.procs", str(pid))
            except OSError as error:
                raise failed(f"attach process {pid} to", group.path, error) from error

    def kill(self) -> None:
        """Kill every process in it and wait until there is none; nothing can be started in it afterwards."""
        for group in self._with("pids"):
            with contextlib.suppress(OSError):  # gone already
                write(group.path / "pids.max", "0")  # a fork bomb must not outrun us
        for group in self.groups:
            deadline = time.monotonic() + _PATIENCE_S
            while _kill_once(group):
                if time.monotonic() > deadline:
                    raise Unavailable(f"processes in {group.path} survive being killed", code="cgroup")
                time.sleep(_RETRY_S)

    def events(self) -> int:
        """How many processes the kernel has killed because the box reached its memory limit."""
        names = {1: "memory.oom_control", 2: "memory.events"}
        return sum(_keyed(group.path / names[group.version], "oom_kill") for group in self._with("memory"))

    def remove(self) -> None:
        """Remove the cgroups; waits a little for processes that are already dying."""
        for group in self.groups:
            remove_directory(group.path)

    def _with(self, controller: Controller) -> list[Group]:
        return [group for group in self.groups if controller in group.controllers]


def make(group: Group, values: dict[Controller, float]) -> None:
    """Make one cgroup and set its limits, or leave nothing behind and raise OSError with the file that refused."""
    _make_directory(group.path)
    try:
        for name in values.keys() & set(group.controllers):
            for file, value in _settings(group.version, name, values[name]):
                if file not in _SWAP_FILES or (group.path / file).exists():
                    write(group.path / file, value)
    except OSError:
        group.path.rmdir()
        raise


def _settings(version: Version, name: Controller, value: float) -> list[tuple[str, str]]:
    """Files and what to write there, in order. Swap is closed too, so that a memory limit means memory."""
    whole = str(int(value))
    quota = max(int(value * _CPU_PERIOD_US), _CPU_QUOTA_MIN_US)
    match (name, version):
        case ("memory", 1):  # the second counts memory and swap as one and may not be below the first
            return [("memory.limit_in_bytes", whole), ("memory.memsw.limit_in_bytes", whole)]
        case ("memory", 2):
            return [("memory.max", whole), ("memory.swap.max", "0")]
        case ("cpu", 1):
            return [("cpu.cfs_period_us", str(_CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]
        case ("cpu", 2):
            return [("cpu.max", f"{quota} {_CPU_PERIOD_US}")]
        case _:
            return [("pids.max", whole)]


def _make_directory(path: Path) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        path.rmdir()  # left by a crash; the kernel refuses if anyone is still in it
        path.mkdir()


def remove_directory(path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise failed("remove", path, error) from error
        time.sleep(_RETRY_S)


def _kill_once(group: Group) -> bool:
    """Signal everyone in the cgroup; False when there was nobody, which includes the cgroup being gone."""
    try:
        pids = pids_in(group.path)
        if pids and group.version == 2 and (group.path / "cgroup.kill").exists():
            write(group.path / "cgroup.kill", "1")
        elif pids:
            for start in range(0, len(pids), _KILL_BATCH):
                _kill_members(group.path, pids[start : start + _KILL_BATCH])
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENODEV}:
            raise failed("kill", group.path, error) from error
        return False
    return bool(pids)


def _kill_members(cgroup: Path, pids: list[int]) -> None:
    """Kill those of `pids` that are in the cgroup even if a number is reused meanwhile: listed, held, listed again."""
    with contextlib.ExitStack() as stack:
        held = {}
        for pid in filter(None, pids):
            with contextlib.suppress(ProcessLookupError):
                held[pid] = os.pidfd_open(pid)
                stack.callback(os.close, held[pid])
        for pid in held.keys() & set(pids_in(cgroup)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(held[pid], signal.SIGKILL)


def _keyed(file: Path, key: str) -> int:
    """The number after a key; 0 where the file or the key is missing, as after the box has gone."""
    try:
        words = file.read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(words[words.index(key) + 1]) if key in words else 0


def failed(what: str, path: Path | str, error: OSError) -> Unavailable:
    return Unavailable(f"cannot {what} {path}: {error.strerror}", code="cgroup")
