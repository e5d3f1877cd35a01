"""An installation of the benchmark's own: a temporary PADDOCK_HOME with its daemon, and nothing left of it after."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Self

from paddock.client import Paddock

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.client import Box

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = f"{ROOT}/paddock"
_END_S = 120.0
_REST_S = 0.03
# Not /tmp, which is often memory: the store's fsync is part of what is measured, and people's state is on a disk.
_PLACE = "/var/tmp"


class Installation:
    """A daemon that is running and warm."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="paddock-bench.", dir=os.environ.get("TMPDIR") or _PLACE)
        self.workspace = f"{self._directory}/workspace"
        os.mkdir(self.workspace)
        self.home = f"{self._directory}/home"
        os.mkdir(self.home)
        self.sdk = Paddock(home=self.home)
        self.environ = {"PATH": "/usr/bin:/bin", "PADDOCK_HOME": self.home}

    def __repr__(self) -> str:
        return f"<Installation {self.home}>"

    def __enter__(self) -> Self:
        try:
            self.run_true()
            self.settle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            pid = self.daemon
            self.sdk.reset()
            self.settle()
            self.sdk.call("shutdown")
            self.sdk.close()
            until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon ended")
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def daemon(self) -> int:
        return self._status()["pid"]

    def processes(self) -> list[int]:
        """The daemon and all below it: the launcher and the first process of every box."""
        return family(self.daemon)

    def ours(self) -> set[int]:
        return {*family(os.getpid()), *self.processes()}

    def boxes(self) -> list[int]:
        """The first process of every box: the launcher's children."""
        daemon = self.daemon
        return [pid for pid in family(daemon)[1:] if _parent(pid) != daemon]

    def run_true(self) -> None:
        assert self.sdk.run(["/bin/true"], workspace=self.workspace).ok

    def box(self, name: str) -> Box:
        """A box that runs."""
        box = self.sdk.create(name, workspace=self.workspace)
        assert box.exec(["/bin/true"]).ok
        return box

    def settle(self) -> None:
        """Wait until what ended boxes left is cleared away, so that it does not weigh on the next round."""
        trash = f"{self.home}/state/trash"
        until(lambda: self._status()["boxes"] == self._status()["running"] and not os.listdir(trash), "boxes are gone")

    def rest(self) -> None:
        """Settle, and leave the daemon time for what it does when nobody asks."""
        self.settle()
        time.sleep(_REST_S)

    def _status(self) -> dict[str, int]:
        found = self.sdk.call("status")
        assert isinstance(found, dict)
        return found


def family(top: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        children.setdefault(_parent(pid), []).append(pid)
    found = [top]
    for pid in found:  # grows while we look
        found += children.get(pid, [])
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def pss_bytes(pids: list[int]) -> int | None:
    """Proportional memory of processes, or None when one of them is closed to us: only root may look into an init."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        except PermissionError:
            return None
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            continue  # it ended meanwhile
    return total


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _END_S
    while not condition():
        if time.monotonic() > deadline:
            message = f"not within {_END_S:.0f} s: {what}"
            raise TimeoutError(message)
        time.sleep(0.002)
