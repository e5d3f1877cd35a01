"""Files of a box through the SDK: one small question, and many bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benches.figures import Figure
from benches.timing import interleave, rates
from benches.yardsticks import measured

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 300
BULK_ROUNDS = 7
SIZE_BYTES = 64 * 1024 * 1024
STAT, READ, WRITE = "os.stat", "read by open()", "write by open()"


def measure(installation: Installation) -> list[Figure]:
    path, target = f"{installation.workspace}/file", f"{installation.workspace}/written"
    data = bytes(SIZE_BYTES)
    with open(path, "wb") as file:
        file.write(data)
    with installation.box("files") as box:
        stats = interleave({"stat": lambda: box.files.stat(path), STAT: lambda: os.stat(path)}, ROUNDS)
        spent = interleave(
            {
                "read": lambda: box.files.read(path),
                READ: lambda: _read(path),
                "write": lambda: box.files.write(target, data),
                WRITE: lambda: _write(target, data),
            },
            BULK_ROUNDS,
            warm=1,
        )
    taken = rates(spent, SIZE_BYTES)
    return [
        Figure(
            name="files_stat",
            what="files.stat (SDK)",
            unit="ms",
            samples=stats["stat"],
            yardsticks=measured(stats, STAT),
        ),
        Figure(
            name="files_read",
            what=f"files.read of {SIZE_BYTES >> 20} MiB (SDK)",
            unit="MB/s",
            samples=taken["read"],
            yardsticks=measured(taken, READ),
        ),
        Figure(
            name="files_write",
            what=f"files.write of {SIZE_BYTES >> 20} MiB (SDK)",
            unit="MB/s",
            samples=taken["write"],
            yardsticks=measured(taken, WRITE),
        ),
    ]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
