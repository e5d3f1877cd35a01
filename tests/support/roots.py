"""A small root file system made of files of the host's: a shell, what tests call in it, and python3. Offline."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from paddock.engines.container import runtimes

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = (
    *("sh", "cat", "ls", "id", "true", "false", "sleep", "env", "chmod", "touch", "mkdir", "rm", "ln", "mv", "head"),
    *("grep", "pwd", "test", "stat", "chown", "dd", "wc", "sort", "tr", "uname", "date", "kill", "readlink", "mknod"),
    *("stty", "tty", "od", "printf", "bash", "echo", "seq", "yes", "tail", "cut", "cp", "nproc", "setsid", "git"),
)
ENGINES = ("process", "container")
_LIBRARY = re.compile(r"(/\S+) \(0x")


def installed() -> list[str]:
    """The runtimes of this machine."""
    return [name for name in runtimes.NAMES if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]


def make(root: Path) -> Path:
    for name in ("usr/bin", "usr/lib", "etc", "tmp", "proc", "dev"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    for name in PROGRAMS:
        _program(root, name)
    _python(root)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n")
    (root / "etc/of-the-root").write_text("below\n")
    return root


def _program(root: Path, name: str) -> None:
    found = shutil.which(name, path="/usr/bin:/bin")
    assert found, f"this host has no {name}"
    shutil.copy(os.path.realpath(found), root / "usr/bin" / name)
    _libraries(root, found)


def _libraries(root: Path, program: str) -> None:
    done = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20, check=False)
    for path in _LIBRARY.findall(done.stdout):
        place = root / path.lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), place)


def _python(root: Path) -> None:
    """The system's, with its library but for what is large and of no use here."""
    _program(root, "python3")
    look = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    words = ["/usr/bin/python3", "-I", "-c", look]
    place = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    ignored = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "*-packages")
    shutil.copytree(place, root / place.lstrip("/"), ignore=ignored, symlinks=False, ignore_dangling_symlinks=True)
