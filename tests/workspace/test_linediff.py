from __future__ import annotations

import itertools
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from paddock.workspace.linediff import Block, blocks

LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), max_size=40)


def rebuilt(old: list[bytes], new: list[bytes], found: list[Block]) -> list[bytes]:
    result: list[bytes] = []
    at = 0
    for block in found:
        result += old[at : block.old_start]
        result += new[block.new_start : block.new_end]
        at = block.old_end
    return result + old[at:]


@hypothesis.given(LINES, LINES)
def test_the_blocks_turn_one_text_into_the_other(old: list[bytes], new: list[bytes]) -> None:
    found = blocks(old, new)
    assert rebuilt(old, new, found) == new
    assert rebuilt(new, old, [Block(b.new_start, b.new_end, b.old_start, b.old_end) for b in found]) == old


@hypothesis.given(LINES, LINES)
def test_blocks_are_in_order_and_apart(old: list[bytes], new: list[bytes]) -> None:
    found = blocks(old, new)
    assert all(block.old_start < block.old_end or block.new_start < block.new_end for block in found)
    for one, other in itertools.pairwise(found):
        assert one.old_end < other.old_start
        assert one.new_end < other.new_start


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abc", "abc", []),
        ("", "ab", [Block(0, 0, 0, 2)]),
        ("ab", "", [Block(0, 2, 0, 0)]),
        ("abc", "axc", [Block(1, 2, 1, 2)]),
        ("abcd", "abxcd", [Block(2, 2, 2, 3)]),
        ("aabb", "aaxbb", [Block(2, 2, 2, 3)]),
        ("abcabc", "abc", [Block(3, 6, 3, 3)]),
    ],
)
def test_a_small_edit_is_a_small_block(old: str, new: str, expected: list[Block]) -> None:
    assert blocks([c.encode() for c in old], [c.encode() for c in new]) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([b"x"] * 200_000, [b"y"] * 200_000),
        ([b"x", b"y"] * 100_000, [b"y", b"x"] * 100_000),
        ([b"%d" % (n % 7) for n in range(200_000)], [b"%d" % (n % 11) for n in range(200_000)]),
        ([b"%d" % n for n in range(100_000)], [b"%d" % n for n in range(100_000)][::-1]),
        ([b"%d" % abs(n) for n in range(-60_000, 60_000)], [b"%d" % abs(n) for n in range(-60_000, 60_000, 2)]),
    ],
)
def test_hostile_texts_cost_no_more_than_their_length(old: list[bytes], new: list[bytes]) -> None:
    start = time.process_time()
    assert rebuilt(old, new, blocks(old, new)) == new
    assert time.process_time() - start < 8  # seconds; quadratic would be hours
