"""Boxes on gVisor, by the command line: they run, are sealed, and reach no socket of the host's."""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.installation import until
from tests.workspace.scenes import make_repository

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.skipif(not shutil.which("runsc"), reason="gVisor is not installed"),
]
GVISOR = ("--runtime", "runsc")


def test_a_box_has_a_kernel_of_its_own_and_keeps_what_changed(installation: Installation, root: Path) -> None:
    made = installation.cli("create", *GVISOR, "-t", str(root), "shell")
    assert made.returncode == 0, made.stderr
    name = made.stdout.decode().strip()
    write = "uname -r; echo kept > /etc/kept; echo mine > made; echo also > ~/home; rm /etc/of-the-root"
    first = installation.cli("exec", name, "sh", "-c", write)
    assert (first.stderr, first.returncode) == (b"", 0)
    assert first.stdout.strip() == b"4.4.0", "it is not the host's"
    assert (installation.workspace / "made").read_text() == "mine\n"
    assert (installation.workspace / "made").stat().st_uid == os.getuid()
    (installation.workspace / "made").write_text("the host's\n")
    assert installation.cli("exec", name, "cat", "made").stdout == b"the host's\n", "nothing is kept from before"
    assert installation.cli("stop", name).returncode == 0
    again = installation.cli("exec", name, "sh", "-c", "cat /etc/kept ~/home; ls /etc/of-the-root 2>/dev/null")
    assert again.stdout == b"kept\nalso\n"
    assert installation.cli("rm", "-f", name).returncode == 0
    until(lambda: os.listdir(installation.state / "trash") == [], "what it wrote is gone")


def test_no_socket_of_the_host_can_be_connected_to(installation: Installation, root: Path) -> None:
    """Neither one that is there when the box starts nor one that comes later; the same program on the host can."""
    script = (
        "import socket, sys\n"
        "for path in sys.argv[1:]:\n"
        "    s = socket.socket(socket.AF_UNIX)\n"
        "    try: s.connect(path); print('connected')\n"
        "    except OSError as error: print(type(error).__name__)\n"
        "own = socket.socket(socket.AF_UNIX); own.bind('own.sock'); own.listen()\n"
        "s = socket.socket(socket.AF_UNIX); s.connect('own.sock'); print('own')\n"
    )
    early, late = installation.workspace / "early.sock", installation.workspace / "late.sock"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(os.fspath(early))
        one.listen()
        made = installation.cli("create", *GVISOR, "-t", str(root), "shell")
        name = made.stdout.decode().strip()
        assert installation.cli("exec", name, "true").returncode == 0
        two.bind(os.fspath(late))
        two.listen()
        for path in (early, late):
            with socket.socket(socket.AF_UNIX) as oracle:
                oracle.connect(os.fspath(path))
        done = installation.cli("exec", name, "python3", "-c", script, str(early), str(late))
        *refused, own = done.stdout.split()
        assert own == b"own", done.stderr
        assert b"connected" not in refused
        assert len(refused) == 2
    early.unlink()
    late.unlink()
    assert installation.cli("rm", "-f", name).returncode == 0


def test_what_the_host_would_obey_stays_as_it_is(installation: Installation, root: Path) -> None:
    """Also where gVisor says that a change was made; the same change of another file is the oracle."""
    for name in (".envrc", "other"):
        (installation.workspace / name).write_text("of the host\n")
        (installation.workspace / name).chmod(0o644)
    change = "for f in .envrc other; do chmod 755 $f; echo changed > $f; done; mv .envrc gone; rm -f .envrc"
    installation.cli("run", *GVISOR, "-t", str(root), "--", "sh", "-c", change)
    kept, other = (installation.workspace / name for name in (".envrc", "other"))
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("of the host\n", 0o644)
    assert (other.read_text(), other.stat().st_mode & 0o777) == ("changed\n", 0o755)
    kept.unlink()
    other.unlink()


NESTED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
secret, git, run = sys.argv[1:]
outer = os.getuid(), os.getgid()
print(libc.unshare(0x10020000))  # a user and a mount namespace
for name, own in zip(("uid_map", "gid_map"), outer):
    try:
        with open(f"/proc/self/{name}", "w") as file: file.write(f"0 {own} 1")
    except OSError: pass
print("all" if "CapEff:\t0000000000000000" not in open("/proc/self/status").read() else "none")
for place in (secret, git, run, "/proc/sys", "/sys"):
    libc.umount2(place.encode(), 2)
    libc.mount(None, place.encode(), None, 4096 | 32, None)  # again, to be written to
def write(place):
    try:
        with open(place, "w") as file: file.write("written")
    except OSError: pass
for place in (secret, f"{git}/config", f"{git}/hooks/post-commit", f"{run}/bin/git", f"{run}/new"):
    write(place)
