"""Directories that boxes bind read-only: filled aside, published by rename, kept while a box may still show them.

A generation is named after the boot and its content, so equal content is written once and a half-written one has no
name. Files are not synced, which would cost more than writing them: after a power cut a name could stand for empty
files, so a generation of another boot is never used again; no box of that boot is left to miss it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Final

from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Filler = Callable[[str], None]

KEPT: Final = 16  # of this boot; a box whose generation is removed under it sees an empty directory
ABANDONED_S: Final = 3600.0  # no build takes this long: its process died
_STAGED: Final = ".new-"
_NAME: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{24}\Z")


def path_of(directory: str, digest: str) -> str:
    """Where the generation with this content is, or would be."""
    return os.path.join(directory, f"{boot()}-{digest[:24]}")


def publish(directory: str, digest: str, fill: Filler, *, keep: Collection[str] = ()) -> str:
    """The generation for `digest`, filled now unless it exists. Paths in `keep` outlive every newer generation."""
    path = path_of(directory, digest)
    if os.path.isdir(path):
        os.utime(path)  # it is the newest again
        return path
    with _said_plainly(path):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        staged = tempfile.mkdtemp(prefix=_STAGED, dir=directory)
        try:
            fill(staged)
            os.chmod(staged, 0o755)
            os.rename(staged, path)
        except OSError:
            if not os.path.isdir(path):  # otherwise another process was first, with the same content
                raise
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    _prune(directory, {path, *keep})
    return path


def write(path: str, data: bytes, mode: int = 0o644) -> None:
    """A new file with exactly this mode, whatever the umask: the box's uid may be another than the writer's."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        os.fchmod(fd, mode)


def replace(path: str, data: bytes) -> None:
    """The file at `path` holds `data` or what it held before, for every reader at every moment."""
    with _said_plainly(path):
        fd, staged = tempfile.mkstemp(prefix=_STAGED, dir=os.path.dirname(path))
        try:
            with open(fd, "wb") as file:
                file.write(data)
            os.rename(staged, path)
        except OSError:
            os.unlink(staged)
            raise


@contextlib.contextmanager
def _said_plainly(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise Unavailable(
            f"cannot write {path}: {why}", hint="check the space and the owner", code="storage"
        ) from error


@functools.cache
def boot() -> str:
    """Eight hex digits that no other boot of this machine has."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(8)
    except OSError:
        return "0" * 8


def _prune(directory: str, keep: Collection[str]) -> None:
    mine: list[tuple[float, str]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                changed = entry.stat(follow_symlinks=False).st_mtime
            except FileNotFoundError:
                continue  # another process prunes too
            abandoned = entry.name.startswith(_STAGED) and time.time() - changed > ABANDONED_S
            if abandoned or (_NAME.match(entry.name) and not entry.name.startswith(boot())):
                _remove(entry.path)
            elif _NAME.match(entry.name):
                mine.append((changed, entry.path))
    for _, path in sorted(mine, reverse=True)[KEPT:]:
        if path not in keep:
            _remove(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)
