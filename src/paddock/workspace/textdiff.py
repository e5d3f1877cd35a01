"""A change as text for people and as data for programs. Nothing of the agent's reaches a terminal as it is.

Lines are neutralised, so that a bidirectional control, an escape code or a lone carriage return shows as an escape in
its place; binary, huge and minified files are told by size and digest. The text looks like a unified diff and is for
reading: what comes home is the file, not this.
"""

from __future__ import annotations

from dataclasses import dataclass

from paddock.limits import REVIEW_LINE_CHARS, REVIEW_SHOWN_BYTES, REVIEW_TEXT_BYTES
from paddock.text import neutralise, size
from paddock.workspace.changes import Change, Kind
from paddock.workspace.danger import Danger
from paddock.workspace.entries import Entry, look_closely, read_file
from paddock.workspace.linediff import Block, blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
_CONTEXT = 3
_PROBE_BYTES = 8192
_DIGEST_CHARS = 12
_PATH_CHARS = 1024
_WIDTH = 40  # of the bars of --stat
_NO_NEWLINE = "\\ no newline at the end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One change with its lines counted; `lines` is neutralised and ready to be printed."""

    path: str
    kind: str
    entry: str
    refused: str = ""
    source: str = ""
    old_mode: int = 0
    new_mode: int = 0
    old_size: int = 0
    new_size: int = 0
    target: str = ""
    binary: bool = False
    added: int = 0
    removed: int = 0
    lines: tuple[str, ...] = ()
    dangers: tuple[Danger, ...] = ()


class Differ:
    """Diffs of changes between the workspace `base` and the `upper`, within a bound of text over all of them."""

    def __init__(self, upper: int, base: int, *, with_lines: bool = True) -> None:
        self._upper = upper
        self._base = base
        self._with_lines = with_lines
        self._left_bytes = REVIEW_SHOWN_BYTES

    def diffs(self, changes: Iterable[Change], dangers: dict[str, tuple[Danger, ...]]) -> Iterator[FileDiff]:
        for change in changes:
            yield self._diff(change, dangers.get(change.path, ()))

    def _diff(self, change: Change, dangers: tuple[Danger, ...]) -> FileDiff:
        body = _Body()
        try:
            self._fill(change, body)
        except OSError as error:
            body.lines.append(f"(unreadable: {error.strerror})")
        return FileDiff(
            path=change.path,
            kind=change.kind.value,
            entry=change.entry.value,
            refused=change.refused,
            source=change.source,
            old_mode=change.old.mode,
            new_mode=change.new.mode,
            old_size=change.old.size,
            new_size=change.new.size,
            target=change.target,
            binary=body.binary,
            added=body.added,
            removed=body.removed,
            lines=(*_head(change, dangers), *body.lines) if self._with_lines else (),
            dangers=dangers,
        )

    def _fill(self, change: Change, body: _Body) -> None:
        old_is_file, new_is_file = change.old.entry is Entry.FILE, change.new.entry is Entry.FILE
        if change.refused or change.kind is Kind.MODE or not (old_is_file or new_is_file):
            return
        total = change.old.size + change.new.size
        if max(change.old.size, change.new.size) > REVIEW_TEXT_BYTES or total > self._left_bytes:
            self._summarise(change, body)
            return
        old = read_file(self._base, change.path, REVIEW_TEXT_BYTES) if old_is_file else b""
        new = read_file(self._upper, change.path, REVIEW_TEXT_BYTES) if new_is_file else b""
        if old is None or new is None or b"\0" in old[:_PROBE_BYTES] + new[:_PROBE_BYTES]:
            self._summarise(change, body)
            return
        self._left_bytes -= len(old) + len(new)
        body.compare(old, new, with_lines=self._with_lines)

    def _summarise(self, change: Change, body: _Body) -> None:
        body.binary = True
        for sign, root, seen in (("-", self._base, change.old), ("+", self._upper, change.new)):
            if seen.entry is not Entry.FILE or not self._with_lines:
                continue
            known = look_closely(root, change.path) if seen.size <= REVIEW_SHOWN_BYTES else seen
            digest = f", sha256 {known.digest[:_DIGEST_CHARS]}" if known.digest else ""
            body.lines.append(f"{sign} (not shown: {size(known.size)}{digest})")


