"""The danger report: what of a change the host would run or obey later, and why (WS-01 to WS-20).

Nothing here decides. A change with a danger needs a yes of its own before it comes home; the report says what the yes
is to. It reads names, entries and bounded content, and runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate
from itertools import islice

from paddock.limits import REVIEW_LINE_CHARS, REVIEW_TEXT_BYTES
from paddock.workspace import manifests
from paddock.workspace.changes import Change, Kind, fold, is_git
from paddock.workspace.danger_table import LOCKFILES, RULES, Rule
from paddock.workspace.entries import Entry, look, read_file, seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_EXECUTABLE = 0o111
_FOR_ALL = 0o002
_BINARY_PROBE_BYTES = 8192
# Programs of the usual kinds; what has no name of its own shows by its first bytes.
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa", b"\0asm", b"!<arch>")

# Characters that make text read other than it is: bidirectional controls, zero-width and invisible ones, tags.
# U+FE0F and the joiner are part of many emoji; the joiner is told only between letters.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]|(?<=\\w)\u200d(?=\\w)"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_PLAIN = bytes([*range(0x20, 0x7F), 0x09, 0x0A])
_BARE = frozenset({"HEAD", "objects", "refs", "commondir"})
_LINKS_MAX = 10_000  # entries at the top of a workspace that are looked at for links


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    kind: str
    why: str


def classify(change: Change, old: bytes | None, new: bytes | None) -> tuple[Danger, ...]:
    """The dangers of one change by its name, entry and content; None: there is none, or more than is read."""
    if change.kind is Kind.DELETED:
        return ()
    found = [*_by_name(change.path), *_by_entry(change)]
    if change.entry is Entry.SYMLINK:
        found += _by_target(change)
    if change.entry is Entry.FILE and change.kind is not Kind.MODE:
        found += _by_content(change, old, new)
    return tuple(found)


class Examiner:
    """Classifies changes, reading what is needed from the upper and the workspace."""

    def __init__(self, upper: int, base: int, obeyed: Collection[str] = ()) -> None:
        self._upper = upper
        self._base = base
        self._obeyed = frozenset(obeyed)  # what this repository's own settings make git obey
        self.digests: dict[str, str] = {}  # of the files that were read: a verdict is about these bytes alone

    def examine(self, changes: Iterable[Change]) -> dict[str, tuple[Danger, ...]]:
        changes = tuple(changes)
        bare = self._bare_repositories(changes)
        aliases = self._aliases(changes)
        found = {}
        for change in changes:
            dangers = [] if change.refused else list(classify(change, *self._contents(change)))
            if change.entry is Entry.SYMLINK and change.kind is not Kind.DELETED and not dangers:
                dangers += self._chain(change)
            if not bare.isdisjoint(_directories(change.path)) and change.kind is not Kind.DELETED:
                dangers.append(Danger(kind="nested repository", why="git takes its directory for a bare repository"))
            if change.kind is not Kind.DELETED and not change.refused:
                dangers += _by_alias(change.path, aliases)
                dangers += self._by_settings(change)
            if dangers:
                found[change.path] = tuple(dict.fromkeys(dangers))
        return found

    def _by_settings(self, change: Change) -> Iterator[Danger]:
        leads = change.entry is Entry.SYMLINK and any(path.startswith(f"{change.path}/") for path in self._obeyed)
        if leads or not self._obeyed.isdisjoint((change.path, *_directories(change.path))):
            yield Danger(kind="git", why="the settings of this repository make git run or obey it")

    def _aliases(self, changes: tuple[Change, ...]) -> dict[str, str]:
        """Where links at the top of the workspace, and new ones, lead to inside it: what lies there has two names."""
        links = {change.path: change.target for change in changes if change.new.entry is Entry.SYMLINK}
        with os.scandir(self._base) as entries:
            for entry in islice(entries, _LINKS_MAX):
                if entry.is_symlink():
                    links.setdefault(entry.name, seen(self._base, entry.name).target)
        places = {os.path.normpath(os.path.join(os.path.dirname(path), to)): path for path, to in links.items()}
        return {place: path for place, path in places.items() if not place.startswith(("/", "..")) and place != "."}

    def _bare_repositories(self, changes: tuple[Change, ...]) -> set[str]:
        """Directories that a change gives a HEAD, objects and refs: git run inside obeys the config there (WS-05).

        Two of these are enough, whether they come now or came before: nobody is asked about the first of them.
        """
        names: dict[str, set[str]] = {}
        for change in changes:
            directory, _, name = change.path.rpartition("/")
            parts = [part for part in _BARE if fold(part) == fold(name)]
            if change.kind is not Kind.DELETED and parts:
                names.setdefault(directory, set()).update(parts)
        for directory, inside in names.items():
            there = (
                part for part in _BARE if look(self._base, f"{directory}/{part}".lstrip("/")).entry is not Entry.NOTHING
            )
            inside.update(there)
        found = {directory for directory, inside in names.items() if len(inside) >= 2}
        return found - {""} | ({"."} if "" in found else set())

    def _contents(self, change: Change) -> tuple[bytes | None, bytes | None]:
        if change.entry is not Entry.FILE or change.kind in {Kind.DELETED, Kind.MODE}:
            return None, None
        old = self._read(self._base, change.path) if change.old.entry is Entry.FILE else None
        new = self._read(self._upper, change.path)
        if new is not None:
            self.digests[change.path] = hashlib.sha256(new).hexdigest()
        return old, new

    def _read(self, root: int, path: str) -> bytes | None:
        try:
            return read_file(root, path, REVIEW_TEXT_BYTES)
        except OSError:
            return None

    def _chain(self, change: Change) -> Iterator[Danger]:
        """A link through another link goes wherever that one is turned to."""
        place = os.path.dirname(change.path)
        for part in change.target.split("/"):
            place = os.path.normpath(os.path.join(place, part))
            for root in (self._upper, self._base):
                if place not in {".", change.path} and look(root, place).entry is Entry.SYMLINK:
                    yield Danger(kind="symlink", why=f"it leads through another link, {place!r}")
                    return


# -- by name -----------------------------------------------------------------------------------------------------------


class _Names:
    """The table, sorted by how its patterns match."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.exact: dict[str, Rule] = {}
        self.globs: list[tuple[str, Rule]] = []
        self.tails: list[tuple[tuple[str, ...], Rule]] = []
        self.within: dict[str, list[tuple[tuple[str, ...], Rule]]] = {}
        for rule in rules:
            for pattern in map(fold, rule.patterns):
                self._add(pattern, rule)
        # One look tells the many names that match no pattern from the few that are worth a walk through all of them.
        self._any = re.compile("|".join(translate(pattern) for pattern, _ in self.globs))

    def _add(self, pattern: str, rule: Rule) -> None:
        parts = tuple(pattern.rstrip("/").split("/"))
        if pattern.endswith("/"):
            self.within.setdefault(parts[0], []).append((parts, rule))
        elif len(parts) > 1:
            self.tails.append((parts, rule))
        elif "*" in pattern:
            self.globs.append((pattern, rule))
        else:
            self.exact[pattern] = rule

    def matching(self, parts: tuple[str, ...]) -> Iterator[Rule]:
        name = parts[-1]
        if name in self.exact:
            yield self.exact[name]
        if self._any.match(name):
            yield from (rule for pattern, rule in self.globs if fnmatchcase(name, pattern))
        yield from (rule for tail, rule in self.tails if parts[-len(tail) :] == tail)
        for start, part in enumerate(parts):
            for inner, rule in self.within.get(part, ()):
                if parts[start : start + len(inner)] == inner:
                    yield rule


