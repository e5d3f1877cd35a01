"""A review of a large workspace opens as fast as a live box of it, or nearly: nothing is copied or looked through."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest

from paddock.model import WorkspaceMode
from tests.boxes.test_review import on, said

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = [pytest.mark.box, pytest.mark.soak, pytest.mark.timeout(300)]

FILES, PER_DIRECTORY = 50_000, 50
ROUNDS = 15
COST_S_MAX = 0.020


@pytest.fixture
def large(installation: Installation) -> Path:
    place = installation.workspace / "large"
    for number in range(FILES // PER_DIRECTORY):
        directory = place / f"{number // 100}" / f"{number}"
        directory.mkdir(parents=True)
        for name in range(PER_DIRECTORY):
            (directory / f"{name}.txt").write_bytes(b"x" * 100)
    return place


def opened_s(paddock: Paddock, place: Path, mode: WorkspaceMode) -> float:
    box = on(paddock, place, mode)
    started = time.perf_counter()
    said(box, "cat 0/0/0.txt > /dev/null; echo changed > 1/100/1.txt")
    taken = time.perf_counter() - started
    box.remove(force=True)
    return taken


def test_a_review_of_fifty_thousand_files_opens_within_twenty_milliseconds_of_a_live_box(
    paddock: Paddock, large: Path, installation: Installation
) -> None:
    """Of a small one, at that: a live box looks for repositories inside its workspace."""
    small = installation.workspace / "small"
    for name in ("0/0", "1/100"):
        (small / name).mkdir(parents=True)
    (small / "0/0/0.txt").touch()
    live, review = [], []
    for _ in range(ROUNDS):
        live.append(opened_s(paddock, small, WorkspaceMode.LIVE))
        review.append(opened_s(paddock, large, WorkspaceMode.REVIEW))
    assert statistics.median(review) - statistics.median(live) < COST_S_MAX, (live, review)
