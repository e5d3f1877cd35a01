"""`FROM debian` and `FROM ubuntu` without a registry: a base made of the distribution's packages by mmdebstrap.

Packages come from where the host's own apt has them, by the host's own keys; the suite may be another than the host's.
mmdebstrap unpacks and configures in a user namespace, so what packages run is nobody of the host. Without a range of
ids there is no such base: packages have users of their own.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import limits, proc
from paddock.engines.container import ids
from paddock.errors import Unavailable
from paddock.text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.reference import Reference

_LATEST: Final = {"debian": "bookworm", "ubuntu": "noble"}
_NUMBERS: Final = {"11": "bullseye", "12": "bookworm", "13": "trixie", "22.04": "jammy", "24.04": "noble"}
_SUITE: Final = re.compile(r"[a-z][a-z-]{1,30}")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SOURCES: Final = "/etc/apt/sources.list"
_KEYRINGS: Final = {
    "debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}
_FILE_BYTES: Final = 1 << 16
_SAID_BYTES: Final = 1 << 16
_SAID_LINES: Final = 3
_LOOK_S: Final = 0.5
_CLEAN_S: Final = 30.0
_PACKAGES: Final = ("ca-certificates",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One line of apt's."""

    uri: str
    suite: str
    components: tuple[str, ...]
    keyring: str = ""

    def line(self) -> str:
        signed = f"[signed-by={self.keyring}] " if self.keyring else ""
        return f"deb {signed}{self.uri} {self.suite} {' '.join(self.components)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    name: str
    suite: str

    def __str__(self) -> str:
        return f"{self.name}:{self.suite}"

    def key(self) -> str:
        """What decides of what it is made; not when: a base stays as it was made until somebody prunes it."""
        return json.dumps(["distribution", self.name, self.suite, _PACKAGES, [one.line() for one in sources(self)]])


def parse(reference: Reference) -> Wanted | None:
    """None for what is no distribution that can be made."""
    if reference.name not in _LATEST:
        return None
    tag = reference.tag.removesuffix("-slim")
    suite = _LATEST[reference.name] if tag in {"latest", "stable"} else _NUMBERS.get(tag, tag)
    return Wanted(name=reference.name, suite=suite) if _SUITE.fullmatch(suite) else None


def sources(wanted: Wanted) -> list[Source]:
    """Where the host has this suite from; of another suite, where it has its own from."""
    known = [one for one in _host_sources() if f"/{wanted.name}" in one.uri]
    own = [one for one in known if one.suite == wanted.suite or one.suite.startswith(f"{wanted.suite}-")]
    if not own and known:
        keyring = _KEYRINGS[wanted.name] if os.path.exists(_KEYRINGS[wanted.name]) else known[0].keyring
        own = [Source(uri=known[0].uri, suite=wanted.suite, components=("main",), keyring=keyring)]
    if not own:
        hint = f"load an image of it (`paddock template load`), or add a mirror of {wanted.name} to {_SOURCES}"
        raise Unavailable(f"this host's apt has no mirror of {wanted.name}", hint=hint, code="no-mirror")
    return own


def make(wanted: Wanted, place: str, proceed: Callable[[], None], packages: tuple[str, ...] = _PACKAGES) -> None:
    """The archive of its root, as a new file. May take minutes."""
    program = shutil.which("mmdebstrap", path=_PATH)
    if program is None:
        hint = "`apt install mmdebstrap`; or load an image from a file"
        raise Unavailable(f"{wanted} is made of packages by mmdebstrap, which is not here", hint=hint, code="no-base")
    if ids.of_caller(0).count < ids.IDS:
        hint = "ask for some: `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`"
        raise Unavailable(f"{wanted} is made of packages, which need subordinate ids", hint=hint, code="ids")
    lines = [one.line() for one in sources(wanted)]
    words = ["--mode=unshare", "--variant=minbase", "--format=tar", f"--include={','.join(packages)}"]
    # What a package brings and a box does not need; as in the images that distributions publish.
    words += ["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*"]
    words += ["--dpkgopt=path-include=/usr/share/doc/*/copyright", '--aptopt=Acquire::Languages "none"']
    argv = [program, *words, wanted.suite, place, *lines]
    _run(argv, wanted, os.path.dirname(place), proceed)


def _run(argv: list[str], wanted: Wanted, directory: str, proceed: Callable[[], None]) -> None:
    log_path = f"{directory}/mmdebstrap.log"
    log = os.open(log_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    env = {"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TMPDIR": "/tmp"}
    try:
        deadline = time.monotonic() + limits.BUILD_BASE_S
        with proc.spawn_child(argv, env=env, pass_fds={1: log, 2: log}) as child:
            try:
                while (code := child.wait(_LOOK_S)) is None:
                    proceed()
                    if time.monotonic() > deadline:
                        raise Unavailable(f"{wanted} was not made in {limits.BUILD_BASE_S:.0f} s", code="no-base")
            except BaseException:
                child.signal(signal.SIGTERM)  # it removes what it made outside of our directory
                child.wait(_CLEAN_S)
                raise
        if code:
            raise Unavailable(f"mmdebstrap could not make {wanted}: {_said(log)}", hint=_HINT, code="no-base")
    finally:
        os.close(log)


_HINT: Final = "`apt update` says whether this host reaches its mirror"


def _said(log: int) -> str:
    text = os.pread(log, _SAID_BYTES, max(0, os.fstat(log).st_size - _SAID_BYTES)).decode(errors="replace")
    lines = [line for line in text.splitlines() if line.startswith("E:")] or text.splitlines()
    return neutralise("; ".join(lines[-_SAID_LINES:]), 400)


# -- the host's own ----------------------------------------------------------------------------------------------------


def _host_sources() -> list[Source]:
    found: list[Source] = []
    for path in (_SOURCES, *sorted(glob.glob(f"{_SOURCES}.d/*"))):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(_FILE_BYTES)
        except OSError:
            continue
        if path.endswith(".list"):
            found += _lines(text)
        elif path.endswith(".sources"):
            found += _stanzas(text)
    return found


def _lines(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        match = re.fullmatch(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(\S.*)", line.partition("#")[0].strip())
        if match:
            options = dict(word.split("=", 1) for word in (match[1] or "").split() if "=" in word)
            keyring = options.get("signed-by", "")
            yield Source(uri=match[2], suite=match[3], components=tuple(match[4].split()), keyring=keyring)


def _stanzas(text: str) -> Iterator[Source]:
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        fields = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
            continue
        keyring = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield Source(uri=uri, suite=suite, components=components, keyring=keyring if "/" in keyring else "")
