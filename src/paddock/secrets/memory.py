"""The memory of a process that holds values: no core dump of it, and no other process of its user looks into it."""

from __future__ import annotations

import os
import resource

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """For good, for this process and its threads; a program that it starts is as usual again. OSError if it fails."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def leave_no_core() -> None:
    """For this process and, unlike the other, for what it starts: their memory is never written down.

    One byte is too little for a file, and tells the kernel to start no program that would collect it (core(5)), which
    a limit of none does not.
    """
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    limit = 1 if most == resource.RLIM_INFINITY else min(most, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
