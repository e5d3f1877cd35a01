"""The programs Paddock is held against. Those of others are used only where they are installed already."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from benches.figures import Samples, Yardstick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SPAWN = "posix_spawn /bin/true"
_TIMEOUT_S = 60
_ENVIRON = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": os.environ.get("HOME", "/nonexistent")}

# A name and the command that runs `true` in a sandbox of that kind.
SANDBOXES: dict[str, list[str]] = {
    "bwrap": ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
    "srt": ["srt", "true"],
    "codex": ["codex", "sandbox", "linux", "true"],
}


def spawn_true() -> None:
    run(["/bin/true"])


def run(argv: list[str], environ: Mapping[str, str] = _ENVIRON) -> None:
    """As little as can be between us and a program: posix_spawn and wait."""
    pid = os.posix_spawnp(argv[0], argv, environ, file_actions=_QUIET)
    _, status = os.waitpid(pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), argv)


_QUIET = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]


def sandboxes() -> tuple[dict[str, Callable[[], None]], tuple[Yardstick, ...]]:
    """What can be run here, and a line for each that cannot."""
    present: dict[str, Callable[[], None]] = {}
    absent = []
    for name, argv in SANDBOXES.items():
        if why := _why_absent(argv):
            absent.append(Yardstick(name=name, absent=why))
        else:
            present[name] = _runner(argv)
    return present, tuple(absent)


def measured(taken: Mapping[str, Samples], *names: str) -> tuple[Yardstick, ...]:
    """Yardsticks from the same rounds; those not in them are left out."""
    return tuple(Yardstick(name=name, samples=taken[name]) for name in names if name in taken)


def _runner(argv: list[str]) -> Callable[[], None]:
    return lambda: run(argv)


def _why_absent(argv: list[str]) -> str:
    if shutil.which(argv[0], path=_ENVIRON["PATH"]) is None:
        return "not on PATH"
    try:
        done = subprocess.run(
            argv, env=_ENVIRON, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run here: {error}"
    words = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200]
    return f"does not run here: exit {done.returncode}: {words}" if done.returncode else ""
