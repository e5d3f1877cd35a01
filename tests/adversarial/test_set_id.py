"""FS-14: whatever a box does, no new setuid or setgid file lies on the host's disk. `nosuid` protects only the box."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.attack import inside, number, outside

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

SET_ID = stat.S_ISUID | stat.S_ISGID

# One way per line: each leaves a file named after it. `mode` is set-uid, set-gid or both.
WAYS = """
import ctypes, shutil, stat
directory, mode, calls = ARGS
os.umask(0)
os.makedirs(directory, exist_ok=True)
os.chdir(directory)
here = os.open(".", os.O_RDONLY)
full = mode | 0o755
def plain(name):
    open(name, "w").close()
    return name
def by_fchmod(name):
    with open(plain(name)) as file:
        os.fchmod(file.fileno(), full)
def by_proc(name):
    fd = os.open(plain(name), os.O_PATH)
    os.chmod(f"/proc/self/fd/{fd}", full)
def by_tmpfile(name, how):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, full if how == "open" else 0o755)
    if how == "chmod":
        os.fchmod(fd, full)
    if libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, name.encode(), 0x400):
        raise OSError(ctypes.get_errno(), name)
def raw(name, *args):
    result = call(calls[name], *args)
    if result != "ok":
        raise OSError(getattr(errno, result), result)
def by_rename(name):
    os.close(os.open("source", os.O_CREAT | os.O_WRONLY, full))
    os.rename("source", plain(name))
def by_link(name):
    os.chmod(plain("linked"), full)
    os.link("linked", name)
def by_directory(name):
    os.mkdir(name, 0o755)
    os.chmod(name, full)
def by_socket(name):
    import socket
    sock = socket.socket(socket.AF_UNIX)
    os.fchmod(sock.fileno(), full)
    sock.bind(name)
HIGH = 1 << 32
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, full, 0)
ways = {
    "chmod": lambda name: os.chmod(plain(name), full),
    "chmod high": lambda name: raw("chmod", plain(name).encode(), full | HIGH),
    "fchmod": by_fchmod,
    "fchmodat": lambda name: os.chmod(plain(name), full, dir_fd=here),
    "fchmodat2": lambda name: raw("fchmodat2", here, plain(name).encode(), full, 0),
    "fchmodat2 empty": lambda name: raw("fchmodat2", os.open(plain(name), os.O_PATH), b"", full, 0x1000),
    "chmod by proc": by_proc,
    "creat": lambda name: raw("creat", name.encode(), full),
    "open": lambda name: raw("open", name.encode(), os.O_CREAT | os.O_WRONLY, full),
    "open high": lambda name: raw("open", name.encode(), os.O_CREAT | os.O_WRONLY | HIGH, full | HIGH),
    "openat": lambda name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_EXCL, full, dir_fd=here)),
    "openat truncating": lambda name: os.close(os.open(name, os.O_CREAT | os.O_TRUNC | os.O_RDWR, full)),
    "openat2": lambda name: raw("openat2", here, name.encode(), how, 24),
    "mknod": lambda name: os.mknod(name, stat.S_IFREG | full),
    "mknod untyped": lambda name: os.mknod(name, full),
    "mknodat": lambda name: os.mknod(name, stat.S_IFREG | full, dir_fd=here),
    "mkfifo": lambda name: os.mkfifo(name, full),
    "tmpfile": lambda name: by_tmpfile(name, "open"),
    "tmpfile chmod": lambda name: by_tmpfile(name, "chmod"),
    "rename": by_rename,
    "link": by_link,
    "directory": by_directory,
    "socket": by_socket,
}
missing = {"chmod high", "creat", "open", "open high"} if "open" not in calls else set()
known = {name: act for name, act in ways.items() if name not in missing}
say({name: attempt(act, name) for name, act in known.items()})
"""


def calls() -> dict[str, int]:
    """aarch64 has no chmod, creat and open of its own."""
    found = {"fchmodat2": 452, "openat2": 437}
    for name in ("chmod", "creat", "open"):
        try:
            found[name] = number(name)
        except AssertionError:
            continue
    return found


def set_ids(top: Path) -> list[str]:
    return [
        os.path.join(directory, name)
        for directory, directories, names in os.walk(top)
        for name in (*directories, *names)
        if os.lstat(os.path.join(directory, name)).st_mode & SET_ID
    ]


@pytest.mark.parametrize("mode", [stat.S_ISUID, stat.S_ISGID, SET_ID])
def test_no_system_call_leaves_a_set_id_file(box: Box, installation: Installation, tmp_path: Path, mode: int) -> None:
    oracle = outside(WAYS, str(tmp_path / "out"), mode, calls())
    assert {name for name, word in oracle.items() if word != "ok"} == set(), oracle
    # mkdir drops the bits and a socket's name takes none of group and others; all other ways leave them
    assert len(set_ids(tmp_path)) >= len(oracle) - 2
    for directory in (str(installation.workspace / "in"), "/tmp/in", "/home/agent/in"):
        refused = inside(box, WAYS, directory, mode, calls())
        assert set(refused.values()) <= {"EPERM", "ENOSYS"} or contract.own_kernel(), refused
    assert set_ids(installation.workspace) == []
    assert set_ids(installation.state) == []


@pytest.mark.parametrize(
    "command",
    [
        "cp -p given copy",
        "cp --preserve=all given copy",
        "install -m 4755 plain copy",
        "tar xpf archive.tar",
        "tar --same-permissions -xf archive.tar",
        "chmod u+s plain",
        "chmod --reference=given plain",
        "mv given copy && cp -p copy again",
        "dd if=plain of=given conv=notrunc",
        "perl -e 'chmod 06755, \"plain\"'",
        "setfacl -m u::rwx,g::rws plain",
    ],
)
def test_no_program_makes_a_set_id_copy(box: Box, installation: Installation, command: str) -> None:
    workspace = installation.workspace
    for name in ("plain", "given", "packed"):
        (workspace / name).write_text(name)
        (workspace / name).chmod(0o755)
    (workspace / "packed").chmod(0o6755)
    subprocess.run(["tar", "cf", "archive.tar", "packed"], cwd=workspace, check=True)
    (workspace / "packed").unlink()
    (workspace / "given").chmod(0o6755)
    given = (workspace / "given").stat().st_ino
    box.exec(["sh", "-c", command])
    left = [path for path in set_ids(workspace) if os.stat(path).st_ino != given]
    assert left == []


def test_a_set_id_file_that_the_host_had_loses_its_bits_when_the_box_changes_it(
    box: Box, installation: Installation
) -> None:
    """All but a write through a mapping, which the kernel does not see: see docs/limitations.md."""
    program = """
