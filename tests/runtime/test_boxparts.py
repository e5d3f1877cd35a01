"""What of a box's directory belongs to its state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model import EngineName, WorkspaceMode
from paddock.runtime import boxparts
from tests.support.killing import look, stopped_box

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def test_what_belongs_to_a_state_depends_on_the_mode(home: Path) -> None:
    def check(runtime: Runtime) -> None:
        spec = runtime.find("mine").row.spec
        assert boxparts.copied(spec) == ()
        assert boxparts.copied(replace(spec, mode=WorkspaceMode.CLONE)) == ("git",)
        assert boxparts.copied(replace(spec, mode=WorkspaceMode.REVIEW)) == ("review/upper", "review/state", "git")
        assert [*boxparts.uppers(spec)] == ["root/upper", "home"], "the home is the last"
        assert [*boxparts.uppers(replace(spec, engine=EngineName.PROCESS))] == ["home"]

    look(home, check)
