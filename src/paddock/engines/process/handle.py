"""A living process box, held by a pidfd; and the one process that evidence means, found again."""

from __future__ import annotations

import logging
import os
import select
import signal
from typing import TYPE_CHECKING

from paddock import proc
from paddock.engines.process import kernel
from paddock.errors import Unavailable
from paddock.model import Evidence, WorkspaceMode

if TYPE_CHECKING:
    from paddock.engines.base import Placement

log = logging.getLogger(__name__)


class ProcessHandle:
    keeps_names = False

    def __init__(self, placement: Placement, evidence: Evidence, pidfd: int) -> None:
        self.evidence = evidence
        self.pidfd = pidfd
        self.overlays: list[int] = []
        self.namespace = -1  # of its mounts; a box that was found again is asked for it when it is needed
        self.closed = False
        self._placement = placement

    def __repr__(self) -> str:
        return f"<ProcessHandle {self._placement.spec.name} pid {self.evidence.pid}>"

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)  # pid 1 of its namespace: all others go with it
        except ProcessLookupError:
            return

    def ended(self) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def refresh(self) -> bool:
        try:
            for overlay in self.overlays:
                kernel.look_again(overlay)
        except OSError as error:
            log.warning("%r sees its workspace as it was: %s", self, error)
            return False
        return bool(self.overlays) or self._placement.spec.mode is not WorkspaceMode.REVIEW

    def is_idle(self) -> bool:
        """All processes of the box descend from the first; the kernel tells, not the box."""
        try:
            with open(f"/proc/{self.evidence.pid}/task/{self.evidence.pid}/children", "rb") as file:
                return not file.read(1)
        except OSError:
            return False

    def close(self) -> None:
        self.closed = True
        for fd in (self.pidfd, self.namespace, *self.overlays):
            if fd >= 0:
                os.close(fd)


def hold(placement: Placement, pid: int, kind: type[ProcessHandle] = ProcessHandle) -> ProcessHandle:
    """The process that was just made; Unavailable if it is gone already."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise ended_early() from error
    try:
        return kind(placement, evidence_of(pid), pidfd)
    except BaseException:
        os.close(pidfd)
        raise


def find(
    placement: Placement, evidence: Evidence | None, kind: type[ProcessHandle] = ProcessHandle
) -> ProcessHandle | None:
    """The process the evidence means and no other: a pid is used again, after a reboot or before."""
    if evidence is None or evidence.boot_id != proc.boot_id():
        return None
    try:
        pidfd = os.pidfd_open(evidence.pid)
    except (ProcessLookupError, OverflowError, ValueError):
        return None
    if proc.identity(evidence.pid) != (evidence.pid, evidence.start_ticks):
        os.close(pidfd)
        return None
    return kind(placement, evidence, pidfd)


def evidence_of(pid: int) -> Evidence:
    found = proc.identity(pid)
    if found is None:
        raise ended_early()
    return Evidence(pid=pid, start_ticks=found[1], boot_id=proc.boot_id())


def ended_early() -> Unavailable:
    return Unavailable("the box ended while it started", hint="run `paddock doctor`", code="start")
