"""What boxes started from, kept alive in the repositories of the host as long as the box is there (hostrefs.py).

A repository that we may only read keeps nothing for a box, which is no reason not to start it, nor not to remove it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from paddock.errors import PaddockError
from paddock.workspace import gitdir, hostrefs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from paddock.workspace.gitdir import Unit

log = logging.getLogger(__name__)
GIT = "git"  # below a box's directory


def units(directory: str) -> tuple[Unit, ...]:
    """The repositories that a box has twins of, by its own record: its workspace may be gone."""
    private = gitdir.read(f"{directory}/{GIT}")
    return private.units if private else ()


def keep(made: Collection[Unit], directory: str, *, durable: bool) -> None:
    """The twins were made just now."""
    for unit in made:
        with _tolerant(unit, directory):
            hostrefs.keep(unit, os.path.basename(directory), durable=durable)


def keep_on(made: Collection[Unit], directory: str) -> None:
    """A box starts again."""
    for unit in made:
        with _tolerant(unit, directory):
            hostrefs.keep_on(unit, os.path.basename(directory))


def release(directory: str) -> None:
    """A box goes."""
    for unit in units(directory):
        with _tolerant(unit, directory):
            hostrefs.release(unit, os.path.basename(directory))


@contextlib.contextmanager
def _tolerant(unit: Unit, directory: str) -> Iterator[None]:
    try:
        yield
    except (OSError, PaddockError) as error:
        log.info("the base of %s in %s: %s", directory, unit.repository.common_dir, error)
