"""Which paths of the host may be shown to a box, and where in the box they may land (SPEC-04).

Every request for a mount ends here, whatever way it came. The answer is about the place, not its spelling: links are
resolved first, and places are compared by device and inode as well as by name, so that a bind mount or another case of
`~/.ssh` is still `~/.ssh` (FS-06). What comes back has no symbolic link in it: whoever opens it later without following
links notices if someone has put one there since.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from dataclasses import dataclass

from paddock.errors import UserError
from paddock.fs import file_system, is_scarcity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

_PATH_CHARS = 4095

# Keys, tokens and agent log-ins, and files the host runs or obeys later: nothing in them is for a box.
_HOME_SEALED = (
    ".ssh", ".gnupg", ".pki", ".password-store", ".netrc", ".git-credentials", ".config", ".vault-token",
    ".aws", ".azure", ".oci", ".boto", ".s3cfg", ".kube", ".minikube", ".docker", ".terraform.d", ".terraformrc",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml",
    ".m2/settings.xml", ".gradle/gradle.properties", ".pgpass", ".my.cnf", ".cache/huggingface",
    ".claude", ".claude.json", ".codex", ".gemini", ".copilot", ".kiro", ".cagent", ".cursor", ".aider.conf.yml",
    ".local/bin", ".local/lib", ".local/share/keyrings", ".local/share/opencode", ".mozilla", ".thunderbird",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_history", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zsh_history", ".gitconfig", ".vscode", ".vscode-server",
    ".xprofile", ".xsession", ".Xauthority",
)  # fmt: skip
# Mixed directories: a project may live below them, but they are not for a box as a whole.
_HOME_WHOLE = (".local", ".local/share", ".local/state", ".cache")

_SYSTEM_SEALED = (
    "/proc", "/sys", "/dev", "/run", "/boot", "/efi", "/etc", "/lost+found", "/snap",
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/include",
    "/usr/etc", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/libexec", "/usr/local/etc",
    "/var/run", "/var/lock", "/var/spool", "/var/mail", "/var/backups", "/var/cache", "/var/db",
    "/var/lib/apt", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/systemd", "/var/lib/sudo",
    "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher",
    "/var/lib/snapd", "/var/lib/flatpak", "/var/lib/AccountsService", "/var/lib/NetworkManager",
    "/tmp/.X11-unix", "/tmp/.ICE-unix", "/tmp/.font-unix",
)  # fmt: skip
_SYSTEM_WHOLE = (
    "/home",
    "/tmp",
    "/usr",
    "/usr/local",
    "/usr/share",
    "/usr/src",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
)
# Desktops mount removable disks there; a project on one is as good as any.
_GAPS = {"/run": "/run/media", "/var/run": "/run/media"}

# File systems that show the kernel or other processes, wherever they are mounted (a chroot has its own /proc).
_KERNEL_FILE_SYSTEMS = frozenset({
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "selinuxfs",
    "configfs", "bpf", "pstore", "efivarfs", "binfmt_misc", "mqueue", "hugetlbfs", "fusectl", "rpc_pipefs", "nsfs",
})  # fmt: skip

_BOX_HOME = "/home/agent"
_BOX_SEALED = (
    "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    "/var/run", "/var/lock",
)  # fmt: skip
_BOX_WHOLE = ("/", "/home", _BOX_HOME, "/tmp", "/var", "/var/tmp")

_PASSWD_FIELDS = 7
_PEOPLE = range(1000, 60000)  # uids of people, by the convention of all distributions

_HINT_PROJECT = "give a project directory, for example `paddock run shell ~/project`"
_HINT_COPY = "copy what the box needs into the project"

Mark = str | tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    own: frozenset[Mark]
    lineage: frozenset[Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A place that no box sees, nor any directory that holds it; sealed: nor anything inside, but for `gap`."""

    place: str
    label: str
    hint: str = _HINT_PROJECT
    sealed: bool = False
    gap: str = ""


