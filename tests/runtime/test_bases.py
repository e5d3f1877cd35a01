"""What a box started from is kept where that can be, and nothing is said where it cannot."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from paddock.runtime import bases
from paddock.workspace import gitdir, hostrefs, repository
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from pathlib import Path


def test_a_base_is_kept_from_the_first_start_to_the_end(tmp_path: Path) -> None:
    work, box = make_repository(tmp_path / "work"), tmp_path / "0123456789ab"
    assert bases.units(str(box)) == ()
    bases.release(str(box))
    made = gitdir.make(f"{box}/{bases.GIT}", repository.find(os.fspath(work)), who=gitdir.Identity())
    bases.keep(made.units, str(box), durable=False)
    kept = git(work, "for-each-ref", "--format=%(objectname)", f"{hostrefs.BASES}/{box.name}").split()
    assert sorted(kept) == sorted(made.units[0].base)
    bases.keep_on(bases.units(str(box)), str(box))
    bases.release(str(box))
    assert git(work, "for-each-ref", hostrefs.ROOT) == ""


def test_a_repository_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    work, box = make_repository(tmp_path / "work"), tmp_path / "0123456789ab"
    made = gitdir.make(f"{box}/{bases.GIT}", repository.find(os.fspath(work)), who=gitdir.Identity())
    shutil.rmtree(work)
    bases.keep(made.units, str(box), durable=True)
    bases.keep_on(made.units, str(box))
    bases.release(str(box))
