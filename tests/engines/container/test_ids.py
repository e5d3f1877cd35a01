"""Ids of container boxes: which they are on the host, and never root's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.engines.process.trees import subordinate_id
from paddock.errors import UserError
from paddock.limits import BOXES_MAX

if TYPE_CHECKING:
    from pathlib import Path


def test_blocks_of_boxes_neither_meet_nor_leave_what_ids_there_are() -> None:
    first, second, last = ids.block(0), ids.block(1), ids.block(ids.BLOCKS - 1)
    assert first.uids[0][1] + ids.IDS == second.uids[0][1]
    assert last.uids[0][1] + ids.IDS <= 1 << 31
    assert subordinate_id(BOXES_MAX) < first.uids[0][1]
    with pytest.raises(UserError, match="at most"):
        ids.block(ids.BLOCKS)
    assert first.texts() == ("0 2000000000 65536", "0 2000000000 65536")


def test_the_inner_map_is_cut_where_the_outer_is() -> None:
    both = ((0, 1000, 1), (1, 100000, 65535))
    assert ids.Ids(uids=both, gids=both, by_tool=True).inner() == (((0, 0, 1), (1, 1, 65535)),) * 2


def test_the_callers_own_id_stands_for_the_boxs_user() -> None:
    both = ((0, 1000, 1), (1, 100000, 65535))
    subordinate = ids.Ids(uids=both, gids=both, by_tool=True)
    uids, gids = subordinate.inner((1000, 65535))
    assert uids == ((0, 1000, 1), (1, 1, 999), (1000, 0, 1), (1001, 1001, 64535))
    assert gids == ((0, 65535, 1), (1, 1, 65534), (65535, 0, 1))
    assert subordinate.inner((1, 0))[0] == ((0, 1, 1), (1, 0, 1), (2, 2, 65534))
    alone = ids.Ids(uids=((0, 1000, 1),), gids=((0, 1000, 1),))
    assert alone.inner((1000, 50)) == (((1000, 0, 1),), ((50, 0, 1),))
    assert ids.block(0).inner((1000, 1000)) == (((0, 0, 65536),),) * 2, "id-mapped mounts do it there"


def test_what_is_unpacked_has_the_ids_that_boxes_see() -> None:
    both = ((0, 1000, 1), (1, 100000, 65535))
    seen = ids.Ids(uids=both, gids=both, by_tool=True).seen_by((33, 0))
    assert seen.uids == ((0, 100032, 1), (1, 100000, 32), (33, 1000, 1), (34, 100033, 65502))
    assert seen.gids == both
    assert seen.count == ids.IDS


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ("", 0),
        ("somebody:100000:65536\n", 0),
        ("me:100000:1000\n", 0),
        ("me:100000:1000\nme:200000:65536\n", 200000),
        ("1234:300000:65536\n", 300000),
        ("me:x:65536\nme:1:2:3\n\nme:-5:65536\n", 0),
    ],
)
def test_a_range_counts_if_it_is_ours_and_large_enough(tmp_path: Path, rows: str, first: int) -> None:
    (tmp_path / "subuid").write_text(rows)
    assert ids._granted(f"{tmp_path}/subuid", {"me", "1234"}) == first


def test_without_a_range_there_is_the_one_id_that_one_has() -> None:
    nobody = ids.own(4_000_000, 4_000_001)
    assert (nobody.texts(), nobody.count, nobody.by_tool) == (("0 4000000 1", "0 4000001 1"), 1, False)
    assert (nobody.owners, ids.block(0).owners) == (0, ids.IDS)


def test_a_root_caller_has_a_block() -> None:
    assert ids.of_caller(3).count == (ids.IDS if os.getuid() == 0 else ids.own(os.getuid(), os.getgid()).count)