def check_source(path: str, *, home: str, state_dirs: tuple[str, ...], what: str) -> str:
    """The real path of a host directory or file that a box may have, or UserError; `what` names it in messages."""
    real = _resolve(path, what)
    shown = _show(real) if real == path else f"{_show(path)} -> {_show(real)}"
    _check_kind(real, shown, what)
    seen = _Places()
    source = _Source(own=seen.marks(real), lineage=seen.lineage(real))
    for rule in _rules(source, home, state_dirs, seen):
        if reason := _breach(source, rule, seen):
            there = f"{rule.label} {_show(rule.place)}"
            plain = reason == "is" and path == rule.place
            text = there if plain else f"{_show(path) if reason == 'is' else shown}, which {reason} {there}"
            raise _refused(f"the {what} cannot be {text}", rule.hint)
    return real


def mounts_inside(directory: str) -> list[str]:
    """What is mounted below a directory, outer ones first."""
    return sorted(point for point in _mount_points() if point.startswith(directory.rstrip("/") + "/"))


def secret_mounts(directory: str, *, home: str, state_dirs: tuple[str, ...]) -> list[str]:
    """Mount points inside an approved directory whose content may not be shown; outer ones come first."""
    found = []
    for point in mounts_inside(directory):
        try:
            check_source(point, home=home, state_dirs=state_dirs, what="mount")
        except UserError:
            found.append(point)
    return found


def check_target(path: str) -> str:
    """The normal form of a place in the box where a mount may land, or UserError."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if not _is_absolute(path) or ".." in parts or len(path) > _PATH_CHARS:
        raise _bad_target(f"a mount cannot land at {path[:80]!r}", "give an absolute path without '..'")
    target = "/" + "/".join(parts)
    for place in _BOX_SEALED:
        if target == place or target.startswith(place + "/"):
            raise _bad_target(f"a mount cannot land at {_show(target)}, the box has its own {place}")
    if target in _BOX_WHOLE:
        raise _bad_target(f"a mount cannot cover {_show(target)} of the box")
    return target


def _resolve(path: str, what: str) -> str:
    if not _is_absolute(path):
        raise UserError(f"the {what} {path[:80]!r} is not an absolute path", hint="begin it with /", code="bad-source")
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:
        hint = "check the spelling" if isinstance(error, FileNotFoundError) else "check its permissions and links"
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        raise UserError(f"the {what} {_show(path)} {reason}", hint=hint, code="bad-source") from error


def _is_absolute(path: str) -> bool:
    """Begins with / and can be the name of a file: no NUL, and no half of a surrogate pair, which JSON can hold."""
    try:
        return path.startswith("/") and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _check_kind(real: str, shown: str, what: str) -> None:
    """Only directories and regular files, and no view of the kernel."""
    try:
        fd = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if is_scarcity(error):
            raise
        raise _refused(f"the {what} {shown} cannot be opened: {error.strerror}") from error
    try:
        mode = os.fstat(fd).st_mode
        kind = file_system(fd)
    finally:
        os.close(fd)
    if stat.S_ISSOCK(mode):
        hint = "leave it out: what a box may reach is for the network policy to say"
        raise _refused(f"the {what} {shown} is a socket, and commands the program behind it", hint)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _refused(f"the {what} {shown} is neither a directory nor a regular file")
    if kind in _KERNEL_FILE_SYSTEMS:
        raise _refused(f"the {what} cannot be {shown}, which is part of a {kind} file system")


def _mount_points() -> Iterator[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file.read().split("\n")[:-1]:
            point = line.split(" ")[4]
            yield re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) if "\\" in point else point


def _rules(source: _Source, home: str, state_dirs: tuple[str, ...], seen: _Places) -> Iterator[_Rule]:
    yield from _home_rules(home, "your home directory") if home else ()
    for place in state_dirs:
        yield _Rule(place=place, label="the private directory of paddock", sealed=True)
    for owner, place in _homes_root_can_enter():
        if source.lineage & seen.marks(place) or source.own & seen.lineage(place):
            yield from _home_rules(place, f"the home directory of {owner}") if not _within(home, place, seen) else ()
    yield from _system_rules()
    if not _within(home, "/root", seen):
        yield _Rule(place="/root", label="the home directory of root", sealed=True)


@functools.cache
def _system_rules() -> tuple[_Rule, ...]:
    label = "the system directory"
    return (
        _Rule(place="/", label="the root directory"),
        *(_Rule(place=place, label=label, sealed=True, gap=_GAPS.get(place, "")) for place in _SYSTEM_SEALED),
        *(_Rule(place=place, label=label) for place in _SYSTEM_WHOLE),
    )


@functools.lru_cache(64)
def _home_rules(home: str, label: str) -> tuple[_Rule, ...]:
    sealed = {"label": "the private place", "hint": _HINT_COPY}
    return (
        _Rule(place=home, label=label),
        *(_Rule(place=os.path.join(home, name), sealed=True, **sealed) for name in _HOME_SEALED),
        *(_Rule(place=os.path.join(home, name), label="the mixed directory") for name in _HOME_WHOLE),
    )


def _homes_root_can_enter() -> Iterator[tuple[str, str]]:
    """Everybody's, if we are root: `sudo paddock run` in a home directory must not show it either."""
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError), open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
        for fields in (line.split(":") for line in file):
            if len(fields) == _PASSWD_FIELDS and fields[2].isdigit() and int(fields[2]) in _PEOPLE:
                yield fields[0], os.path.realpath(fields[5])


