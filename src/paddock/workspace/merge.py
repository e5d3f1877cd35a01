"""A three-way merge of lines, for a file that the host changed while a box did.

Who offers it knows what both started from: git's blob, say. Where both changed the same lines there is no merge; the
user decides, file in hand. Nothing is run and nothing is guessed.
"""

from __future__ import annotations

from paddock.workspace.linediff import Block, blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`base` with the changes of both, or None where they touch; binary files are not merged."""
    if theirs in {ours, base}:
        return ours
    if ours == base:
        return theirs
    if any(b"\0" in text for text in (base, ours, theirs)):
        return None
    lines, one, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    changes = sorted(
        [*_replacements(lines, one), *_replacements(lines, other)], key=lambda change: (change[0], change[1])
    )
    merged: list[bytes] = []
    at = 0
    previous: tuple[int, int, list[bytes]] | None = None
    for change in changes:
        start, end, text = change
        if previous is not None and _touch(previous, change):
            if change == previous:
                continue
            return None
        merged += lines[at:start]
        merged += text
        at = end
        previous = change
    return b"".join([*merged, *lines[at:]])


def _replacements(old: list[bytes], new: list[bytes]) -> Iterator[tuple[int, int, list[bytes]]]:
    for block in blocks(old, new):
        yield _replacement(block, new)


def _replacement(block: Block, new: list[bytes]) -> tuple[int, int, list[bytes]]:
    return block.old_start, block.old_end, new[block.new_start : block.new_end]


def _touch(one: tuple[int, int, list[bytes]], other: tuple[int, int, list[bytes]]) -> bool:
    """Whether two changes overlap or meet: adjacent ones are not independent either."""
    return other[0] <= one[1]
