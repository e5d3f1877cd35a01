"""Checkpoints without room: what cannot be done is said, and nothing that was there is lost."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.smalldisk import Inside, small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.box, pytest.mark.privileged]
SIZE_MIB = 240


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    yield from small_disk(tmp_path, f"size={SIZE_MIB}m,mode=700")


def said(inside: Inside, *words: str) -> str:
    done = inside.cli(*words)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.decode()


def refused(inside: Inside, *words: str) -> None:
    done = inside.cli(*words)
    assert done.returncode == 125, (words, done)
    assert re.search(rb"^error: .*(space|disk|room)", done.stderr, re.MULTILINE | re.IGNORECASE), done.stderr
    assert b"hint: free some" in done.stderr


def frozen(inside: Inside) -> list[str]:
    return os.listdir(inside.state / "layers/frozen")


def test_a_full_disk_is_said_and_loses_nothing(inside: Inside) -> None:
    said(inside, "create", "--name", "demo", "shell", ".")
    said(inside, "exec", "demo", "sh", "-c", "echo one > ~/file")
    inside.fill()
    refused(inside, "checkpoint", "create", "demo", "first")
    refused(inside, "checkpoint", "fork", "demo")
    inside.free()
    assert said(inside, "exec", "demo", "sh", "-c", "cat ~/file") == "one\n"
    assert frozen(inside) == []
    said(inside, "checkpoint", "create", "demo", "first")
    said(inside, "exec", "demo", "sh", "-c", "echo two > ~/file")
    inside.fill()
    done = inside.cli("checkpoint", "restore", "demo@first")
    inside.free()
    wanted = "one\n" if done.returncode == 0 else "two\n"
    assert said(inside, "exec", "demo", "sh", "-c", "cat ~/file") == wanted, done
    said(inside, "checkpoint", "restore", "demo@first")
    assert said(inside, "exec", "demo", "sh", "-c", "cat ~/file") == "one\n"


def test_a_copy_for_which_there_is_no_room_leaves_nothing(inside: Inside) -> None:
    said(inside, "create", "--name", "demo", "--review", "shell", ".")
    said(inside, "exec", "demo", "touch", "large")
    said(inside, "stop", "demo")
    [box] = (inside.state / "boxes").iterdir()
    with (box / "review/upper/large").open("wb") as file:  # by us: a box that fills the disk is ended
        for _ in range(SIZE_MIB // 2 + 20):
            file.write(b"x" * (1 << 20))
    before = said(inside, "exec", "demo", "sha256sum", "large")
    refused(inside, "checkpoint", "create", "demo", "first")
    assert frozen(inside) == []
    assert said(inside, "exec", "demo", "sha256sum", "large") == before
    assert "no checkpoints" in inside.cli("checkpoint", "ls").stderr.decode()
    said(inside, "exec", "demo", "rm", "large")
    said(inside, "checkpoint", "create", "demo", "first")