def _breach(source: _Source, rule: _Rule, seen: _Places) -> Literal["", "is", "holds", "is inside"]:
    """How the source and the place of the rule lie to each other, if that breaks the rule."""
    place = seen.real(rule.place)
    marks = seen.marks(place)
    if source.own & marks:
        return "is"
    if source.own & seen.lineage(place):
        return "holds"
    if not rule.sealed or not source.lineage & marks:
        return ""
    gap = seen.marks(rule.gap) if rule.gap else frozenset()
    return "" if gap & (source.lineage - source.own) else "is inside"


def _within(path: str, place: str, seen: _Places) -> bool:
    return bool(path) and bool(seen.lineage(seen.real(path)) & seen.marks(seen.real(place)))


class _Places:
    """What is known of places during one check: a hundred rules share their parents, and each is looked at once."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {"/": "/"}
        self._marks: dict[str, frozenset[Mark]] = {}
        self._lineage: dict[str, frozenset[Mark]] = {}

    def real(self, path: str) -> str:
        """os.path.realpath, one lstat per new name."""
        known = self._real.get(path)
        if known is None:
            parent, _, name = path.rstrip("/").rpartition("/")
            above = self.real(parent or "/")
            known = f"{above.rstrip('/')}/{name}"
            if name in {"", ".", ".."} or self._is_link(known):
                known = os.path.realpath(path)
            self._real[path] = known
        return known

    def _is_link(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except OSError:
            self._marks[path] = frozenset({path})
            return False
        if stat.S_ISLNK(status.st_mode):
            return True
        self._marks[path] = frozenset({path, (status.st_dev, status.st_ino)})
        return False

    def marks(self, path: str) -> frozenset[Mark]:
        """What a place is known by: its name, and its device and inode if it exists."""
        if path not in self._marks:
            try:
                status = os.stat(path)
                self._marks[path] = frozenset({path, (status.st_dev, status.st_ino)})
            except OSError:
                self._marks[path] = frozenset({path})
        return self._marks[path]

    def lineage(self, path: str) -> frozenset[Mark]:
        """The marks of a real path and of every directory above it."""
        if path not in self._lineage:
            above = self.lineage(os.path.dirname(path)) if path != "/" else frozenset()
            self._lineage[path] = self.marks(path) | above
        return self._lineage[path]


def _show(path: str) -> str:
    return path if path.isprintable() else repr(path)


def _refused(message: str, hint: str = _HINT_PROJECT) -> UserError:
    return UserError(message, hint=hint, code="unsafe-source")


def _bad_target(message: str, hint: str = "choose a place of its own, for example /mnt/data") -> UserError:
    return UserError(message, hint=hint, code="bad-target")