_NAMES = _Names(RULES)


def _by_name(path: str) -> Iterator[Danger]:
    parts = tuple(fold(part).rstrip(" .") or part for part in path.split("/"))
    told = set()
    for rule in _NAMES.matching(parts):
        if rule.kind not in told:
            told.add(rule.kind)
            yield Danger(kind=rule.kind, why=rule.why)
    if any(map(is_git, path.split("/"))):
        yield Danger(kind="git", why="git takes it for its own")
    if not path.isascii() or not path.isprintable():
        yield from _by_letters(path)


def _by_letters(path: str) -> Iterator[Danger]:
    if _HIDDEN.search(path) or _CONTROLS.search(path) or not {"\t", "\n", "\r"}.isdisjoint(path):
        yield Danger(kind="name", why="its name holds characters that do not show")


def _by_alias(path: str, aliases: dict[str, str]) -> Iterator[Danger]:
    for place in (path, *_directories(path)):
        if link := aliases.get(place):
            for danger in _by_name(f"{link}{path[len(place) :]}"):
                yield replace(danger, why=f"{danger.why}, by the link {link!r}")


# -- by entry ----------------------------------------------------------------------------------------------------------


def _by_entry(change: Change) -> Iterator[Danger]:
    if change.entry is Entry.FILE:
        gained = change.mode & _EXECUTABLE & ~(change.old.mode if change.old.entry is Entry.FILE else 0)
        if gained:
            yield Danger(kind="executable", why=f"it can be run from now on (mode {change.mode & 0o777:04o})")
        if change.links > 1:
            yield Danger(kind="hard link", why=f"it has {change.links} names in the box; this one comes home as a copy")
    if change.entry in {Entry.FILE, Entry.DIR}:
        was = change.old.mode if change.old.entry is change.entry else 0
        if change.mode & ~was & _FOR_ALL:
            yield Danger(kind="open", why=f"everybody on the machine can write to it (mode {change.mode & 0o777:04o})")
    if change.kind is Kind.TYPE:
        yield Danger(kind="type", why=f"it takes the place of a {change.old.entry.value}")
    if change.twin:
        yield Danger(kind="collision", why=f"some file systems take it for {change.twin!r}")


