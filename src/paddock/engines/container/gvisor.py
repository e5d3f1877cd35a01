"""gVisor: the runtime that puts a kernel of its own under a box, and what it has to be told.

It opens no socket of the host's for the box, whether one lies in the workspace or elsewhere (`--host-uds` is left at
none): init is handed its clients by the keeper (guest/sleep.py). Files go through a process beside the kernel, by name
and in the mounts that we made (`--directfs=false`: the kernel itself would hold their directories, in which names that
masks and `.git` are pinned by can be renamed), and are looked at anew each time (`shared`: the host writes there too).
"""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass
from typing import Final, Literal

from paddock import proc
from paddock.engines.process.warm import package_root
from paddock.errors import Unavailable

NAME: Final = "runsc"
FLOOR: Final = 20240729  # the oldest that was tried and holds; Debian 12's own of 2022 lacks half of the options below
BOX: Final = "box"  # what the runtime calls it
MEMORY: Final = "memory"  # beside a box's changes: what its kernel holds, saved
_VERSION: Final = re.compile(rb"runsc version \S*?(20\d{6})\b")
_VERSION_S: Final = 10.0
_TRY: Final = """
import sys; sys.path.insert(0, sys.argv[1])
from paddock.engines.container import link
link.try_out()
"""
_TRY_S: Final = 20.0
_OPTIONS: Final = (
    *("--platform=systrap", "--ignore-cgroups", "--overlay2=none", "--directfs=false", "--file-access=shared"),
    "--dcache=0",  # a name that it kept open would stay uncovered when the host has replaced it and we cover it again
    "--net-disconnect-ok=true",  # connections end when a box is saved; without it one that is open forbids saving
)

Network = Literal["link", "host", "none"]
_WORDS: Final[dict[Network, str]] = {"link": "sandbox", "host": "host", "none": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What the keeper and the saver have the runtime do, with the bundle at `place`."""

    program: str
    place: str
    network: Network
    alone: bool = False  # the box has one id: the kernel cannot be nobody

    def _words(self, verb: str, *rest: str) -> tuple[str, ...]:
        alone = ("--rootless",) if self.alone else ()
        way = f"--network={_WORDS[self.network]}"
        whole = ("--root", f"{self.place}/state", *_OPTIONS, *alone, way, verb, *rest)
        return (self.program, *whole, BOX)

    def run(self) -> tuple[str, ...]:
        return self._words("run", *self._bundle(), "--pass-fd=3:3", "--pass-fd=4:4")

    def restore(self, image: str) -> tuple[str, ...]:
        return self._words("restore", *self._bundle(), f"--image-path={image}")

    def save(self, image: str) -> tuple[str, ...]:
        return self._words("checkpoint", "--compression=none", f"--image-path={image}")

    def wake(self, envoy: tuple[str, ...]) -> tuple[str, ...]:
        return (*self._words("exec", "--user=0:0", "--pass-fd=3:3"), *envoy)

    def _bundle(self) -> tuple[str, ...]:
        return "--detach", f"--bundle={self.place}", f"--pid-file={self.place}/pid"


def network(*, sealed: bool, needs_loopback: bool, has_ids: bool) -> Network:
    """A stack of its own by a link, or the sealed network's itself, where the box's loopback must be the gateway's too,
    or the box has one id, or the kernel no links; then its memory cannot be saved.
    """
    if not sealed:
        return "none"
    return "host" if needs_loopback or not has_ids or not has_links() else "link"


@functools.cache
def has_links() -> bool:
    """Tried in a process of its own: it makes namespaces."""
    done = proc.run([sys.executable, "-I", "-S", "-c", _TRY, package_root()], env={}, timeout_s=_TRY_S, cwd="/")
    return done.code == 0


def check(program: str) -> None:
    """Unavailable when this runsc is older than what a box needs."""
    found = version(program)
    if found < FLOOR:
        raise Unavailable(
            f"runsc of {found} at {program} is too old" if found else f"{program} does not say its version",
            hint=f"a gVisor box needs release {FLOOR} or newer; Debian 12 has it in bookworm-backports",
            code="old-runtime",
        )


def version(program: str) -> int:
    """The day of its release, as a number; 0 if it does not say."""
    status = os.stat(program)
    return _version(program, status.st_mtime_ns, status.st_size)


@functools.lru_cache(8)
def _version(program: str, _changed_ns: int, _size_bytes: int) -> int:
    done = proc.run([program, "--version"], env={}, timeout_s=_VERSION_S, cwd="/")
    found = _VERSION.search(done.stdout)
    return int(found[1]) if found else 0