name = ARGS[0]
fd = os.open(name, os.O_RDWR)
ways = {
    "write": lambda: os.write(fd, b"x"),
    "pwritev": lambda: os.pwritev(fd, [b"x"], 0),
    "truncate": lambda: os.ftruncate(fd, 1),
    "fallocate": lambda: os.posix_fallocate(fd, 0, 8192),
    "copy_file_range": lambda: os.copy_file_range(os.open("/etc/passwd", os.O_RDONLY), fd, 10),
    "sendfile": lambda: os.sendfile(fd, os.open("/etc/passwd", os.O_RDONLY), 0, 10),
    "truncate on open": lambda: os.open(name, os.O_WRONLY | os.O_TRUNC),
}
say(attempt(ways[ARGS[1]]))
"""
    victim = installation.workspace / "victim"
    for way in ("write", "pwritev", "truncate", "fallocate", "copy_file_range", "sendfile", "truncate on open"):
        victim.write_bytes(b"original")
        victim.chmod(0o6755)
        done = inside(box, program, str(victim), way)
        if done in {"EXDEV", "ENOSYS"}:  # the source may lie on another file system; gVisor has no such call
            assert way == "copy_file_range"
            continue
        assert done == "ok"
        assert not victim.stat().st_mode & SET_ID, way


def test_file_capabilities_and_trusted_attributes_cannot_be_set(box: Box, installation: Installation) -> None:
    target = installation.workspace / "program"
    target.write_bytes(b"")
    program = """
value = bytes.fromhex("0100000202000000000000000000000000000000")
names = ["security.capability", "security.ima", "trusted.overlay.opaque", "user.note"]
say({name: attempt(os.setxattr, ARGS[0], name, value) for name in names})
"""
    refused = inside(box, program, str(target))
    assert refused.pop("user.note") in {"ok", "ENOTSUP"}
    assert set(refused.values()) <= {"EPERM", "ENOTSUP"}
    assert not [name for name in os.listxattr(target) if not name.startswith("user.")]
