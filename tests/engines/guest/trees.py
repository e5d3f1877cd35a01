"""Trees and names that programs trip over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STRANGE = os.fsdecode(b"caf\xe9 \xff\n\x1b[31m\"'")


def deepen(directory: Path, levels: int) -> None:
    """Directories in directories, deeper than any path can say."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
