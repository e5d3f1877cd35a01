"""Real overlays to review: what a box does to its workspace, done by a child over a mount the kernel makes."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.engines.process import kernel
from tests.support.namespaces import MOUNTS, inside, private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPTIONS = "userxattr,lowerdir={0}/base,upperdir={0}/upper,workdir={0}/work"


@dataclass(frozen=True, slots=True)
class World:
    """base/ is the user's project, upper/ what the box changed; box(act) runs act in the box's view of the project."""

    root: Path

    @property
    def base(self) -> Path:
        return self.root / "base"

    @property
    def upper(self) -> Path:
        return self.root / "upper"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def box(self, act: Callable[[], None], flags: int = MOUNTS) -> None:
        """Mount the overlay afresh in a child, in a user namespace as boxes do, go there and act."""

        def mounted() -> None:
            private_mounts()
            os.chdir(self.root)
            kernel.mount("overlay", "view", "overlay", 0, _OPTIONS.format("."))
            os.chdir("view")
            act()

        inside(mounted, flags)

    def view(self) -> dict[str, str]:
        """What the box sees, file by file, as the kernel shows it."""
        read, write = os.pipe()

        def look() -> None:
            os.close(read)
            with open(write, "w", encoding="utf-8", errors="surrogateescape") as pipe:
                pipe.writelines(f"{path}\0{text}\0\0" for path, text in tree(".").items())

        self.box(look)
        os.close(write)
        with open(read, encoding="utf-8", errors="surrogateescape") as pipe:
            rows = pipe.read().split("\0\0")
        return {path: text for path, _, text in (row.partition("\0") for row in rows if row)}

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[int, int]]:
        """Descriptors of the upper and the base."""
        upper = os.open(self.upper, os.O_RDONLY | os.O_DIRECTORY)
        base = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield upper, base
        finally:
            os.close(upper)
            os.close(base)


def make(root: Path, files: dict[str, str]) -> World:
    for name in ("base", "upper", "work", "view", "state"):
        (root / name).mkdir(mode=0o755)
    (root / "state").chmod(0o700)
    for path, text in files.items():
        place = root / "base" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8", "surrogateescape")
    return World(root)


def tree(root: str | Path) -> dict[str, str]:
    """Every entry below, with the text of a file, `-> target` of a link, `/` for a directory."""
    found = {}
    top = os.fspath(root)
    for directory, dirs, files in os.walk(top):
        for name in [*dirs, *files]:
            place = os.path.join(directory, name)
            path = os.path.relpath(place, top)
            if os.path.islink(place):
                found[path] = f"-> {os.readlink(place)}"
            elif os.path.isdir(place):
                found[path] = "/"
            elif os.path.isfile(place):
                with open(place, encoding="utf-8", errors="surrogateescape") as file:
                    found[path] = file.read()
            else:
                found[path] = "?"
    return found


def write(path: str, text: str) -> None:
    if directory := os.path.dirname(path):
        os.makedirs(directory, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
