"""Files that an agent finds in its home: so that it asks nothing which its user has answered by running it in a box.

The home is the box's to write, so it is touched only while nothing of the box runs, no link in it is followed, and what
cannot be read stays as it is. JSON gets the keys that are missing; what the agent or its user said otherwise stands.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from paddock.agents.definition import Seed
    from paddock.runtime.homes import Home

log = logging.getLogger(__name__)
_FILE_BYTES = 4 << 20
_TAIL = re.compile(r"\{tail20:([A-Za-z_][A-Za-z0-9_]*)\}")


def seed(home: Home, one: Seed, workspace: str, environment: Mapping[str, str]) -> None:
    """Into the home of a box that does not run."""
    try:
        if one.json:
            wanted = json.loads(_filled(one.json, workspace, environment))
            rewrite(home, one.path, lambda before: _merged(before, wanted))
        else:
            _write_first(home, one.path, _filled(one.text, workspace, environment))
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s in %s is left as it is: %s", one.path, home, error)


def rewrite(home: Home, path: str, change: Callable[[str], str]) -> None:
    """Give a file of a home another text, or its first; OSError or ValueError when that cannot be."""
    directory, _, name = path.rpartition("/")
    before = _read(home, path).decode("utf-8")
    fd = home.open_directory(directory)
    try:
        after = change(before)
        if after != before:
            _write(fd, name, after.encode())
    finally:
        os.close(fd)


def merged_with(value: object, wanted: object) -> object:
    """`value`, and what of `wanted` it does not say; of lists what is not in them."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        added = {key: merged_with(value[key], item) if key in value else item for key, item in wanted.items()}
        return {**value, **added}
    if isinstance(value, list) and isinstance(wanted, list):
        return [*value, *(item for item in wanted if item not in value)]
    return value


def _merged(before: str, wanted: object) -> str:
    value = json.loads(before) if before.strip() else {}
    merged = merged_with(value, wanted)
    # Not indented: what lies deep in a box's file would come out a thousand times as large, in our memory.
    return before if merged == value and before else json.dumps(merged)


def _write_first(home: Home, path: str, text: str) -> None:
    directory, _, name = path.rpartition("/")
    if home.has(path):
        return
    fd = home.open_directory(directory)
    try:
        _write(fd, name, text.encode())
    finally:
        os.close(fd)


def _filled(text: str, workspace: str, environment: Mapping[str, str]) -> str:
    """Values stand in strings of JSON, or of TOML."""
    filled = _TAIL.sub(lambda found: _quoted(environment.get(found[1], "")[-20:]), text)
    return filled.replace("{workspace}", _quoted(workspace))


def _quoted(value: str) -> str:
    """For both: TOML has no escapes for halves of a character."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _read(home: Home, path: str) -> bytes:
    try:
        return home.read(path, _FILE_BYTES)
    except FileNotFoundError:
        return b""


def _create(directory: int, name: str, data: bytes) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    with open(fd, "wb") as file:
        file.write(data)


def _write(directory: int, name: str, data: bytes) -> None:
    """Whole or not at all; in the place of whatever has the name, which is never opened for writing."""
    fresh = f".{name}.paddock"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=directory)
    _create(directory, fresh, data)
    os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
