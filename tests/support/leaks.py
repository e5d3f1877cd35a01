"""Looking for secrets where they must not be: each in every form in which a careless program might have written it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KEPT = ".value"  # where a value is kept, for its owner alone


def forms(value: str) -> set[bytes]:
    """As it is, in hexadecimal, for a URL, and in base64 wherever it begins in what was encoded."""
    raw = value.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode(), quote(value, safe="").encode()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode()
        whole = text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]  # without what shares a character with others
        found |= {whole.encode(), whole.replace("+", "-").replace("/", "_").encode()}
    return found


class Search:
    """For several values at once; what it is given is named in what it finds."""

    def __init__(self, values: Iterable[str]) -> None:
        self._needles = tuple({form for value in values for form in forms(value)})

    def has(self, data: bytes) -> bool:
        return any(needle in data for needle in self._needles)

    def files(self, root: Path) -> list[str]:
        """Files below `root` with a value in them, or in their name, but for those in which values are kept."""
        found = []
        for path in root.rglob("*"):
            if self.has(str(path.relative_to(root)).encode()) or (path.suffix != KEPT and self.has(_read(path))):
                found.append(str(path))
        return found

    def processes(self, *, without: Sequence[int] = ()) -> list[str]:
        """What of /proc has one: arguments, environments, names."""
        return [
            str(path)
            for directory in Path("/proc").iterdir()
            if directory.name.isdigit() and int(directory.name) not in without
            for path in _told(directory)
            if self.has(_read(path))
        ]


def _told(directory: Path) -> Iterator[Path]:
    return (directory / name for name in ("cmdline", "environ", "comm"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError:
        return b""  # gone meanwhile, or not ours to read: then it is nobody's of ours
