"""What users of a box's own wrote goes with the box."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.engines.container import ids, removal
from paddock.engines.process import kernel
from paddock.errors import Unavailable
from tests.support.forks import forked

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_the_callers_own_goes_as_ever(tmp_path: Path) -> None:
    (tmp_path / "tree/in").mkdir(parents=True)
    removal.remove_tree(f"{tmp_path}/tree")
    assert not (tmp_path / "tree").exists()
    removal.remove_tree(f"{tmp_path}/tree")


def test_a_directory_of_another_id_goes_where_the_caller_has_that_id(tmp_path: Path) -> None:
    granted = ids.own(os.getuid(), os.getgid())
    if os.getuid() == 0 or not granted.by_tool:
        pytest.skip("this user has no subordinate ids")
    place = f"{tmp_path}/tree"
    os.mkdir(place)
    ready, go = os.pipe(), os.pipe()
    pid = forked()
    if pid == 0:
        try:
            kernel.unshare(kernel.CLONE_NEWUSER)
            os.write(ready[1], b"1")
            os.read(go[0], 1)
            os.makedirs(f"{place}/in/deep", 0o700)
            os.chown(f"{place}/in/deep", 33, 33)
            os.chown(f"{place}/in", 33, 33)
            os._exit(0)
        finally:
            os._exit(1)
    os.read(ready[0], 1)
    ids.give(pid, granted)
    os.write(go[1], b"1")
    assert os.waitpid(pid, 0)[1] == 0
    for fd in (*ready, *go):
        os.close(fd)
    with pytest.raises(Unavailable):  # the oracle
        fs.remove_tree(place)
    removal.remove_tree(place)
    assert not os.path.exists(place)
