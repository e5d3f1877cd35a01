"""Which files of the host's /etc a box may see: an allow-list, and of that only what every local user can read.

Theory. A name is shown because a program in /usr stops working without it, never because it is there. Being root
changes nothing: a file or directory that others cannot read is left out. A symlink whose target the box has under the
same name (in /usr, or in another allowed place) stays a symlink; any other is followed, and the bytes at its end are
copied if the whole way there is open to everyone. The survey only looks; etc.py copies what it lists.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from dataclasses import dataclass, field
from typing import Final

# Patterns of glob, below /etc.
ALLOWED: Final[tuple[str, ...]] = (
    # the dynamic linker, alternatives, names of the system
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*.path", "alternatives", "os-release", "lsb-release"),
    *("debian_version", "fedora-release", "redhat-release", "system-release", "arch-release", "alpine-release"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "shells", "dpkg/origins"),
    # names and numbers of the network
    *("services", "protocols", "rpc", "gai.conf", "host.conf"),
    # trust anchors and TLS defaults: Debian, Fedora, Arch, SUSE; never ssl/private or pki/tls/private
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ssl/ca-bundle.pem", "ssl/ct_log_list.cnf"),
    *("ca-certificates/extracted", "ca-certificates/trust-source", "crypto-policies", "gnutls"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/tls/ct_log_list.cnf", "pki/tls/openssl.d"),
    *("pki/ca-trust/extracted", "pki/ca-trust/source", "pki/java"),
    # terminals, editors, manuals
    *("terminfo", "inputrc", "vim", "vimrc", "virc", "nanorc", "manpath.config", "man_db.conf", "groff"),
    # kinds of files, fonts, catalogs
    *("mime.types", "magic", "magic.mime", "fonts", "ImageMagick-*", "xml", "sgml"),
    # languages whose installation keeps a part of itself in /etc
    *("java", "java-*-openjdk", "maven", "python3*", "perl", "dotnet", "gdb"),
    *("R/Makeconf", "R/Renviron", "R/ldpaths", "R/repositories"),
    *("php.d", "php/conf.d", "php/*/cli/conf.d", "php/*/mods-available"),
)

# Names that hold secrets, private addresses or registries with a password in the URL, wherever they turn up.
_NEVER: Final = re.compile(
    "|".join(
        fnmatch.translate(pattern)
        for pattern in (
            *("shadow*", "gshadow*", "passwd*", "sudoers*", "private", "*.key", "*.p12", "*.pfx", "*.jks"),
            *("*password*", "*secret*", "credentials*", "auth.json", "token", ".netrc", ".git"),
            *("settings.xml", "settings-security.xml", "npmrc", ".npmrc", "pip.conf", "gitconfig", "environment"),
            *("ssh_host_*", "NetworkManager", "wireguard", "cups", "fstab", "mtab", "*.bak", "*~", "*\n*"),
        )
    )
)
RULES: Final = (ALLOWED, _NEVER.pattern)  # a new release with other rules surveys again
_PRIVATE_KEY: Final = b"PRIVATE KEY-----"
_IN_BOX: Final = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")  # the same files under the same names
_NOT_FILES: Final = ("/proc/", "/sys/", "/dev/", "/run/")
_DEPTH: Final = 8
_ENTRIES: Final = 8192  # a large machine has some 1500
_FILE_BYTES: Final = 8 << 20
_CROWD: Final = 64  # files: a set of certificates, replaced name by name, is watched by its directory alone
_OPEN_DIRECTORY: Final = stat.S_IROTH | stat.S_IXOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name below /etc: a copy of `source`, or a symlink holding `link`."""

    path: str
    source: str = ""
    stamp: str = ""  # of the source, when it was looked at
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What to show, and the stamps that must change before another survey can say something else."""

    entries: tuple[Entry, ...]
    watched: dict[str, str]


def survey(root: str) -> Survey:
    root = os.path.realpath(root)
    walk = _Walk(root)
    for path in sorted(walk.tops):
        source = os.path.join(root, path)
        if walk.is_open(os.path.realpath(os.path.dirname(source))):
            walk.add(path, source)
    return Survey(entries=tuple(walk.entries[path] for path in sorted(walk.entries)), watched=walk.watched)


def stamp(path: str) -> str:
    """Changes whenever the content, mode or owner of `path` does; of a directory, when names come or go."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_ino}.{status.st_size}.{status.st_ctime_ns}"


