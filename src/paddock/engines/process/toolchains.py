"""Which directories of the caller's PATH a box sees, and what their programs need beside them.

Theory. The box sees /usr. Every other entry of the PATH is looked up in toolchain_table.py, by its place or by its
layout; one that nobody knows shows only itself, and only if nothing in it looks like a credential. A tree appears under
the name the PATH gives it and, where that leads through symlinks, also under its real name, so that absolute links
inside it hold; boundary.py judges both names. What stays in doubt is not shown: a program may miss its files, a secret
is never the price.

Links are the way to be fooled. A PATH often names a directory in a project (an activated virtual environment), and the
project is a box's to write: a link planted there must not show the next box another part of the home. So a link counts
only where no box writes: in /usr and /opt, at the root of a tool's own place, or when it leads into a place the table
shows.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass, field
from typing import Final

from paddock.engines.process import credentials
from paddock.engines.process.boundary import Boundary, is_below
from paddock.engines.process.toolchain_table import LAYOUTS, ROWS, Row

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_STORES: Final = ("/nix/store", "/gnu/store")  # world-readable by design, and too large to look through
_HOPS: Final = 4  # links between the python of a virtual environment and its interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchains:
    """`trees` are bound read-only at their own path, then an empty file over each of `covers`."""

    trees: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()


def find(path_value: str, home: str) -> Toolchains:
    """What of the caller's PATH works in a box. Entries that are relative, missing or refused are left out."""
    finder = _Finder(home)
    path = [name for entry in path_value.split(":") if (name := finder.show_entry(entry))]
    trees = tuple(tree for tree in sorted(finder.trees) if not is_below(os.path.dirname(tree), finder.trees))
    return Toolchains(
        trees=trees, covers=tuple(sorted(finder.covers(trees))), env=finder.env, path=tuple(dict.fromkeys(path))
    )


