"""Installations on the two kinds of machine there are: one that gives us cgroups, and one that does not.

The second is everybody's but root's on a machine without delegation. Root sees it through a daemon that was started in
a mount namespace of its own, where an empty directory lies over the cgroup trees.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from paddock.model import Enforcement
from tests.support.installation import IS_ROOT, PROGRAM, Installation

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock

PYTHON = "/usr/bin/python3"
_HIDE = 'mount -t tmpfs none /sys/fs/cgroup && exec "$0" daemon start'


class World(Installation):
    """An installation, and whether the kernel counts the memory of its boxes."""

    def __init__(self, root: Path, *, hide_cgroups: bool = False) -> None:
        super().__init__(root)
        self.hides_cgroups = hide_cgroups
        if hide_cgroups and IS_ROOT:
            self.start_without_cgroups()
        with self.sdk() as sdk, sdk.create("probe", workspace=str(self.workspace)) as box:
            self.has_cgroups = box.refresh().limits[0].enforcement is Enforcement.KERNEL

    def start_without_cgroups(self) -> None:
        subprocess.run(
            ["unshare", "--mount", "sh", "-c", _HIDE, str(PROGRAM)],
            env=self.environ,
            stdout=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )

    def python(self, code: str, *options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
        """A program in a box of its own, with its environment."""
        given = [word for key, value in (env or {}).items() for word in ("-e", f"{key}={value}")]
        return self.cli("run", *options, *given, "--", PYTHON, "-c", code)

    def box(self, name: str) -> dict[str, object]:
        done = self.cli("inspect", "--json", name)
        assert done.returncode == 0, done.stderr
        (info,) = json.loads(done.stdout)
        assert isinstance(info, dict)
        return info

    def enforcement(self, name: str) -> dict[str, str]:
        rows = self.box(name)["limits"]
        assert isinstance(rows, list)
        return {row["name"]: row["enforcement"] for row in rows}


def init_pid(sdk: Paddock, name: str) -> int:
    pid = sdk.get(name).info.pid
    assert pid is not None, f"{name} does not run"
    return pid
