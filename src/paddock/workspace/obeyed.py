"""Files of a work tree that its own repository makes the host's git obey, whatever they are called.

A team may keep its hooks among its files (`core.hooksPath`, or links out of `.git/hooks`), include a configuration file
that is under version control, or name a script of the project as filter or text converter. In live mode a box could
write them and the host's next `git status` or `git commit` would run what it wrote, so they are closed like `.git`.
Hard links cannot be closed: a file of `.git` that has a second name among the files is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from dataclasses import dataclass, field

from paddock import fs, limits
from paddock.errors import UserError
from paddock.paths import home_directory
from paddock.text import neutralise
from paddock.workspace import nested, refs, repository, settings
from paddock.workspace.repository import Repository
from paddock.workspace.tree import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.workspace.settings import Settings
    from paddock.workspace.tree import Place

_INCLUDES_DEPTH = 10  # as git
_OWN = ("config", "config.worktree", "HEAD", "index", "packed-refs", "hooks", "info", "info/attributes")
_PROGRAMS = re.compile(
    r"core\.(fsmonitor|pager|editor|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|pager\..+"
    r"|(filter|diff|merge|trailer|browser|man|difftool|mergetool|guitool|hook)\..+|diff\.external|alias\..+"
    r"|(gpg|credential|interactive|sendemail|uploadpack|init|remote|submodule)\..+"
)


@dataclass(slots=True)
class _Search:
    found: Repository
    home: str
    paths: dict[str, bool] = field(default_factory=dict)  # as git would open them; True: a directory of hooks

    def run(self) -> None:
        self._links(self.found.git_dir)
        self._links(self.found.common_dir)
        self._obey(self.found.settings, self.found.common_dir, 0)
        for directory in {self.found.git_dir, self.found.common_dir}:
            self._file(f"{directory}/config.worktree", 0)
        for name in (".gitconfig", ".config/git/config") if self.home else ():
            self._file(f"{self.home}/{name}", 0)

    def _links(self, git_dir: str) -> None:
        """What lies outside though git looks for it inside."""
        hooks = f"{git_dir}/hooks"
        names = os.listdir(hooks) if os.path.isdir(hooks) else []
        for place in (*(f"{git_dir}/{name}" for name in _OWN), *(f"{hooks}/{name}" for name in names)):
            if os.path.islink(place):
                self.paths[place] = place == hooks
                if place.endswith(("/config", "/config.worktree")):
                    self._file(os.path.realpath(place), 0)

    def _obey(self, said: Settings, directory: str, depth: int) -> None:
        for key, value in said:
            if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
                path = self._joined(directory, value)
                self.paths[path] = False
                self._file(path, depth + 1)
            elif key == "core.hookspath":
                self.paths[self._joined(self.found.workspace, value)] = True
            elif _PROGRAMS.fullmatch(key):
                for word in _words(value):
                    path = self._joined(self.found.workspace, word)
                    if os.path.isfile(path):
                        self.paths[path] = False

    def _file(self, path: str, depth: int) -> None:
        directory = os.path.dirname(os.path.realpath(path))
        if depth > _INCLUDES_DEPTH or not os.path.isdir(directory):
            return
        with contextlib.suppress(UserError):  # unreadable for us; the file itself is closed all the same
            with repository.opened(directory) as fd:
                text = refs.read_small(fd, os.path.basename(os.path.realpath(path)))
            self._obey(settings.parse(text, path), directory, depth)

    def _joined(self, directory: str, value: str) -> str:
        value = value.replace("\0", "")
        if value.startswith("~/"):
            value = f"{self.home}{value[1:]}"
        return os.path.join(directory, value)


def places(found: Repository, home: str, workspace: str) -> Iterator[tuple[str, bool]]:
    """The paths below `workspace`, which is the work tree of `found` or a part of it, and whether each is for hooks.

    They are relative to it and without links. One may not exist yet; where hooks are looked for, an empty directory
    does no harm.
    """
    search = _Search(found, home)
    search.run()
    inside = f"{workspace}/"
    own = (f"{found.git_dir}/", f"{found.common_dir}/")
    seen: dict[str, bool] = {}
    for path, is_hooks in search.paths.items():
        real = os.path.realpath(path)
        if inside.startswith(f"{real}/"):
            raise _unprotectable(found, "makes git obey all files of the workspace", "set it to a directory of its own")
        if real.startswith(inside) and not f"{real}/".startswith(own):
            seen[real[len(inside) :]] = is_hooks
    if len(seen) > limits.NESTED_MAX:
        raise _unprotectable(found, f"makes git obey over {limits.NESTED_MAX} files of the workspace", "use --review")
    yield from seen.items()


def known(workspace: str) -> tuple[str, ...]:
    """The places of whatever repository a workspace is, for the user who asks; none where that cannot be told."""
    try:
        around = repository.around(repository.find(workspace))
        return tuple(path for path, _ in places(around, home_directory(), workspace)) if around else ()
    except UserError:
        return ()


def check_links(found: Repository, workspace: str) -> None:
    """UserError if a file that git obeys has another name in the workspace, by which a box could write it."""
    inodes = {inode: path for directory in {found.git_dir, found.common_dir} for inode, path in _linked(directory)}
    if not inodes:
        return
    twins: list[tuple[str, str]] = []

    def look(place: Place) -> None:
        for name in place.listing.marked:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
                if status.st_ino in inodes and stat.S_ISREG(status.st_mode):
                    twins.append((f"{place.path}/{name}".lstrip("/"), inodes[status.st_ino]))

    nested.find(workspace, Memory(lambda _, names: names), look=look)
    for twin, path in twins:
        if os.path.samefile(f"{workspace}/{twin}", path):
            message = f"{workspace}/{neutralise(twin)} is another name of {neutralise(path)}, which git obeys"
            raise UserError(message, hint="replace it by a copy, or use --review", code="git-link")


def _linked(git_dir: str) -> Iterator[tuple[int, str]]:
    with repository.opened(git_dir) as fd:
        hooks = f"{git_dir}/hooks"
        names = [f"hooks/{name}" for name in os.listdir(hooks)] if os.path.isdir(hooks) else []
        for name in (*_OWN, *names, "commondir", "objects/info/alternates"):
            try:
                at = fs.open_beneath(fd, name, os.O_PATH)
            except OSError:
                continue
            status = os.fstat(at)
            os.close(at)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                yield status.st_ino, f"{git_dir}/{name}"


def _words(value: str) -> list[str]:
    try:
        return shlex.split(value.removeprefix("!"))
    except ValueError:
        return value.split()


def _unprotectable(found: Repository, what: str, hint: str) -> UserError:
    return UserError(f"the configuration of {found.git_dir} {what}", hint=hint, code="git-unsupported")