class _Finder:
    def __init__(self, home: str) -> None:
        home = os.path.normpath(home)
        self.homes = tuple(dict.fromkeys((home, os.path.realpath(home)))) if home.startswith("/") else ()
        self.boundary = Boundary(self.homes)
        self.rows = [(root, row) for row in ROWS for root in self._expand(row.root)]
        self.trees: dict[str, None] = {}
        self.env: dict[str, str] = {}
        self.secrets: dict[str, tuple[str, ...]] = {}
        self.real: dict[str, str] = {}

    def show_entry(self, entry: str) -> str:
        """Show one entry of the PATH; the name it has in the box, or nothing."""
        if not entry.startswith("/") or ".." in entry.split("/"):
            return ""
        name = "/" + os.path.normpath(entry).lstrip("/")
        real = self._real(name)
        if not real:
            return ""
        in_usr = is_below(name, _SYSTEM)
        if not in_usr and (not self.boundary.allows(name, known=True) or is_below(real, (*_STORES, *_SYSTEM))):
            return real if self._show(real, by_link=True) else ""  # as for a profile of Nix in /etc, or of fnm in /run
        if not (self._show(name) and self._show(real, by_link=not in_usr)):
            return ""
        if name == "/usr/local/bin" or self._match(name)[0].tool == "local":
            self._follow_links(name)
        return name

    def covers(self, trees: tuple[str, ...]) -> set[str]:
        """Files in the trees to hide, each under every name it has there: through no link, so that it can be bound."""
        starts = {tree: self._real(tree) for tree in trees}
        places = set(starts.values()).difference(_STORES)
        found = {f"{place}/.git/config" for place in places}
        found.update(path for place in places for path in credentials.near_the_top(place))
        for root, patterns in self.secrets.items():
            for pattern in patterns:
                found.update(f"{root}/{path}" for path in glob.glob(pattern, root_dir=root, include_hidden=True))
        files = [os.path.realpath(path) for path in found if os.path.isfile(path)]
        return {
            tree + path.removeprefix(start)
            for path in files
            for tree, start in starts.items()
            if is_below(path, [start]) and not is_below(path, _SYSTEM)
        }

    def _show(self, path: str, *, by_link: bool = False) -> bool:
        """Show a directory and what belongs to it; the target of a link only if the table or /opt has it."""
        if self._is_shown(path):
            return True
        row, root = self._match(path)
        if root:
            if is_below(path, _places(row, root)):
                self._show_row(row, root)
        elif self.boundary.allows(path) and (path.startswith("/opt/") or not by_link):
            self._show_unknown(path)
        return self._is_shown(path)

    def _show_row(self, row: Row, root: str) -> None:
        shown = [self._add(tree, root) for tree in _places(row, root)]
        if not any(shown):
            return
        for tree in (tree for pattern in row.also for place in self._expand(pattern) for tree in _glob(place)):
            self._add(tree, tree)
        self.secrets[root] = row.secrets
        for name, value in row.env.items():
            place = self._expand(value)[0] if value.startswith("~") else os.path.join(root, value).rstrip("/")
            if os.path.isdir(place):
                self.env.setdefault(name, place)

    def _show_unknown(self, path: str) -> None:
        prefix = os.path.dirname(path) if os.path.basename(path) in {"bin", "sbin"} else ""
        layout = next((x for x in LAYOUTS if prefix and os.path.exists(os.path.join(prefix, x.marker))), None)
        if layout and self.boundary.allows(prefix) and ("" not in layout.shows or self._is_plain(prefix, whole=True)):
            for place in layout.shows:
                self._add(os.path.join(prefix, place).rstrip("/"))
            self._follow_python(path)
        if not self._is_shown(path) and prefix.startswith("/opt/"):
            self._add(prefix)
        if not self._is_shown(path) and self._is_plain(path):
            self._add(path)

    def _add(self, tree: str, root: str = "") -> bool:
        """Show a tree under its name and its real one; `root` is the place of the table it belongs to, if any."""
        real = self._real(tree)
        if not real or not self.boundary.allows(tree, known=bool(root)) or not self.boundary.trusts(tree):
            return False
        if not is_below(real, _SYSTEM):
            row, place = self._match(real)
            named = bool(place) and is_below(real, _places(row, place))
            straight = named or self._is_straight(tree, real, root)
            if not (straight and self.boundary.allows(real, known=named) and self.boundary.trusts(real)):
                return False
            self.trees[real] = None
        self.trees[tree] = None
        return True

    def _is_straight(self, tree: str, real: str, root: str) -> bool:
        """Do only such links lie between the two names as no box can have written?"""
        for top in (root, *self.homes, "/opt"):
            if top and is_below(tree, [top]):
                start = os.path.realpath(top)
                return real == start + tree.removeprefix(top) or (top == "/opt" and is_below(real, [start]))
        return real == tree

    def _follow_links(self, directory: str) -> None:
        """Show the tools that links in a directory of programs lead into."""
        real = self._real(directory)
        try:
            with os.scandir(real) as entries:
                targets = [os.path.join(real, os.readlink(entry.path)) for entry in entries if entry.is_symlink()]
        except OSError:
            return
        for place in sorted({os.path.dirname(os.path.normpath(target)) for target in targets}):
            if place not in {directory, real} and self._show(place, by_link=True):
                self._follow_python(place)

    def _follow_python(self, directory: str) -> None:
        """A virtual environment runs the interpreter it was made with, wherever that is."""
        python = os.path.join(directory, "python")
        for _ in range(_HOPS):
            try:
                python = os.path.normpath(os.path.join(os.path.dirname(python), os.readlink(python)))
            except OSError:
                break
        place = os.path.dirname(python)
        if not place.startswith("/opt/"):
            self._show(place, by_link=True)
            return
        # The environment may be a project's, and its link a box's work: of /opt it leads to Pythons only.
        prefix = os.path.dirname(place)
        if glob.glob(f"{glob.escape(prefix)}/lib/python3*"):
            self._add(place)
            self._add(os.path.join(prefix, "lib"))

    def _match(self, path: str) -> tuple[Row, str]:
        """The row a path lies in, with its root; an empty root if there is none."""
        for root, row in self.rows:
            if "*" in row.root:
                parent, _, pattern = root.rpartition("/")
                name = path.removeprefix(parent + "/").partition("/")[0]
                if path.startswith(parent + "/") and fnmatch.fnmatchcase(name, pattern):
                    return row, f"{parent}/{name}"
            elif path == root or path.startswith(root + "/"):
                return row, root
        return _NO_ROW, ""

    def _is_plain(self, directory: str, *, whole: bool = False) -> bool:
        """No credential in sight, no tool's place below it that has its own rules, and as a whole no project."""
        if any(root.startswith(directory + "/") for root, _ in self.rows):
            return False
        if whole and os.path.lexists(os.path.join(directory, ".git")):
            return False
        return next(credentials.near_the_top(directory), None) is None

    def _is_shown(self, path: str) -> bool:
        return is_below(path, _SYSTEM) or is_below(path, self.trees)

    def _real(self, directory: str) -> str:
        if directory not in self.real:
            self.real[directory] = os.path.realpath(directory) if os.path.isdir(directory) else ""
        return self.real[directory]

    def _expand(self, place: str) -> list[str]:
        return [home + place[1:] for home in self.homes] if place.startswith("~") else [place]


_NO_ROW: Final = Row("", "")


def _places(row: Row, root: str) -> list[str]:
    return [os.path.join(root, place).rstrip("/") for place in row.shows]


def _glob(place: str) -> list[str]:
    base, _, name = place.rpartition("/")
    return glob.glob(f"{glob.escape(base)}/{name}") if "*" in name else [place]
