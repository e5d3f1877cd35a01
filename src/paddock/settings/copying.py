"""Copies chosen files of a home to a directory of ours, and says which were left out and why.

Regular files only, and no link is followed: what a link leads to was not chosen. A file whose name or content looks
like a credential stays where it is, as do histories and databases. What is copied is bounded in number, size and depth.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
from typing import Final

from paddock import fs
from paddock.engines.process.credentials import looks_like_one
from paddock.limits import SETTINGS_BYTES, SETTINGS_DEPTH_MAX, SETTINGS_FILE_BYTES, SETTINGS_FILES_MAX
from paddock.secrets import looks
from paddock.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NEVER: Final = re.compile(
    r"(?i)\.?history(?:[._-].*)?|.*_history|.*\.(?:jsonl|log|sqlite3?|db)(?:-(?:wal|shm))?|\.git|node_modules"
)
_LOOKS: Final = 8  # entries that are looked at for each that may be copied
_SHOWN: Final = 5  # names in a warning


@dataclass(slots=True, kw_only=True)
class Copied:
    paths: list[str] = field(default_factory=list)  # of those that were chosen, what there is a copy of
    looked_at: int = 0
    files: int = 0
    size_bytes: int = 0
    left_out: dict[str, list[str]] = field(default_factory=dict)  # names by why

    def leave(self, path: str, why: str) -> None:
        self.left_out.setdefault(why, []).append(path)

    def warnings(self) -> list[str]:
        said = []
        for why, paths in self.left_out.items():
            shown = ", ".join(neutralise(path, 80) for path in paths[:_SHOWN])
            more = f" and {len(paths) - _SHOWN} more" if paths[_SHOWN:] else ""
            said.append(f"settings left out ({why}): {shown}{more}")
        return said


def copy(home: str, paths: Sequence[str], place: str) -> Copied:
    """`place` is a new directory. What is not there is no error: few people have all settings of an agent."""
    found = Copied()
    top = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in [one for one in paths if not any(one.startswith(f"{other}/") for other in paths)]:
            before = found.files
            _entry(top, path, place, found, depth=0)
            if found.files > before:
                found.paths.append(path)
    finally:
        os.close(top)
    return found


def _entry(top: int, path: str, place: str, found: Copied, *, depth: int) -> None:
    name = path.rpartition("/")[2]
    found.looked_at += 1
    if looks_like_one(name):
        found.leave(path, "named as credentials are")
    elif _NEVER.fullmatch(name):
        found.leave(path, "no settings")
    elif (
        depth > SETTINGS_DEPTH_MAX or found.files >= SETTINGS_FILES_MAX or found.looked_at > _LOOKS * SETTINGS_FILES_MAX
    ):
        found.leave(path, "too many")
    else:
        _opened_entry(top, path, place, found, depth=depth)


def _opened_entry(top: int, path: str, place: str, found: Copied, *, depth: int) -> None:
    try:
        fd = fs.open_beneath(top, path, os.O_RDONLY)
    except FileNotFoundError:
        return
    except OSError:
        found.leave(path, "a link, or no plain file")
        return
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            names = sorted(os.listdir(fd))
        else:
            _file(fd, status, path, place, found)
            return
    finally:
        os.close(fd)
    for inner in names:
        _entry(top, f"{path}/{inner}", place, found, depth=depth + 1)


def _file(fd: int, status: os.stat_result, path: str, place: str, found: Copied) -> None:
    with open(fd, "rb", closefd=False) as source:
        data = source.read(SETTINGS_FILE_BYTES + 1)
    if len(data) > SETTINGS_FILE_BYTES or found.size_bytes + len(data) > SETTINGS_BYTES:
        found.leave(path, "too large")
        return
    if not _is_clean(path, data):
        found.leave(path, "something in it looks like a credential")
        return
    target = f"{place}/{path}"
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(copy, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
    found.files += 1
    found.size_bytes += len(data)


def _is_clean(path: str, data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    if looks.has_token(text):
        return False
    if not path.endswith(".json"):
        return True
    try:
        return not looks.in_values(json.loads(text))
    except (ValueError, RecursionError):
        return False  # nobody can say what its strings are
