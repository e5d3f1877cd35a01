"""A file with rules: what cannot be read leaves what was said last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from paddock import limits
from paddock.policy import SourceKind
from paddock.runtime import policyfile
from paddock.runtime.policyfile import PolicyFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_file_that_cannot_be_read_is_broken_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "dir.toml").mkdir()
    file = PolicyFile(str(tmp_path / "dir.toml"), SourceKind.USER)
    assert file.info().state == "broken"
    assert repr(file) == f"<PolicyFile {tmp_path}/dir.toml broken>"


def test_a_missing_file_is_known_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "user.toml"
    missing = PolicyFile(str(path), SourceKind.USER)
    assert (missing.is_known, missing.good, missing.text(), missing.info().state) == (True, None, None, "missing")
    path.write_text("allow = [")
    broken = PolicyFile(str(path), SourceKind.USER)
    assert (broken.is_known, broken.good, broken.problem is not None) == (False, None, True)


def test_what_was_said_last_stays_while_the_file_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "user.toml"
    path.write_text('allow = ["a.example"]')
    file = PolicyFile(str(path), SourceKind.USER)
    good = file.good
    for text in (b"\xff", b"allow = [", b"#" * (limits.POLICY_FILE_BYTES + 1)):
        path.write_bytes(text)
        file.reload()
        assert (file.good, file.info().state) == (good, "broken")
    path.write_text('allow = ["b.example"]')
    file.reload()
    assert file.good is not None
    assert (file.good.allow, file.problem) == (("b.example",), None)


def test_a_file_that_is_written_anew_is_not_gone_for_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "user.toml"
    path.write_text('allow = ["a.example"]')
    file = PolicyFile(str(path), SourceKind.USER)
    monkeypatch.setattr(policyfile, "REWRITTEN_S", 60.0)
    path.write_text("")
    file.reload()
    assert (file.is_leaving, file.good is not None) == (True, True)
    monkeypatch.setattr(policyfile, "REWRITTEN_S", 0.0)
    path.unlink()
    file.reload()
    assert (file.is_leaving, file.good) == (False, None)


def test_a_file_that_came_and_went_while_nobody_looked_is_not_gone_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    path = tmp_path / "user.toml"
    path.write_text('deny = ["a.example"]')
    file = PolicyFile(str(path), SourceKind.USER)
    path.unlink()
    file.reload(stirred=True)
    for _ in range(5):
        now += policyfile.REWRITTEN_S + 0.05
        file.reload(stirred=True)
        assert (file.is_leaving, file.good is not None) == (True, True)
    now += policyfile.LEAVING_S
    file.reload(stirred=True)
    assert (file.is_leaving, file.good) == (False, None)
