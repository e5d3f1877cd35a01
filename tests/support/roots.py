"""A small root file system made of files of the host's: a shell, what tests call in it, git, and python3. Offline."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from paddock.engines.container import runtimes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PROGRAMS = (
    *("sh", "bash", "cat", "ls", "id", "true", "false", "sleep", "env", "printenv", "chmod", "touch", "mkdir", "rmdir"),
    *("rm", "ln", "mv", "cp", "head", "tail", "grep", "pwd", "test", "stat", "chown", "dd", "wc", "sort", "uniq", "tr"),
    *("uname", "date", "kill", "readlink", "realpath", "mknod", "mkfifo", "stty", "tty", "od", "printf", "echo", "seq"),
    *("yes", "cut", "nproc", "setsid", "find", "xargs", "sed", "awk", "tee", "timeout", "truncate", "sync", "df", "du"),
    *("cmp", "diff", "sha256sum", "base64", "basename", "dirname", "mktemp", "tar", "gzip", "hostname", "nohup"),
    *(
        "getent",
        "ps",
        "pgrep",
        "wget",
        "unshare",
        "nft",
        "setpriv",
        "flock",
        "git",
        "curl",
        "openssl",
        "ssh",
        "ssh-add",
        "ssh-keygen",
    ),
)
_LIBRARY = re.compile(r"(/\S+) \(0x")
_ZONES = "/usr/share/zoneinfo/America"
_COPIED = ("/usr/lib/git-core", "/usr/share/git-core/templates", "/lib/terminfo/x", "/usr/share/terminfo/x")
_LINKED = ("/usr/lib/git-core/git-remote-https",)  # copied, and linked with what no other program is
_LOADED_BY_NAME = (
    *("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libgcc_s.so.1", "libcap.so.2"),
    *("libdl.so.2", "librt.so.1", "libpthread.so.0", "libm.so.6", "libutil.so.1"),
    "libstdc++.so.6",  # these two lines of programs that agents bring
)


def installed() -> list[str]:
    """The runtimes of this machine."""
    return runtimes.installed()


def make_small(root: Path) -> Path:
    """A shell and what it needs to move files: for builds, which copy it."""
    for name in ("usr/bin", "usr/lib", "etc", "tmp", "root"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    names = ("bash", "sh", "cat", "ls", "id", "sleep", "chmod", "chown", "mkdir", "rm", "stat", "readlink")
    _libraries(root, [_program(root, name) for name in names])
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nagent:x:1000:\n")
    (root / "etc/of-the-root").write_text("below\n")
    return root


def make(root: Path) -> Path:
    for name in ("usr/bin", "usr/lib", "etc", "tmp", "proc", "dev", "root", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "bin").symlink_to("usr/bin")
    programs = [_program(root, name) for name in PROGRAMS]
    for pattern in _COPIED:
        for place in glob.glob(pattern):
            _tree(root, place)
    if os.path.isdir(_ZONES):
        _tree(root, _ZONES)
    extensions = _python(root)
    _libraries(root, [*programs, *extensions, *filter(os.path.exists, _LINKED)])
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nagent:x:1000:\n")
    (root / "etc/of-the-root").write_text("below\n")
    return root


def _program(root: Path, name: str) -> str:
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert found, f"this host has no {name}"
    shutil.copy(os.path.realpath(found), root / "usr/bin" / name)
    return found


def _libraries(root: Path, programs: Iterable[str]) -> None:
    """Of all of them, and those that libc loads by name."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, timeout=60, check=False)
    paths = set(_LIBRARY.findall(done.stdout))
    beside = {os.path.dirname(path) for path in paths if "/libc.so" in path}
    paths |= {f"{place}/{name}" for place in beside for name in _LOADED_BY_NAME}
    for path in paths:
        place = root / path.lstrip("/")
        if os.path.exists(path) and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), place)


def _python(root: Path) -> list[str]:
    """The system's, with its library but for what is large and of no use here; returns what loads libraries."""
    program = _program(root, "python3")
    look = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    words = ["/usr/bin/python3", "-I", "-c", look]
    place = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    _tree(root, place, "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "*-packages", "config-*")
    return [program, *glob.glob(f"{place}/lib-dynload/*.so")]


def _tree(root: Path, place: str, *ignored: str) -> None:
    """With links as they are: most of git is one program."""
    target = root / place.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(place, target, ignore=shutil.ignore_patterns(*ignored), symlinks=True)
