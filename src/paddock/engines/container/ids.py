"""Which ids the users of a container box are on the host: a block per box, subordinate ones of its user, or one."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import dataclass
from typing import Final

from paddock import proc
from paddock.errors import Unavailable, UserError

IDS: Final = 65536  # what every distribution expects to have
_FIRST_BLOCK: Final = 2_000_000_000  # above the ids of process boxes (trees.py)
BLOCKS: Final = ((1 << 31) - _FIRST_BLOCK) // IDS  # below the sign bit, which confuses programs
_TOOLS: Final = ("newuidmap", "newgidmap")
_TOOL_S: Final = 5.0

Range = tuple[int, int, int]  # first id inside, first id outside, how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """The maps of the box's outer user namespace to the host."""

    uids: tuple[Range, ...]
    gids: tuple[Range, ...]
    by_tool: bool = False  # newuidmap writes them: more than one's own id is for root to give

    @property
    def count(self) -> int:
        """How many ids there are, from 0."""
        return min(sum(size for _, _, size in ranges) for ranges in (self.uids, self.gids))

    @property
    def owners(self) -> int:
        """Of how many the files of a box with these ids are, as the record of a layer has it; 0 if all are one's."""
        return self.count if self.count > 1 else 0

    def inner(self, owner: tuple[int, int] = (0, 0)) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
        """Of the namespace that commands are in to the outer, in which the caller's own id stands for `owner`."""
        return _inside(self.uids, owner[0]), _inside(self.gids, owner[1])

    def seen_by(self, owner: tuple[int, int]) -> Ids:
        """The maps of the namespace that commands are in, to the host."""
        pairs = zip((self.uids, self.gids), self.inner(owner), strict=True)
        uids, gids = (tuple(_through(outer, one) for one in inner) for outer, inner in pairs)
        return Ids(uids=uids, gids=gids, by_tool=self.by_tool)

    def texts(self) -> tuple[str, str]:
        """As /proc takes them."""
        uids, gids = ("\n".join(" ".join(map(str, one)) for one in ranges) for ranges in (self.uids, self.gids))
        return uids, gids

    def describe(self) -> str:
        shown = ", ".join(f"{size} from {outside}" for _, outside, size in self.uids)
        return f"ids uid 0 and up are {shown} on the host"


def _inside(ranges: tuple[Range, ...], owner: int) -> tuple[Range, ...]:
    """The kernel wants each range within one of the outer map. Of a block nobody is the caller: mounts see to that."""
    if len(ranges) == 1 and ranges[0][2] == 1:
        return ((owner, 0, 1),)
    if len(ranges) == 1 or owner == 0:
        return tuple((one, one, size) for one, _, size in ranges)
    swapped = ((0, owner, 1), (1, 1, owner - 1), (owner, 0, 1), (owner + 1, owner + 1, IDS - 1 - owner))
    return tuple(one for one in swapped if one[2])


def _through(outer: tuple[Range, ...], one: Range) -> Range:
    inside, middle, size = one
    first, outside, _ = next(row for row in outer if row[0] <= middle < row[0] + row[2])
    return inside, outside + middle - first, size


def block(index: int) -> Ids:
    """Of a root caller's box: nobody's ids, and no other box's."""
    if index >= BLOCKS:
        hint = "remove some boxes: a root caller's containers have 65536 ids each, and there are no more"
        raise UserError(f"at most {BLOCKS} boxes can be containers", hint=hint, code="too-many")
    whole = ((0, _FIRST_BLOCK + IDS * index, IDS),)
    return Ids(uids=whole, gids=whole)


def own(uid: int, gid: int) -> Ids:
    """Of a user: all that /etc/subuid and /etc/subgid give them, or the one that they are."""
    names = {str(uid), _login(uid)} - {""}
    ranges = [_granted(path, names) for path in ("/etc/subuid", "/etc/subgid")]
    if all(ranges) and all(map(shutil.which, _TOOLS)):
        uids, gids = (((0, me, 1), (1, first, IDS - 1)) for me, first in zip((uid, gid), ranges, strict=True))
        return Ids(uids=uids, gids=gids, by_tool=True)
    return Ids(uids=((0, uid, 1),), gids=((0, gid, 1),))


def to_unpack(owner: tuple[int, int]) -> Ids:
    """Of a process that writes images to disk: their own ids for root, and for a user what their boxes see."""
    if os.getuid() == 0:
        whole = ((0, 0, IDS),)
        return Ids(uids=whole, gids=whole)
    return own(os.getuid(), os.getgid()).seen_by(owner)


def give(pid: int, ids: Ids) -> None:
    """Write the maps of a process that waits for them, with the tools that may where we may not."""
    if not ids.by_tool:
        _write(pid, ids)
        return
    for tool, ranges in zip(_TOOLS, (ids.uids, ids.gids), strict=True):
        program = shutil.which(tool) or tool
        words = [str(number) for one in ranges for number in one]
        done = proc.run([program, str(pid), *words], env={}, timeout_s=_TOOL_S, cwd="/")
        if done.code:
            why = done.stderr.decode(errors="replace").strip()[:200]
            raise Unavailable(f"{tool} gave the box no ids: {why}", hint="run `paddock doctor`", code="ids")


def _write(pid: int, ids: Ids) -> None:
    uids, gids = ids.texts()
    rows = (("uid_map", uids), ("gid_map", gids))
    for name, text in rows if os.getuid() == 0 else (("setgroups", "deny"), *rows):
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _granted(path: str, names: set[str]) -> int:
    """The first id of a range that is large enough; 0 if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [line.strip().split(":") for line in file]
    except FileNotFoundError:
        return 0
    for row in rows:
        if len(row) == 3 and row[0] in names and row[1].isdigit() and row[2].isdigit() and int(row[2]) >= IDS - 1:
            return int(row[1])
    return 0


def of_caller(index: int) -> Ids:
    return block(index) if os.getuid() == 0 else own(os.getuid(), os.getgid())