def _by_target(change: Change) -> Iterator[Danger]:
    target = change.target
    if target.startswith("/"):
        yield Danger(kind="symlink", why=f"it leads to {target!r}, outside the project")
        return
    place = os.path.normpath(os.path.join(os.path.dirname(change.path), target))
    if ".." in target.lstrip("./").split("/"):
        # Where `a/..` is depends on what `a` is by then: a link made later, and harmless by itself, turns it outward.
        yield Danger(kind="symlink", why=f"where it leads to changes with what is on the way, {target!r}")
    elif place == ".." or place.startswith("../"):
        yield Danger(kind="symlink", why=f"it leads out of the project, to {target!r}")
    elif any(map(is_git, place.split("/"))):
        yield Danger(kind="symlink", why=f"it leads into git's own files, {target!r}")


# -- by content --------------------------------------------------------------------------------------------------------


def _by_content(change: Change, old: bytes | None, new: bytes | None) -> Iterator[Danger]:
    name = fold(change.path.rpartition("/")[2])
    if new is None:
        yield Danger(kind="huge", why=f"its {change.size} bytes are more than anyone reads")
        return
    yield from _by_manifest(name, old, new)
    if new.startswith(_PROGRAMS) and not (old or b"").startswith(_PROGRAMS):
        yield Danger(kind="program", why="it is a compiled program")
    if b"\0" in new[:_BINARY_PROBE_BYTES]:
        return
    if new.translate(None, _PLAIN):  # most files have nothing else
        yield from _by_text((old or b"").decode("utf-8", "replace"), new.decode("utf-8", "replace"))
    if _longest(new) > REVIEW_LINE_CHARS >= _longest(old or b""):
        yield Danger(kind="minified", why=f"it has a line of {_longest(new)} bytes")


def _by_text(old: str, new: str) -> Iterator[Danger]:
    if _count(_HIDDEN, new) > _count(_HIDDEN, old):
        yield Danger(kind="hidden text", why="it holds bidirectional or invisible characters")
    if _count(_CONTROLS, new) > _count(_CONTROLS, old):
        yield Danger(kind="hidden text", why="it holds control characters that move the cursor or hide text")


def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text.removeprefix("\ufeff")))  # at the start it says how the text is encoded


def _by_manifest(name: str, old: bytes | None, new: bytes) -> Iterator[Danger]:
    kind = "lock file" if name in LOCKFILES else "packages"
    try:
        if name in LOCKFILES or (name.startswith(("requirements", "constraints")) and name.endswith(".txt")):
            said = manifests.lockfile(name, old, new)
        elif name in manifests.READERS:
            said = manifests.READERS[name](old, new)
        else:
            return
    except manifests.Unclear as reason:
        said = [str(reason)]
    if said:
        yield Danger(kind=kind, why="it " + ", ".join(said))


def _longest(text: bytes) -> int:
    return max(map(len, text.split(b"\n")))


def _directories(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:count]) or "." for count in range(len(parts))}