class _Body:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.added = self.removed = 0
        self.binary = False

    def compare(self, old: bytes, new: bytes, *, with_lines: bool) -> None:
        before, after = _split(old), _split(new)
        found = blocks(before, after)
        self.added = sum(block.new_end - block.new_start for block in found)
        self.removed = sum(block.old_end - block.old_start for block in found)
        if with_lines:
            for hunk in _hunks(found):
                self._hunk(hunk, before, after)

    def _hunk(self, hunk: list[Block], before: list[bytes], after: list[bytes]) -> None:
        first, last = hunk[0], hunk[-1]
        old_start, new_start = max(first.old_start - _CONTEXT, 0), max(first.new_start - _CONTEXT, 0)
        lead = min(first.old_start - old_start, first.new_start - new_start)
        old_start, new_start = first.old_start - lead, first.new_start - lead
        tail = min(_CONTEXT, len(before) - last.old_end, len(after) - last.new_end)
        old_end, new_end = last.old_end + tail, last.new_end + tail
        self.lines.append(f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@")
        at = old_start
        for block in hunk:
            self._put(" ", before[at : block.old_start])
            self._put("-", before[block.old_start : block.old_end])
            self._put("+", after[block.new_start : block.new_end])
            at = block.old_end
        self._put(" ", before[at:old_end])

    def _put(self, sign: str, lines: list[bytes]) -> None:
        for line in lines:
            text = line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
            shown = "\t".join(neutralise(part, REVIEW_LINE_CHARS) for part in text.split("\t"))
            self.lines.append(sign + shown[: 2 * REVIEW_LINE_CHARS])
            if not line.endswith(b"\n"):
                self.lines.append(_NO_NEWLINE)


def stat_lines(diffs: Iterable[FileDiff]) -> list[str]:
    """One line per file with a bar, and a last one with the totals."""
    diffs = list(diffs)
    most = max([one.added + one.removed for one in diffs], default=0)
    names = [_shown_name(one) for one in diffs]
    width = max(map(len, names), default=0)
    lines = []
    for one, name in zip(diffs, names, strict=True):
        lines.append(f"{name:<{width}} | {_bar(one, most)}".rstrip())
    added, removed = sum(one.added for one in diffs), sum(one.removed for one in diffs)
    return [*lines, f"{len(diffs)} changed, {added} lines added, {removed} removed"]


def name_line(one: FileDiff) -> str:
    """`A path`, in one line and harmless."""
    letter = {"added": "A", "modified": "M", "deleted": "D", "type": "T", "mode": "X"}[one.kind]
    return f"{'!' if one.refused or one.dangers else ' '}{letter} {_shown_name(one)}"


def _shown_name(one: FileDiff) -> str:
    name = neutralise(one.path, _PATH_CHARS) + ("/" if one.entry == "dir" else "")
    return f"{neutralise(one.source, _PATH_CHARS)} => {name}" if one.source else name


def _bar(one: FileDiff, most: int) -> str:
    total = one.added + one.removed
    if one.refused:
        return "refused"
    if one.binary:
        return f"{size(one.old_size)} -> {size(one.new_size)}"
    if not total:
        return one.kind
    scale = min(1.0, _WIDTH / most)
    plus = max(round(one.added * scale), int(one.added > 0))
    minus = max(round(one.removed * scale), int(one.removed > 0))
    return f"{total} {'+' * plus}{'-' * minus}"


def _head(change: Change, dangers: tuple[Danger, ...]) -> Iterator[str]:
    name = neutralise(change.path, _PATH_CHARS)
    yield f"{change.kind.value} {change.entry.value} {name}"
    if change.source:
        yield f"renamed from {neutralise(change.source, _PATH_CHARS)}"
    if change.refused:
        yield f"refused: {neutralise(change.refused)}"
    for danger in dangers:
        yield f"danger: {danger.kind}: {neutralise(danger.why)}"
    if change.kind is Kind.TYPE:
        yield f"was a {change.old.entry.value}"
    if change.kind is not Kind.DELETED and change.old.entry is change.new.entry and change.old.mode != change.new.mode:
        yield f"mode {change.old.mode:04o} -> {change.new.mode:04o}"
    if change.old.entry is Entry.SYMLINK:
        yield f"-> was {neutralise(change.old.target, _PATH_CHARS)}"
    if change.new.entry is Entry.SYMLINK:
        yield f"-> {neutralise(change.target, _PATH_CHARS)}"


def _split(text: bytes) -> list[bytes]:
    """Lines with their newline; only a line feed ends one, so that a lone carriage return hides nothing."""
    lines = text.split(b"\n")
    last = lines.pop()
    return [*(line + b"\n" for line in lines), *([last] if last else [])]


def _hunks(found: list[Block]) -> Iterator[list[Block]]:
    """Blocks whose context would touch belong to one hunk."""
    hunk: list[Block] = []
    for block in found:
        if hunk and block.old_start - hunk[-1].old_end > 2 * _CONTEXT:
            yield hunk
            hunk = []
        hunk.append(block)
    if hunk:
        yield hunk


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"
