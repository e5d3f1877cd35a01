"""The memory of a process that holds values: no core dump of it, and no other process of its user looks into it."""

from __future__ import annotations

import os

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """For good, for this process and its threads; a program that it starts is as usual again. OSError if it fails."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