os.chroot("/")
print(open(secret).read() if os.path.exists(secret) else "")
"""


def test_who_has_all_rights_in_namespaces_of_that_kernel_opens_nothing(installation: Installation, root: Path) -> None:
    """Its own kernel lets a box make them and mount in them; what is closed to it was mounted outside."""
    work = make_repository(installation.workspace / "project")
    (work / ".env").write_text("the secret\n")
    config = (work / ".git/config").read_bytes()
    words = (str(work / ".env"), str(work / ".git"), "/run/paddock")
    run = ("run", *GVISOR, "-t", str(root), "--mask", ".env", "--", "python3", "-c", NESTED, *words)
    done = installation.cli(*run, cwd=work)
    assert done.returncode == 0, done.stderr
    made, rights, *read = done.stdout.splitlines()
    assert (made, rights) == (b"0", b"all"), "the attempt is none without them"
    assert b"secret" not in b"".join(read)
    assert (work / ".env").read_text() == "the secret\n"
    assert (work / ".git/config").read_bytes() == config
    assert not (work / ".git/hooks/post-commit").exists()


def test_the_network_is_as_sealed_as_any(installation: Installation, root: Path) -> None:
    """The oracle is the host's: from it the same connections succeed."""
    script = (
        "import socket, sys\n"
        "def tried(act):\n"
        "    try: print(act())\n"
        "    except OSError as error: print(type(error).__name__)\n"
        "def tcp(*place):\n"
        "    s = socket.create_connection(place, timeout=5); s.send(b'x'); return s.recv(1)\n"
        "def udp(*place):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(place)\n"
        "    s.send(b'x'); return s.recv(1)\n"
        "port = int(sys.argv[1])\n"
        "tried(lambda: tcp('127.0.0.1', port))\n"
        "tried(lambda: tcp('169.254.7.1', port))\n"
        "tried(lambda: tcp('192.0.2.1', 80))\n"
        "tried(lambda: tcp('2001:db8::1', 80))\n"
        "tried(lambda: udp('192.0.2.1', 9))\n"
        "tried(lambda: udp('169.254.7.1', 61053))\n"
        "tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n"
        "tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))\n"
        "tried(lambda: socket.gethostbyname('denied.example').startswith('198.18.'))\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        done = installation.cli("run", *GVISOR, "-t", str(root), "--", "python3", "-c", script, str(port))
    said = done.stdout.decode().split()
    assert said[0] == "ConnectionRefusedError", done.stderr
    assert all(word in {"ConnectionResetError", "b''"} for word in said[1:3]), said
    assert said[3] == "OSError"
    assert {*said[4:6]} <= {"ConnectionRefusedError", "PermissionError"}, "one of a link, the other of the seal"
    assert said[6:8] == ["PermissionError"] * 2
    assert said[8:] == ["True"], "the gateway answers for names"


def test_a_box_outlives_its_daemon_and_the_next_one_seals_it_anew(own_installation: Installation, root: Path) -> None:
    one = own_installation
    name = one.cli("create", *GVISOR, "-t", str(root), "shell").stdout.decode().strip()
    assert one.cli("exec", name, "sh", "-c", "echo mine > /run/mark").returncode == 0
    one.kill_daemon()
    assert one.cli("exec", name, "cat", "/run/mark").stdout == b"mine\n", "it is the same box: /run is in memory"
    ask = "import socket; print(socket.gethostbyname('denied.example'))"
    assert one.cli("exec", name, "python3", "-c", ask).stdout.startswith(b"198.18."), "the gateway answers for names"


def test_a_box_over_its_memory_ends_and_the_reason_is_told(installation: Installation, root: Path) -> None:
    """The kernel may end a process without which gVisor waits for ever: then the rest of the box is ended, too.

    Where no cgroup counts it, it is seen a moment later.
    """
    grow = """
import mmap, sys, time
held = []
for _ in range(int(sys.argv[1])):
    part = mmap.mmap(-1, 20 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, len(part), 4096):
        part[place] = 1
    held.append(part)
print(20 * len(held), flush=True)
time.sleep(float(sys.argv[2]))
"""
    options = ("run", "--runtime", "runsc", "-t", str(root), "-m", "200m", "--", "python3", "-c")
    assert installation.cli(*options, grow, "1", "0").stdout == b"20\n", "the oracle"
    done = installation.cli(*options, grow, "40", "60", timeout_s=90)
    assert done.returncode == 137, (done.stdout, done.stderr)
    assert b"memory limit" in done.stderr
    installation.cli("create", *GVISOR, "-t", str(root), "-m", "200m", "--name", "told", "shell")
    (told,) = json.loads(installation.cli("inspect", "--json", "told").stdout)
    (memory,) = [limit for limit in told["limits"] if limit["name"] == "memory"]
    assert memory["enforcement"] in {"kernel", "watched"}, "no kernel of the host holds one process of it"
