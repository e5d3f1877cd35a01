"""The tool store: programs of agents, installed once, shared by all boxes, and written by nobody afterwards.

    tools/NAME/VERSION/{tree, manifest, record.json}    tools/NAME/current: the version that the next box gets

A version appears by one rename of a directory that is whole and on disk. What an install that was killed left lies in a
directory whose name begins with a dot; the next install removes it, since installs take turns.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from paddock import codec, fs, limits
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.model import Mount
from paddock.tools import staging, trees

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = "/opt/paddock"  # where boxes have their tools
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?\Z")
_VERSION: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.+_-]{0,62}[0-9A-Za-z])?\Z")
_RECORD_BYTES: Final = 4 * limits.MIB  # a digest for each of some thousand packages
_CURRENT: Final = "current"
_HIDDEN: Final = "."
_REMOVED: Final = ".removed-"
STAGING: Final = ".staging-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was installed, from where, and how it is known again."""

    name: str
    version: str
    source: Literal["npm", "pip"]
    package: str
    program: str
    digest: str  # sha256 of the manifest
    files: int
    size_bytes: int
    installed: str
    integrity: dict[str, str] = field(default_factory=dict)  # of each package, as the registry's index has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    record: Record
    directory: str

    @property
    def tree(self) -> str:
        return f"{self.directory}/tree"

    @property
    def mount(self) -> Mount:
        return Mount(source=self.tree, target=f"{ROOT}/{self.record.name}", read_only=True)

    @property
    def program(self) -> str:
        """As a box has it."""
        return f"{ROOT}/{self.record.name}/bin/{self.record.program}"

    def changed(self) -> tuple[str, ...]:
        """The files that are not what was installed; empty when all are. Reads everything."""
        try:
            with open(f"{self.directory}/manifest", encoding="utf-8") as file:
                known = file.read()
        except (OSError, UnicodeDecodeError):
            return ("manifest",)
        if trees.digest(known) != self.record.digest:
            return ("manifest",)
        return trees.difference(known, self.tree)


def check_name(name: str) -> str:
    """A name that can be a directory of ours and of a box."""
    if not _NAME.match(name):
        raise UserError(f"{name[:80]!r} cannot be the name of a tool", hint="use a-z 0-9 _ -", code="bad-name")
    return name


def check_version(version: str) -> str:
    if not _VERSION.match(version) or ".." in version or version == _CURRENT:
        raise UserError(f"{version[:80]!r} is not a version", hint="for example 2.1.3, or latest", code="bad-version")
    return version


class Store:
    """`directory` need not exist; nothing is made before something is installed."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Store {self.directory}>"

    def turn(self, wait_s: float = limits.TOOL_INSTALL_S) -> fs.FileLock:
        """Whoever changes the store holds this."""
        fs.make_private_dir(self.directory)
        return fs.FileLock(f"{self.directory}/.lock", wait_s=wait_s)

    # -- what is there -------------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return tuple(name for name in _listed(self.directory) if _NAME.match(name) and self.versions(name))

    def versions(self, name: str) -> tuple[str, ...]:
        """Those of a tool that are whole, in no order of theirs."""
        there = _listed(f"{self.directory}/{check_name(name)}")
        return tuple(one for one in there if one != _CURRENT and _VERSION.match(one))

    def find(self, name: str, version: str) -> Tool | None:
        directory = f"{self.directory}/{check_name(name)}/{check_version(version)}"
        try:
            with open(f"{directory}/record.json", "rb") as file:
                record = codec.from_wire(Record, json.loads(file.read(_RECORD_BYTES)), "record")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, PaddockError) as error:
            raise _damaged(name, version) from error
        if (record.name, record.version) != (name, version):
            raise _damaged(name, version)
        return Tool(record=record, directory=directory)

    def current(self, name: str) -> Tool | None:
        """The one that the next box of this agent gets."""
        try:
            with open(f"{self.directory}/{check_name(name)}/{_CURRENT}", encoding="ascii") as file:
                version = file.read(128).strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _damaged(name, _CURRENT) from error
        return self.find(name, version) or self._last(name)  # who removed that one was killed before it said so

    # -- changes, by who holds the turn --------------------------------------------------------------------------------

    def stage(self) -> staging.Staging:
        """Room for an install; what earlier ones left is removed."""
        self.clear()
        return staging.Staging(f"{self.directory}/{STAGING}{os.urandom(8).hex()}")

    def use(self, tool: Tool) -> None:
        directory = os.path.dirname(tool.directory)
        fs.write_atomic(f"{directory}/{_CURRENT}", f"{tool.record.version}\n".encode())

    def publish(self, staged: str, record: Record) -> Tool:
        """`staged` has a tree and its manifest. It is the current version when this returns, or was never there."""
        name, version = check_name(record.name), check_version(record.version)
        data = json.dumps(codec.to_wire(record), indent=1).encode()
        fs.write_atomic(f"{staged}/record.json", data, sync=False)
        fs.make_private_dir(f"{self.directory}/{name}")
        at = os.open(f"{self.directory}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fs.sync_file_systems([at])  # the staged tree lies on the same one
            os.rename(staged, version, dst_dir_fd=at)
            os.fsync(at)
        finally:
            os.close(at)
        tool = Tool(record=record, directory=f"{self.directory}/{name}/{version}")
        self.use(tool)
        return tool

    def remove(self, name: str, version: str, users: Callable[[str], tuple[str, ...]]) -> str:
        """Take a version away; the one installed last of the others is used then: its version, or nothing.

        `users` names the boxes that have a tree. It is asked when no box can begin to use this one any more.
        """
        directory = f"{self.directory}/{check_name(name)}/{check_version(version)}"
        aside = f"{self.directory}/{_REMOVED}{os.urandom(8).hex()}"
        os.rename(directory, aside)
        try:
            if boxes := users(f"{directory}/tree"):
                raise UserError(
                    f"{name} {version} is used by {', '.join(boxes)}",
                    hint=f"`paddock stop {boxes[0]}` ends it; a box that starts then takes the current version",
                    code="in-use",
                )
        except BaseException:
            os.rename(aside, directory)
            raise
        fs.remove_tree(aside)
        return self._settle(name)

    def clear(self) -> None:
        """Remove what installs and removals that were killed left."""
        for name in _listed(self.directory, hidden=True):
            if name.startswith(STAGING):
                staging.remove(f"{self.directory}/{name}")
            elif name.startswith(_REMOVED):
                fs.remove_tree(f"{self.directory}/{name}")

    def _whole(self, name: str, version: str) -> Tool | None:
        try:
            return self.find(name, version)
        except Unavailable:
            return None

    def _last(self, name: str) -> Tool | None:
        """The one installed last of those that are whole."""
        found = [tool for version in self.versions(name) if (tool := self._whole(name, version))]
        return max(found, key=lambda tool: tool.record.installed, default=None)

    def _settle(self, name: str) -> str:
        try:
            current = self.current(name)
        except Unavailable:
            current = self._last(name)
        if current is not None:
            self.use(current)
        elif not self.versions(name):
            fs.remove_tree(f"{self.directory}/{name}")
        return current.record.version if current else ""


def _listed(directory: str, *, hidden: bool = False) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name.startswith(_HIDDEN) == hidden)


def _damaged(name: str, version: str) -> Unavailable:
    return Unavailable(
        f"the record of the tool {name} {version} is damaged",
        hint=f"`paddock agent rm {name}`, then `paddock agent install {name}`",
        code="tool-damaged",
    )