def read_public(path: str) -> bytes | None:
    """The bytes of a file that everyone can read, or None: also for a private key, whatever its mode."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not _is_public(os.fstat(fd)):
            return None
        data = file.read(_FILE_BYTES + 1)
    return None if _PRIVATE_KEY in data or len(data) > _FILE_BYTES else data


def _is_public(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IROTH) and status.st_size <= _FILE_BYTES


def _is_passable(directory: str) -> bool:
    try:
        return bool(os.stat(directory).st_mode & stat.S_IXOTH)
    except OSError:
        return False


@dataclass(slots=True)
class _Walk:
    root: str
    entries: dict[str, Entry] = field(default_factory=dict)
    watched: dict[str, str] = field(default_factory=dict)
    tops: frozenset[str] = frozenset()
    opened: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Watched first, looked at afterwards: a name that appears in between is found at the next look.
        self.watch(self.root)
        parents = {
            "/".join(pattern.split("/")[:depth]) for pattern in ALLOWED for depth in range(1, pattern.count("/") + 1)
        }
        for parent in sorted(parents):
            for path in glob.glob(parent, root_dir=self.root):
                self.watch(os.path.join(self.root, path))
        self.tops = frozenset(path for pattern in ALLOWED for path in glob.glob(pattern, root_dir=self.root))

    def watch(self, path: str) -> None:
        self.watched.setdefault(path, stamp(path))

    def add(self, path: str, source: str, depth: int = 0, *, crowded: bool = False) -> None:
        """List `source` as `path`, and what is below it."""
        if _NEVER.match(os.path.basename(path)) or depth > _DEPTH or len(self.entries) >= _ENTRIES:
            return
        try:
            status = os.lstat(source)
            if stat.S_ISLNK(status.st_mode):
                self._link(path, source, depth)
            elif stat.S_ISDIR(status.st_mode) and status.st_mode & _OPEN_DIRECTORY == _OPEN_DIRECTORY:
                self.watch(source)
                names = os.listdir(source)
                for name in names:
                    self.add(f"{path}/{name}", f"{source}/{name}", depth + 1, crowded=len(names) > _CROWD)
            else:
                if not crowded:
                    self.watch(source)  # also when it is closed: it may be opened
                if _is_public(status):
                    self.entries[path] = Entry(path=path, source=source, stamp=stamp(source))
        except OSError:
            return  # gone meanwhile, or closed to us too

    def is_open(self, directory: str) -> bool:
        """Can everyone walk to `directory`? Of the way to the root of the survey nothing is asked."""
        if directory in {self.root, "/"}:
            return True
        if directory not in self.opened:
            self.watch(directory)
            self.opened[directory] = _is_passable(directory) and self.is_open(os.path.dirname(directory))
        return self.opened[directory]

    def _link(self, path: str, source: str, depth: int) -> None:
        target = os.readlink(source)
        if target.startswith(self.root + "/"):
            target = "/etc" + target.removeprefix(self.root)
        place = os.path.normpath(os.path.join("/etc", os.path.dirname(path), target))
        # The targets of alternatives are programs: shown by what shows the program, or dangling.
        if path.startswith("alternatives/") or place.startswith(_IN_BOX) or self._is_shown(place):
            self.entries[path] = Entry(path=path, link=target)
            return
        real = os.path.realpath(source)
        if any(_NEVER.match(part) for part in real.removeprefix(self.root).split("/")) or real.startswith(_NOT_FILES):
            return
        if self.is_open(os.path.dirname(real)):
            self.add(path, real, depth + 1)

    def _is_shown(self, place: str) -> bool:
        below = place.removeprefix("/etc/").split("/")
        return place.startswith("/etc/") and any("/".join(below[:n]) in self.tops for n in range(1, len(below) + 1))
