"""Which words make npm or pip put a package into a directory, and what their own lists say has come.

They run in a box. What they leave there is read as hostile: bounded, and only for what is recorded.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from paddock import fs, limits
from paddock.errors import Unavailable, UserError
from paddock.tools.store import check_version

if TYPE_CHECKING:
    from paddock.agents import Agent

LATEST: Final = "latest"
_NPM: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]{0,99}/)?[a-z0-9][a-z0-9._~-]{0,99}\Z")
_PIP: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?\Z")
_ARCHITECTURES: Final = {"x86_64": "x64", "aarch64": "arm64"}
_REPORT: Final = "report.json"
_KEPT_CHARS: Final = 256  # of a digest
_NPM_WORDS: Final = (
    *("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", "--no-update-notifier"),
    *("--no-progress", "--cache=/tmp/npm", "--globalconfig=/dev/null"),
)
# Not `-m pip`: a shim of pyenv's looks out for that, and fails afterwards where it cannot write.
_RUN_PIP: Final = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)"
_PIP_WORDS: Final = (
    *("python3", "-c", _RUN_PIP, "install", "--target=lib", "--only-binary=:all:", "--no-cache-dir", "--no-input"),
    *("--no-compile", "--disable-pip-version-check", "--quiet", f"--report={_REPORT}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One package of an agent, in one version or the newest."""

    source: Literal["npm", "pip"]
    package: str
    version: str  # may be `latest`, or another tag of npm's
    also: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    manager: str = ""  # the program that the host needs for it

    def at(self, registry: str) -> tuple[str, ...]:
        """The words that fetch it from a registry, or from its own."""
        option = "--registry" if self.source == "npm" else "--index-url"
        return (*self.argv, *([f"{option}={registry}"] if registry else []), "--", *self._wanted())

    def _wanted(self) -> tuple[str, ...]:
        if self.source == "npm":
            return (f"{self.package}@{self.version}", *self.also)
        return (self.package if self.version == LATEST else f"{self.package}=={self.version}", *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    version: str
    integrity: dict[str, str] = field(default_factory=dict)


def architecture() -> str:
    """This machine's, as npm's packages spell it; empty for one that they do not have."""
    return _ARCHITECTURES.get(os.uname().machine, "")


def order(agent: Agent, version: str) -> Order:
    """What to install for an agent; UserError when its definition does not say, or says nonsense."""
    install = agent.install
    version = check_version(version or agent.verified or LATEST)
    if not architecture() and (install.node or "{arch}" in install.entry):
        raise not_installable(agent, f"there is none for {os.uname().machine}")
    if install.npm:
        node = (f"node-linux-{architecture()}@{check_version(install.node)}",) if install.node else ()
        also = (*(_with_version(one, _NPM) for one in install.also), *node)
        package = _checked(install.npm, _NPM)
        return Order(source="npm", package=package, version=version, also=also, argv=_NPM_WORDS, manager="npm")
    if install.pip:
        also = tuple(_with_version(one, _PIP).replace("@", "==") for one in install.also)
        package = _checked(install.pip, _PIP)
        return Order(source="pip", package=package, version=version, also=also, argv=_PIP_WORDS, manager="python3")
    raise not_installable(agent, "it is on no registry that we know")


def not_installable(agent: Agent, why: str) -> UserError:
    words = agent.install.otherwise or f"install {agent.program!r} as its maker says, so that it is on your PATH"
    return UserError(f"paddock cannot install {agent.title}: {why}", hint=words, code="not-installable")


def entry_of(agent: Agent) -> str:
    """The file of the tree that is its program."""
    if agent.install.entry:
        return agent.install.entry.replace("{arch}", architecture())
    return f"node_modules/.bin/{agent.program}" if agent.install.npm else f"lib/bin/{agent.program}"


def prepare(asked: Order, directory: str) -> None:
    """What npm wants to find, so that it looks no further up."""
    if asked.source == "npm":
        with open(f"{directory}/package.json", "w", encoding="ascii") as file:
            json.dump({"name": "tool", "private": True}, file)


def came(asked: Order, directory: str) -> Came:
    """What was installed, by the package manager's own list."""
    found = _from_npm(asked, directory) if asked.source == "npm" else _from_pip(asked, directory)
    if found is None:
        raise Unavailable(f"{asked.manager} does not say which version of {asked.package} it installed", code="install")
    check_version(found.version)
    return found


def _from_npm(asked: Order, directory: str) -> Came | None:
    packages = _dict(_read(directory, "package-lock.json").get("packages"))
    version = _dict(packages.get(f"node_modules/{asked.package}")).get("version")
    digests = {path: _dict(row).get("integrity") for path, row in packages.items()}
    return Came(version=version, integrity=_plain(digests)) if isinstance(version, str) else None


def _from_pip(asked: Order, directory: str) -> Came | None:
    rows = _read(directory, _REPORT).get("install")
    version, digests = "", {}
    for row in rows if isinstance(rows, list) else []:
        metadata = _dict(_dict(row).get("metadata"))
        archive = _dict(_dict(_dict(row).get("download_info")).get("archive_info"))
        name, this = str(metadata.get("name")), str(metadata.get("version"))
        digests[f"{name}=={this}"] = archive.get("hash")
        if _canonical(name) == _canonical(asked.package):
            version = this
    return Came(version=version, integrity=_plain(digests)) if version else None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _plain(digests: dict[str, object]) -> dict[str, str]:
    return {key[:_KEPT_CHARS]: value[:_KEPT_CHARS] for key, value in digests.items() if isinstance(value, str)}


def _read(directory: str, name: str) -> dict[str, object]:
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _dict(json.loads(fs.read_beneath(at, name, limits.TOOL_FILE_BYTES)))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(at)


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _with_version(word: str, names: re.Pattern[str]) -> str:
    name, at, version = word.rpartition("@")
    if not at or not name:
        return _checked(word, names)
    check_version(version)
    return f"{_checked(name, names)}@{version}"


def _checked(name: str, names: re.Pattern[str]) -> str:
    if not names.match(name) or ".." in name:
        raise UserError(f"{name[:80]!r} is not the name of a package", code="bad-package")
    return name
