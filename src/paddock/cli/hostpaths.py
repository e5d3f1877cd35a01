"""Host paths as the caller of a command means them; beside trees that boxes write, as fs/resolving.py opens them."""

from __future__ import annotations

import os

from paddock.errors import UserError
from paddock.fs.resolving import open_resolved, resolve

__all__ = ["open_resolved", "place", "resolve"]


def place(word: str) -> str:
    """A host path as the caller means it: relative to where they are, ~ is their home."""
    try:
        return os.path.abspath(os.path.expanduser(word))
    except FileNotFoundError as error:
        hint = "go to a directory that exists"
        raise UserError("the current directory was removed", hint=hint, code="no-cwd") from error
