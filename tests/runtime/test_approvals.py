"""Approvals: on disk, per place and content, and nothing when in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.runtime.approvals import Approvals

if TYPE_CHECKING:
    from pathlib import Path


def test_an_approval_outlives_the_daemon(tmp_path: Path) -> None:
    path = str(tmp_path / "approvals.json")
    Approvals(path).add("/work", "digest")
    again = Approvals(path)
    assert again.has("/work", "digest")
    assert not again.has("/work", "other")
    assert not again.has("/elsewhere", "digest")
    assert repr(again) == f"<Approvals 1 in {path}>"
    assert (tmp_path / "approvals.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"approved": []}', b'{"approved": {}, "x": 1}', b"\xff"])
def test_a_file_that_cannot_be_read_approves_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "approvals.json"
    path.write_bytes(data)
    approvals = Approvals(str(path))
    assert not approvals.has("/work", "digest")
    approvals.add("/work", "digest")
    assert Approvals(str(path)).has("/work", "digest")


def test_the_oldest_approvals_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.runtime.approvals.APPROVALS_MAX", 3)
    approvals = Approvals(str(tmp_path / "approvals.json"))
    for number in range(5):
        approvals.add("/work", str(number))
    assert [approvals.has("/work", str(number)) for number in range(5)] == [False, False, True, True, True]
    assert limits.APPROVALS_MAX > 3
