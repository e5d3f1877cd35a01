"""A file system that finds files by any spelling of their names, and an ordinary user's installation on it.

NTFS as lowntfs-3g serves it: the one kind that a kernel without case folding can mount. Only root may mount it, and a
root caller's boxes cannot be on it (it maps no owners), so Paddock runs there as somebody else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.installation import ROOT, Installation, until

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = 61_235  # belongs to no account
_OPTIONS = "ignore_case,permissions,default_permissions,allow_other"
_BECOME = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[Path]:
    """An empty one, which belongs to USER; skips the test where there is none to be had."""
    serve = shutil.which("lowntfs-3g")
    if serve is None or os.getuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no file system that ignores case: needs root, /dev/fuse and lowntfs-3g (ntfs-3g)")
    image, point = directory / "image", directory / "caseless"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    _do("mkntfs", "--fast", "--force", "--quiet", os.fspath(image))
    _do(serve, "-o", _OPTIONS, os.fspath(image), os.fspath(point))
    try:
        os.chown(point, USER, USER)
        yield point
    finally:
        until(lambda: subprocess.run(["umount", point], capture_output=True, check=False).returncode == 0, "unmounted")


def _do(*argv: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30)
    assert done.returncode == 0, (argv, done.stderr)


class Ordinary(Installation):
    """Paddock as USER has it: a copy of the program, for ours may lie where nobody else may look."""

    is_open_to_us = False

    def __init__(self, root: Path) -> None:
        self._program = root / "paddock"
        shutil.copy(ROOT / "paddock", self._program)
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        super().__init__(root)
        self.environ |= {"HOME": os.fspath(root), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        for directory, _, _ in os.walk(root):
            os.chown(directory, USER, USER)

    def command(self, words: tuple[str, ...]) -> list[str]:
        return [*_BECOME, os.fspath(self._program), *words]

    def host(self, script: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
        """What the user does outside of any box."""
        return subprocess.run(
            [*_BECOME, "/bin/sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=cwd,
            env=self.environ,
            timeout=60,
            check=False,
        )


@contextlib.contextmanager
def ordinary() -> Iterator[Ordinary]:
    root = Path(tempfile.mkdtemp(prefix="p.", dir="/var/tmp"))  # a test's own directory lets nobody else in
    try:
        root.chmod(0o755)
        installation = Ordinary(root)
        yield installation
        installation.close()
    finally:
        shutil.rmtree(root)
