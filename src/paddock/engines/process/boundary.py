"""Which host directories a box may be shown at all, whoever asks for them."""

from __future__ import annotations

import functools
import grp
import os
import pwd
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# The box has its own there, or what lies there cannot run in it.
_RESERVED: Final = ("/boot", "/dev", "/etc", "/proc", "/run", "/snap", "/sys", "/var/lib/snapd", "/var/run")
_SECRET: Final = frozenset(
    (
        *(".ssh", ".aws", ".gnupg", ".config", ".kube", ".docker", ".azure", ".gcloud", ".oci", ".m2", ".gradle"),
        *(".password-store", ".mozilla", ".thunderbird", ".terraform.d", ".vault", ".subversion", ".gem", ".android"),
        *(".claude", ".codex", ".gemini", ".copilot", ".cursor", ".kiro", ".1password", ".op", ".pki"),
        *("keyrings", "kwalletd"),
    )
)


def is_below(path: str, places: Iterable[str]) -> bool:
    """Is `path` one of `places` or inside one? By name: both are normal and absolute."""
    return any(path == place or path.startswith(place + "/") for place in places)


class Boundary:
    """`homes` are the names of the caller's home; an empty tuple protects none."""

    def __init__(self, homes: tuple[str, ...]) -> None:
        self.homes = homes
        self._steady: dict[str, bool] = {}

    def allows(self, path: str, *, known: bool = False) -> bool:
        """False for the home and its parents, for what the box has of its own, and for directories of secrets.

        `known` says that the table of toolchains names this very place, which opens a directory of secrets that far.
        """
        if path == "/" or is_below(path, _RESERVED) or any(is_below(home, [path]) for home in self.homes):
            return False
        return known or _SECRET.isdisjoint(self._inside(path).split("/"))

    def trusts(self, path: str) -> bool:
        """False if someone else could have written the directory, or could put another in its place."""
        try:
            return not os.stat(path).st_mode & stat.S_IWOTH and self._is_steady(path)
        except OSError:
            return False

    def _inside(self, path: str) -> str:
        return next((path.removeprefix(home) for home in self.homes if is_below(path, [home])), path)

    def _is_steady(self, path: str) -> bool:
        """Ours, like every directory and every link on the way to it; of the home nothing is asked."""
        if path == "/" or path in self.homes:
            return True
        if path not in self._steady:
            self._steady[path] = _is_ours(os.lstat(path)) and self._is_steady(os.path.dirname(path))
        return self._steady[path]


def _is_ours(status: os.stat_result) -> bool:
    """Root's or the caller's, and nobody else can replace names in it (the sticky bit sees to that)."""
    if status.st_uid not in {0, os.getuid()}:
        return False
    if status.st_mode & stat.S_ISVTX or stat.S_ISLNK(status.st_mode):
        return True
    shared = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid)
    return not (status.st_mode & stat.S_IWOTH or shared)


@functools.cache
def _is_private_group(gid: int) -> bool:
    """Root's group, or the caller's own group of one: distributions create it with the user's name or id."""
    if gid in {0, os.getuid()}:
        return True
    try:
        return gid == os.getgid() and grp.getgrgid(gid).gr_name == pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
