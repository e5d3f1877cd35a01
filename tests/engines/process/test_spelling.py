"""Whether a file is found by names that its directory does not list."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import spelling
from paddock.engines.process.operations import MountOp
from paddock.errors import UserError
from paddock.model import Mount
from tests.support import caseless

if TYPE_CHECKING:
    from pathlib import Path


def test_where_case_counts_every_file_has_one_spelling(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "Größe").touch()
    for name in (".env", "Größe", "not-there"):
        assert not spelling.has_other_spellings(f"{tmp_path}/{name}")
    os.link(tmp_path / ".env", tmp_path / ".ENV")
    assert not spelling.has_other_spellings(f"{tmp_path}/.env"), "a hard link, which is listed"


@pytest.mark.privileged
@pytest.mark.box
def test_where_it_does_not_a_file_has_many_and_a_directory_one(tmp_path: Path) -> None:
    with caseless.mounted(tmp_path) as blind:
        (blind / "sub/.git").mkdir(parents=True)
        (blind / "sub/.env").write_text("secret")
        (blind / "sub/123").write_text("no letters")
        shown = [Mount(source=str(blind), target="/work"), Mount(source=str(tmp_path), target="/work/other")]
        spelling.require_one(shown, [MountOp(op="cover", target=f"/work/sub/{name}") for name in (".git", "123", "no")])
        spelling.require_one(shown, [MountOp(op="pin", target="/work/sub/.env"), MountOp(op="cover", target="/.env")])
        spelling.require_one(shown, [MountOp(op="cover", target="/work/other/sub/.env")])
        for name in (".env", ".ENV", ".eNv"):
            with pytest.raises(UserError, match="by other spellings"):
                spelling.require_one(shown, [MountOp(op="cover", target=f"/work/sub/{name}")])
