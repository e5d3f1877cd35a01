"""Where no overlay can be mounted, a review says so and what to do: by the kernel's word, or for a mount in the way."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from tests.support.installation import PROGRAM
from tests.support.namespaces import MOUNTS, inside, private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.box


def _stacked(place: Path) -> Path:
    """An overlay of an overlay: the kernel stacks no third one on it."""
    for name in ("bottom", "one", "one-work", "two", "two-work", "view", "workspace"):
        (place / name).mkdir()
    (place / "bottom/file").write_text("file\n")
    for lower, layer, target in (("bottom", "one", "view"), ("view", "two", "workspace")):
        options = f"userxattr,lowerdir={place / lower},upperdir={place / layer},workdir={place / layer}-work"
        kernel.mount("overlay", os.fspath(place / target), "overlay", 0, options)
    return place / "workspace"


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    (tmp_path / "home").mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": os.fspath(tmp_path), "PADDOCK_HOME": os.fspath(tmp_path / "home")}

    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAM, *words], cwd=tmp_path / "workspace", env=env, capture_output=True, timeout=60, check=False
        )

    return run


def ended(cli: Callable[..., object], act: Callable[[], None]) -> Callable[[], None]:
    """An act after which no daemon is left."""

    def whole() -> None:
        private_mounts()
        try:
            act()
        finally:
            cli("reset", "-f")
            cli("daemon", "stop")

    return whole


def test_a_review_that_the_kernel_refuses_says_what_is_missing_and_the_other_modes_work(
    tmp_path: Path, cli: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    def act() -> None:
        os.chdir(_stacked(tmp_path))
        done = cli("run", "--review", "--", "cat", "file")
        assert done.returncode == 125, done.stderr
        assert b"no overlay can be mounted over " in done.stderr, done.stderr
        assert b"paddock doctor" in done.stderr
        assert b"--review works" in cli("doctor").stdout, "it is this workspace, and not the kernel"
        done = cli("run", "--", "cat", "file")
        assert (done.returncode, done.stdout) == (0, b"file\n"), done.stderr

    inside(ended(cli, act), MOUNTS, as_id=os.getuid() or 1000)


def test_a_mount_in_the_workspace_is_named_with_what_to_do(
    tmp_path: Path, cli: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    inner = tmp_path / "workspace/deep/inner"
    inner.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()

    def act() -> None:
        for kind, source in (("tmpfs", "none"), (None, os.fspath(tmp_path / "elsewhere"))):
            kernel.mount(source, os.fspath(inner), kind, 0 if kind else kernel.MS_BIND)
            done = cli("run", "--review", "--", "true")
            said = done.stderr.decode()
            assert done.returncode == 2, said
            assert f"error: {inner} is mounted inside the workspace, and a review shows one file system\n" in said
            assert "hint: leave review mode out, or give a directory without mounts; `umount` it" in said
            assert cli("run", "--", "true").returncode == 0, "the oracle: a live box does not mind"
            kernel.unmount(os.fspath(inner))
            assert cli("run", "--review", "--", "true").returncode == 0

    inside(ended(cli, act), MOUNTS, as_id=os.getuid() or 1000)
