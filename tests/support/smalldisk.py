"""Installations on a file system that is soon full."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from tests.support.installation import PROGRAM, Installation, until
from tests.support.nursery import Nursery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Inside(Installation):
    """An installation whose PADDOCK_HOME is a small file system of its own, in a mount namespace of its own."""

    def __init__(self, root: Path, options: str) -> None:
        super().__init__(root)
        script = f"mount -t tmpfs -o {options} tmpfs {self.home} && echo ready && exec sleep 1000"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.seen = type(root)(f"/proc/{self._holder.pid}/root{self.home}")  # the same, from out here

    @property
    def state(self) -> Path:
        return self.seen / "state"

    def command(self, words: tuple[str, ...]) -> list[str]:
        return ["nsenter", "--target", str(self._holder.pid), "--mount", f"--wd={self.workspace}", str(PROGRAM), *words]

    def remount(self, options: str) -> None:
        enter = ["nsenter", "--target", str(self._holder.pid), "--mount"]
        words = [*enter, "mount", "-o", f"remount,{options}", str(self.home)]
        # Refused while a launcher that is about to end has its log open.
        until(lambda: not subprocess.run(words, capture_output=True, check=False).returncode, f"remounted {options}")

    def fill(self) -> None:
        with (self.seen / "filler").open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 512):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def free(self) -> None:
        (self.seen / "filler").unlink()

    def end(self) -> None:
        self._holder.kill()
        self._holder.communicate()


def small_disk(tmp_path: Path, options: str) -> Iterator[Inside]:
    """For a fixture: an installation of which nothing is left."""
    with Nursery() as nursery:
        installation = Inside(tmp_path, options)
        try:
            yield installation
            installation.clear()
            stopped = installation.cli("daemon", "stop")
            assert stopped.returncode == 0, stopped.stderr
        finally:
            installation.end()
        until(lambda: not nursery.living(), f"no process is left: {nursery.named()}")
