"""The lock file of a build: what each FROM was, what each step was made from, and what came of it all."""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING, Final

from paddock import codec, fs
from paddock.cli import hostpaths
from paddock.errors import PaddockError, UserError
from paddock.model.build import LockInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.build import LockedBase, LockedStep

_VERSION: Final = 1
_BYTES: Final = 1 << 22
_HEAD: Final = "# Written by `paddock template build --lock`; `--locked` refuses what differs.\n"


def write(path: str, lock: LockInfo, trees: Sequence[str] = ()) -> None:
    """`trees` are those that boxes write, here and below: no link in them is followed."""
    digest = f"digest = {_quoted(lock.digest)}\n"
    parts = [f"{_HEAD}version = {_VERSION}\n{digest}", *map(_base, lock.bases), *map(_step, lock.steps)]
    folder, name = os.path.split(hostpaths.resolve(path, trees))
    try:
        directory = hostpaths.open_resolved(folder, trees, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", code="lock") from error
    try:
        fs.write_atomic(f"/proc/self/fd/{directory}/{name}", "\n".join(parts).encode(), mode=0o644)
    finally:
        os.close(directory)


def read(path: str, trees: Sequence[str] = ()) -> LockInfo:
    try:
        fd = hostpaths.open_resolved(hostpaths.resolve(path, trees), trees, os.O_RDONLY)
        with open(fd, "rb") as file:
            found = tomllib.loads(file.read(_BYTES).decode())
        if found.pop("version", None) != _VERSION:
            raise UserError("it is of another version", code="lock")
        keys = {"bases": found.pop("base", []), "steps": found.pop("step", [])}
        return codec.from_wire(LockInfo, {**keys, **found})
    except FileNotFoundError:
        hint = "write one with --lock FILE"
        raise UserError(f"there is no lock file {path}", hint=hint, code="lock") from None
    except (OSError, ValueError, RecursionError, PaddockError) as error:
        raise UserError(f"the lock file {path} cannot be read: {error}", code="lock") from error


def _base(base: LockedBase) -> str:
    return f"[[base]]\nname = {_quoted(base.name)}\ndigest = {_quoted(base.digest)}\n"


def _step(step: LockedStep) -> str:
    return f"[[step]]\nline = {step.line}\ndoes = {_quoted(step.does)}\nkey = {_quoted(step.key)}\n"


def _quoted(text: str) -> str:
    """A basic string of TOML is one of JSON, but for what may stand in it as it is."""
    return json.dumps(text).replace("\x7f", "\\u007f")
