"""Which lines of two texts differ, in time that follows their length whatever a hostile file looks like.

Lines that occur once on both sides anchor the comparison (patience diff); between anchors the shortest edit is searched
(Myers, O(ND)) up to a bound of work, beyond which the rest counts as replaced. difflib would be quadratic and worse.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_EDITS_MAX = 256  # differences searched for between two anchors
_WORK_MAX = 2_000_000  # steps of the search over one pair of texts
_PASSES_MAX = 16  # and looks at each line, for texts that anchor badly


@dataclass(frozen=True, slots=True)
class Block:
    """Lines old_start:old_end became new_start:new_end."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """The differing stretches, in order and apart from each other."""
    found: list[Block] = []
    head = _common(old, new)
    tail = _common(old[: head - 1 if head else None : -1], new[: head - 1 if head else None : -1])
    middle = _Comparison(old[head : len(old) - tail], new[head : len(new) - tail])
    for block in middle.blocks(head):
        if found and found[-1].old_end == block.old_start and found[-1].new_end == block.new_start:
            last = found.pop()
            block = Block(last.old_start, block.old_end, last.new_start, block.new_end)  # noqa: PLW2901
        found.append(block)
    return found


class _Comparison:
    def __init__(self, old: Sequence[bytes], new: Sequence[bytes]) -> None:
        numbers: dict[bytes, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._work = _WORK_MAX + _PASSES_MAX * (len(old) + len(new))

    def blocks(self, shift: int) -> Iterator[Block]:
        for block in self._blocks():
            yield Block(*(place + shift for place in (block.old_start, block.old_end, block.new_start, block.new_end)))

    def _blocks(self) -> Iterator[Block]:
        waiting = [(0, len(self._old), 0, len(self._new))]
        while waiting:
            block = self._trim(*waiting.pop())
            a, b, c, d = block
            if a == b or c == d:
                if a < b or c < d:
                    yield Block(a, b, c, d)
                continue
            self._work -= b - a + d - c
            anchors = self._anchors(a, b, c, d) if self._work > 0 else []
            if anchors:
                waiting += reversed(list(_between(block, anchors)))
            else:
                yield from self._shortest(a, b, c, d)

    def _trim(self, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
        old, new = self._old, self._new
        while a < b and c < d and old[a] == new[c]:
            a += 1
            c += 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b -= 1
            d -= 1
        return a, b, c, d

    def _anchors(self, a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
        """Pairs of lines unique on both sides, in an order that both sides share, as many as possible."""
        places = _unique(self._old, a, b)
        theirs = _unique(self._new, c, d)
        pairs = sorted((place, theirs[line]) for line, place in places.items() if line in theirs)
        return _increasing(pairs)

    def _shortest(self, a: int, b: int, c: int, d: int) -> Iterator[Block]:
        """Myers' greedy search from the front, with the way back kept per round."""
        old, new = self._old[a:b], self._new[c:d]
        n, m = len(old), len(new)
        front = {1: 0}
        rounds = []
        for edits in range(min(n + m, _EDITS_MAX) + 1):
            self._work -= edits + 1
            if self._work < 0:
                break
            rounds.append(dict(front))
            for k in range(-edits, edits + 1, 2):
                down = k == -edits or (k != edits and front[k - 1] < front[k + 1])
                x = front[k + 1] if down else front[k - 1] + 1
                y = x - k
                while x < n and y < m and old[x] == new[y]:
                    x += 1
                    y += 1
                    self._work -= 1
                front[k] = x
                if x >= n and y >= m:
                    yield from _walk_back(rounds, n, m, a, c)
                    return
        yield Block(a, b, c, d)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many lines both start with."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def _walk_back(rounds: list[dict[int, int]], x: int, y: int, a: int, c: int) -> list[Block]:
    found = []
    for edits in range(len(rounds) - 1, 0, -1):
        front = rounds[edits]
        k = x - y
        down = k == -edits or (k != edits and front[k - 1] < front[k + 1])
        above = k + 1 if down else k - 1
        before_x = front[above]
        before_y = before_x - above
        found.append(
            Block(a + before_x, a + before_x + (not down), c + before_y, c + before_y + down),
        )
        x, y = before_x, before_y
    return found[::-1]


def _unique(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    once: dict[int, int] = {}
    twice: set[int] = set()
    for place in range(start, end):
        line = lines[place]
        if line in once:
            twice.add(line)
        once[line] = place
    return {line: place for line, place in once.items() if line not in twice}


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, sorted by their first, whose seconds increase too."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        place = bisect_left(tails, second)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1] = [second]
        ends[place : place + 1] = [index]
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _between(block: tuple[int, int, int, int], anchors: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    a, b, c, d = block
    for old, new in anchors:
        yield a, old, c, new
        a, c = old + 1, new + 1
    yield a, b, c, d
