"""Where a build reads: its directory, its Dockerfile and what that leaves out.

All of it may lie in a workspace that a box has at this moment. In such a tree no link is followed, not even on the way
to the directory that the user names: it would be another one than is meant (fs/resolving.py).
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from paddock import fs, guard, limits
from paddock.errors import UserError
from paddock.fs import resolving
from paddock.images.sources import Directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.build import BuildRequest
    from paddock.runtime.core import Runtime

_IGNORE: Final = ".dockerignore"


@contextlib.contextmanager
def opened(runtime: Runtime, path: str, own: str) -> Iterator[int]:
    """A descriptor of the build directory; `own` is ours, in which nothing is."""
    trees: list[str] = []
    real = path
    if path != own:
        _check(runtime, path)
        trees = _trees(runtime)
        real = resolving.resolve(path, trees)
        _check(runtime, real)
    try:
        fd = resolving.open_resolved(real, trees, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        message = f"cannot build in {real}: {error.strerror}"
        raise UserError(message, hint="give a directory", code="bad-build") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _check(runtime: Runtime, path: str) -> None:
    guard.check_source(path, home=runtime.home, state_dirs=runtime.paths.private, what="build directory")


def _trees(runtime: Runtime) -> list[str]:
    """In which boxes can put links, those that do not run as well."""
    specs = [box.row.spec for box in [*runtime.boxes.values()]]
    mounts = {mount.source for spec in specs for mount in spec.mounts if not mount.read_only}
    return sorted({spec.workspace for spec in specs} | mounts)


def ignored(directory: int) -> bytes:
    """The .dockerignore of a build directory."""
    return _read(Directory(directory).open, _IGNORE)


def dockerfile(runtime: Runtime, order: BuildRequest, directory: int) -> bytes:
    """The one in the build directory, or where else its user says that it is."""
    if not order.dockerfile or fs.is_beneath(order.dockerfile, order.directory):
        name = os.path.relpath(order.dockerfile, order.directory) if order.dockerfile else "Dockerfile"
        return _read(Directory(directory).open, name)
    trees = _trees(runtime)
    try:
        real = resolving.resolve(order.dockerfile, trees)
    except ValueError as error:  # no path at all
        raise UserError(f"{order.dockerfile[:80]!r} is no file", hint="name one with -f", code="bad-build") from error
    return _read(lambda path: resolving.open_resolved(path, trees, os.O_RDONLY), real)


def _read(opening: Callable[[str], int], name: str) -> bytes:
    """A small file."""
    try:
        fd = opening(name)
    except FileNotFoundError as error:
        if name == _IGNORE:
            return b""
        raise UserError(f"there is no {name} to build", hint="name one with -f", code="bad-build") from error
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise UserError(message, hint="it must be a file, and no link", code="bad-build") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UserError(f"{name} is no file", hint="name one with -f", code="bad-build")
    with open(fd, "rb") as file:
        return file.read(limits.DOCKERFILE_BYTES + 1)
