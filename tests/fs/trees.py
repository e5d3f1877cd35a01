"""Trees to walk: deep, odd, closed."""

from __future__ import annotations

import os

ODD_NAMES = ("line\nbreak", "\x1b[2J", "\udcff\udcfe", "-rf", "\u202egnp", "x" * 255, " ", "*")


def make_deep(path: str, levels: int, name: str = "d") -> None:
    """A chain of directories with a file in each, far beyond any path length."""
    os.mkdir(path)
    at = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
        os.close(os.open("file", os.O_CREAT, 0o600, dir_fd=at))
    os.close(at)


def make_odd(path: str) -> None:
    """Every kind of entry an ordinary user can make, under names that trip scripts."""
    os.mkdir(path)
    for number, name in enumerate(ODD_NAMES):
        os.mkdir(f"{path}/{name}")
        for inner in ODD_NAMES[number:]:
            with open(f"{path}/{name}/{inner}", "xb") as file:
                file.write(b"x" * 5000)
    os.mkfifo(f"{path}/fifo")
    os.symlink("/", f"{path}/link")
    os.symlink("missing", f"{path}/dangling")
    os.symlink(".", f"{path}/loop")
    os.link(f"{path}/-rf/{ODD_NAMES[-1]}", f"{path}/hard")


def close_all(path: str, mode: int) -> None:
    """Give every directory below and including `path` a mode, deepest first."""
    for directory, _, _ in os.walk(path, topdown=False):
        os.chmod(directory, mode)
