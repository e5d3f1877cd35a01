"""Forks of processes with threads, as every test has: a raw clone may leave locks of the C library held in it."""

from __future__ import annotations

import os
import warnings


def forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons, about that very thing
        return os.fork()
