"""A program may name the installation it means, whatever its environment says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def test_the_daemon_is_started_in_the_home_the_caller_named(
    own_installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PADDOCK_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    with own_installation.sdk() as paddock:
        status = paddock.call("status")
    assert isinstance(status, dict)
    assert status["state"] == str(own_installation.state)
    assert not (tmp_path / "elsewhere").exists()
