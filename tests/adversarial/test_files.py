"""The host's files: what a box can neither read, nor write, nor reach by a name, a link, a descriptor or a mount."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs, paths
from paddock.model import Mount
from tests.support import attack, contract
from tests.support.attack import inside, number, outside, twin
from tests.support.installation import IS_ROOT, PROGRAM, children, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

# -- FS-01: reading ----------------------------------------------------------------------------------------------------

READ = """
def read(path):
    with open(path) as file:
        return file.read()
def content(path):
    try:
        return read(path)
    except OSError as error:
        return word(error.errno)
say([content(path) for path in ARGS])
"""


def test_secrets_of_the_host_are_not_there(box: Box, canaries: dict[str, Path], nonce: str) -> None:
    files = [str(path) for path in canaries.values()]
    assert outside(READ, *files) == [nonce] * len(files)
    assert set(inside(box, READ, *files)) <= {"ENOENT", "EACCES"}


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root", "/var/log", "/boot", "/var/lib"]
)
def test_system_files_beyond_the_allow_list_are_not_there(box: Box, path: str) -> None:
    if not os.path.lexists(path):
        pytest.skip(f"this machine has no {path}")
    listed = box.exec(["sh", "-c", f"ls -A {path} 2>/dev/null || cat {path}"]).stdout.split()
    own = {b".cargo", b".pyenv", b".rustup", b".nvm", b".local", b".volta", b".bun", b".deno", b"go"}  # toolchains
    assert set(listed) <= (own if path == "/root" else set())


SEARCH = """
import stat, time
nonce, since = ARGS[0].encode(), float(ARGS[1])
found, seen = [], 0
def look(path, fd):
    global seen
    data = b""
    while len(data) < 1 << 22:
        try:
            chunk = os.read(fd, 1 << 20)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    seen += 1
    if nonce in data and not path.startswith(f"/proc/{os.getpid()}/") and not path.startswith("/proc/self"):
        found.append(path)
for top, directories, names in os.walk("/"):
    if top == "/proc":
        directories[:] = [name for name in directories if not name.isdigit() or name != str(os.getpid())]
    for name in names:
        path = os.path.join(top, name)
        if nonce in os.fsencode(name):
            found.append(path)
        try:
            info = os.lstat(path)
            fresh = max(info.st_ctime, info.st_mtime) >= since or top.startswith("/proc")
            if stat.S_ISREG(info.st_mode) and fresh:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                look(path, fd)
                os.close(fd)
        except OSError:
            continue
say([found, seen])
"""


def test_no_file_of_the_box_holds_what_is_written_elsewhere_on_the_host(
    box: Box, installation: Installation, canaries: dict[str, Path], nonce: str
) -> None:
    """Every file younger than the secret, and all of /proc, is searched for its content."""
    since = min(path.stat().st_mtime for path in canaries.values()) - 1
    bait = installation.workspace / "bait"
    bait.write_text(f"here is {nonce}")
    found, seen = inside(box, SEARCH, nonce, since, timeout_s=100)
    assert found == [str(bait)]  # the oracle: what is in the workspace is found
    assert seen > 100


# -- FS-02: writing ----------------------------------------------------------------------------------------------------

WRITE = """
import mmap
directory = ARGS[0]
target, fresh = f"{directory}/file", f"{directory}/fresh"
def change(flags, act):
    fd = os.open(target, flags)
    try:
        act(fd)
    finally:
        os.close(fd)
def map_shared(fd):
    with mmap.mmap(fd, 4) as area:
        area[0:1] = b"X"
say({
    "append": attempt(change, os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x")),
    "write": attempt(change, os.O_RDWR, lambda fd: os.pwrite(fd, b"x", 0)),
    "mmap": attempt(change, os.O_RDWR, map_shared),
    "fallocate": attempt(change, os.O_RDWR, lambda fd: os.posix_fallocate(fd, 0, 100)),
    "truncate by name": attempt(os.truncate, target, 1),
    "truncate on open": attempt(change, os.O_WRONLY | os.O_TRUNC, lambda fd: None),
    "chmod": attempt(os.chmod, target, 0o600),
    "chmod by descriptor": attempt(change, os.O_RDONLY, lambda fd: os.fchmod(fd, 0o640)),
    "utime": attempt(os.utime, target, (1, 1)),
    "chown": attempt(os.chown, target, os.getuid(), os.getgid()),
    "set an attribute": attempt(os.setxattr, target, "user.paddock", b"x"),
    "create": attempt(lambda: os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))),
    "temporary": attempt(lambda: os.close(os.open(directory, os.O_WRONLY | os.O_TMPFILE, 0o600))),
    "mkdir": attempt(os.mkdir, f"{directory}/made"),
    "symlink": attempt(os.symlink, "/etc/passwd", f"{directory}/link"),
    "link": attempt(os.link, target, f"{directory}/hard"),
    "rename": attempt(os.rename, target, f"{directory}/moved"),
    "rename back": attempt(os.rename, f"{directory}/moved", target),
    "remove": attempt(os.unlink, target),
    "fifo": attempt(os.mkfifo, f"{directory}/fifo"),
})
"""


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    directory = tmp_path / "closed"
    directory.mkdir()
    (directory / "file").write_text("four bytes and more")
    os.utime(directory / "file", (1_000_000_000, 1_000_000_000))
    return directory


def test_nothing_outside_the_writable_places_can_be_changed(
    paddock: Paddock, installation: Installation, closed: Path
) -> None:
    """The caller owns the directory: only the mount keeps the box from writing."""
    before = [(path.name, path.read_bytes(), path.stat()) for path in closed.iterdir()]
    mounts = [
        Mount(source=str(closed), target="/mnt/closed", read_only=True),
        Mount(source=str(closed), target="/mnt/open"),
    ]
    box = paddock.create("writer", workspace=str(installation.workspace), mounts=mounts)
    refused = inside(box, WRITE, "/mnt/closed")
    said = {"ok", "ENOTSUP"} if contract.own_kernel() else set()  # and what is true is seen from here
    assert set(refused.values()) <= {"EROFS", "EACCES", "ENOENT", *said}, refused
    assert [(path.name, path.read_bytes(), path.stat()) for path in closed.iterdir()] == before
    allowed = inside(box, WRITE, "/mnt/open")  # the oracle: the same directory, the same acts, without the protection
    assert {key: word for key, word in allowed.items() if word not in {"ok", "ENOTSUP", "EOPNOTSUPP"}} == {}


@pytest.mark.parametrize(
    "directory",
    [
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/dev",
        "/sys",
        "/proc",
        "/run",
        "/run/paddock",
        "/run/paddock/bin",
        "/var",
        "/home",
    ],
)
def test_the_boxs_system_directories_take_no_new_file(box: Box, directory: str) -> None:
    program = "say([attempt(os.mkdir, f'{path}/made') for path in ARGS])"
    refused, taken = inside(box, program, directory, "/tmp")
    assert refused in {"EROFS", "EACCES", "ENOENT", "EPERM"}
    assert taken == "ok"


# -- FS-03: links ------------------------------------------------------------------------------------------------------


def test_links_lead_to_nothing_outside(
    box: Box, installation: Installation, canaries: dict[str, Path], nonce: str
) -> None:
    secret = canaries["sibling"]
    workspace = installation.workspace
    links = {
        "absolute": secret,
        "relative": Path("..") / "sibling" / secret.name,
        "many steps": Path(*[".."] * 40) / str(secret).lstrip("/"),
        "chained": workspace / "absolute",
        "by proc": Path("/proc/self/root") / str(secret).lstrip("/"),
        "directory": secret.parent,
    }
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    reads = [*(str(workspace / name) for name in links if name != "directory"), f"{workspace}/directory/{secret.name}"]
    assert outside(READ, *reads) == [nonce] * len(reads)
    assert set(inside(box, READ, *reads)) == {"ENOENT"}
    # and links the box makes itself
    made = "say([(os.symlink(to, f'made{n}'), attempt(open, f'made{n}'))[1] for n, to in enumerate(ARGS)])"
    assert set(inside(box, made, *(str(target) for target in links.values()))) == {"ENOENT"}
    assert inside(box, "os.symlink('loop', 'loop'); say(attempt(open, 'loop'))") == "ELOOP"


# -- FS-04: /proc ------------------------------------------------------------------------------------------------------

PROC = """
private = ("root", "cwd", "exe", "fd", "fdinfo", "map_files", "mem", "environ", "maps", "ns/net", "ns/mnt", "auxv")
def reach(pid, name):
    path = f"/proc/{pid}/{name}"
    try:
        if name in {"root", "cwd", "fd", "fdinfo", "map_files"}:
            os.listdir(path)
        elif name == "exe" or name.startswith("ns/"):
            os.readlink(path)
        else:
            with open(path, "rb") as file:
                file.read(1)
    except OSError as error:
        return word(error.errno)
    return "ok"
say({name: reach(ARGS[0], name) for name in private})
"""


def test_the_first_process_of_the_box_shows_nothing_of_itself(box: Box) -> None:
    found = inside(box, PROC, 1)
    assert set(found.values()) <= {"EACCES", "EPERM"}, found
    own = inside(box, PROC.replace("ARGS[0]", "os.getpid()"))  # the oracle: a process of the box's own shows all of it
    assert set(own.values()) <= {"ok", "EIO"}, own


def test_the_root_of_every_process_in_the_box_is_the_box(box: Box, canaries: dict[str, Path], nonce: str) -> None:
    program = """
import glob
secret = ARGS[0]
roots = [*glob.glob("/proc/[0-9]*/root"), "/proc/self/root", "/proc/thread-self/root"]
say([attempt(open, f"{root}/{secret}") for root in roots])
"""
    secret = str(canaries["sibling"])
    assert set(inside(box, program, secret)) <= {"ENOENT", "EACCES"}
    assert Path(f"/proc/self/root/{secret}").read_text() == nonce


def test_no_process_of_the_host_is_listed(box: Box) -> None:
    program = "say(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))"
    assert len(inside(box, program)) <= 3
    assert os.getpid() in outside(program)


# -- FS-08: inherited descriptors --------------------------------------------------------------------------------------

DESCRIPTORS = """
import glob
others = [link for link in glob.glob("/proc/[0-9]*/fd/*") if link.split("/")[2] != str(os.getpid())]
own = [fd for fd in range(4096) if attempt(os.fstat, fd) == "ok"]
say([own, others])
"""


def with_open_secrets(secret: Path, argv: list[str], env: dict[str, str], cwd: Path) -> bytes:
    """Start a program with 3 to 60 open on the secret, and its text in the environment."""
    start = "import os, sys\nfor n in range(3, 61): os.dup2(int(sys.argv[1]), n)\nos.execv(sys.argv[2], sys.argv[2:])"
    with secret.open("r+b") as file:
        done = subprocess.run(
            [attack.PYTHON, "-I", "-c", start, str(file.fileno()), *argv],
            capture_output=True,
            pass_fds=[file.fileno()],
            env={**env, "CANARY": secret.read_text()},
            cwd=cwd,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_descriptors_and_environment_of_the_caller_reach_no_box(
    own_installation: Installation, tmp_path: Path, nonce: str
) -> None:
    """The command line, the daemon it starts and the daemon's launcher all come up with secrets open."""
    secret = tmp_path / "secret"
    secret.write_text(nonce)
    look = attack.program(DESCRIPTORS)
    env, cwd = own_installation.environ, own_installation.workspace
    own, others = json.loads(with_open_secrets(secret, [str(PROGRAM), "run", "--", *look], env, cwd))
    assert (own, others) == ([0, 1, 2], [])
    oracle, _ = json.loads(with_open_secrets(secret, look, env, cwd))  # outside the same caller passes them all on
    assert set(range(3, 61)) <= set(oracle)
    daemon = own_installation.daemon_pid()
    for pid in ((daemon,) if IS_ROOT else ()) + tuple(children(daemon)):  # nobody but root looks into the daemon
        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert str(secret) not in held
        assert nonce.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


# -- FS-10, FS-11: mounts ----------------------------------------------------------------------------------------------

MOUNTS = """
calls, directory = ARGS
one, two = f"{directory}/one", f"{directory}/two"
for path in (one, two, f"{directory}/up", f"{directory}/work", f"{directory}/put"):
    os.makedirs(path, exist_ok=True)
b = os.fsencode
BIND, REMOUNT, RDONLY, DETACH = 4096, 32, 1, 2
results = {}
results["bind"] = call(calls["mount"], b(one), b(two), None, BIND, None)
results["remount"] = call(calls["mount"], None, b(two), None, BIND | REMOUNT | RDONLY, None)
results["umount"] = call(calls["umount2"], b(two), DETACH)
results["tmpfs"] = call(calls["mount"], b"t", b(two), b"tmpfs", 0, None)
results["proc"] = call(calls["mount"], b"p", b(two), b"proc", 0, None)
overlay = b(f"lowerdir={one},upperdir={directory}/up,workdir={directory}/work,userxattr")
results["overlay"] = call(calls["mount"], b"o", b(one), b"overlay", 0, overlay)
results["open_tree"] = call(calls["open_tree"], -100, b(directory), 1)
results["fsopen"] = call(calls["fsopen"], b"tmpfs", 0)
results["mount_setattr"] = call(calls["mount_setattr"], -100, b(two), 0, bytes([1]) + bytes(31), 32)
results["chroot"] = call(calls["chroot"], b"/")
results["unshare mount"] = call(calls["unshare"], 0x20000)
call(calls["mount"], b"t", b(two), b"tmpfs", 0, None)
os.chdir(two)
results["pivot_root"] = call(calls["pivot_root"], b".", b".")
say(results)
"""
_MOUNT_CALLS = ("mount", "umount2", "open_tree", "fsopen", "mount_setattr", "chroot", "unshare", "pivot_root")


def test_mounting_of_any_kind_is_refused(box: Box, tmp_path: Path) -> None:
    calls = {name: number(name) for name in _MOUNT_CALLS}
    oracle = twin(MOUNTS, calls, str(tmp_path))
    assert set(oracle.values()) == {"ok"}, oracle
    refused = inside(box, MOUNTS, calls, "/tmp/m")
    assert set(refused.values()) == {"EPERM"}, refused


def test_a_protective_mount_cannot_be_taken_away_from_a_nested_namespace(box: Box) -> None:
    program = """
results = [call(ARGS[0], 0x10020000)]  # a user and a mount namespace
results.append(call(ARGS[1], b"/proc/sys", 2))
say(results)
"""
    assert inside(box, program, number("unshare"), number("umount2")) == ["EPERM", "EPERM"]
    assert twin(program, number("unshare"), number("umount2"))[0] == "ok"


def test_the_mounts_are_private_to_the_box(box: Box, installation: Installation) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    assert box.exec(["sh", "-c", "cat /proc/self/mountinfo"]).stdout.decode() != before
    assert str(installation.state) not in {line.split()[4] for line in before.splitlines()}
    options = {
        line.split()[4]: line.split()[5].split(",")
        for line in box.exec(["cat", "/proc/self/mountinfo"]).stdout.decode().splitlines()
    }
    for place, words in options.items():
        assert "nosuid" in words, place
        assert "nodev" in words or place.startswith("/dev"), place


# -- FS-13: devices ----------------------------------------------------------------------------------------------------


def test_device_nodes_cannot_be_made(box: Box, installation: Installation, tmp_path: Path) -> None:
    program = """
import stat
os.chdir(ARGS[0])
char, block = stat.S_IFCHR | 0o600, stat.S_IFBLK | 0o600
kinds = {"whiteout": (char, 0), "null": (char, os.makedev(1, 3)), "disk": (block, os.makedev(254, 0))}
say({name: attempt(os.mknod, name, *how) for name, how in kinds.items()})
"""
    oracle = outside(program, str(tmp_path))
    assert oracle == {"whiteout": "ok", "null": "ok" if IS_ROOT else "EPERM", "disk": "ok" if IS_ROOT else "EPERM"}
    for place in (str(installation.workspace), *(() if contract.own_kernel() else ("/tmp",))):  # gVisor's own memory
        assert set(inside(box, program, place).values()) == {"EPERM"}
    assert not {"whiteout", "null", "disk"} & set(os.listdir(installation.workspace))


@pytest.mark.privileged
def test_a_device_node_in_the_workspace_is_dead(box: Box, installation: Installation) -> None:
    node = installation.workspace / "null"
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    node.write_bytes(b"works")  # the oracle: outside it is the device
    assert node.stat().st_size == 0
    assert inside(box, "say(attempt(open, ARGS[0], 'wb'))", str(node)) == "EACCES"


def test_only_harmless_devices_exist(box: Box) -> None:
    listed = set(box.exec(["ls", "/dev"]).stdout.decode().split())
    assert listed == {
        *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr")
    }
    assert {"mem", "kmsg"} & set(os.listdir("/dev"))  # the oracle: the host has more


@pytest.fixture
def mounted_inside(installation: Installation, canaries: dict[str, Path], nonce: str) -> Iterator[list[str]]:
    """Secret places mounted inside the workspace, as a chroot has them, one under a name that mountinfo escapes."""
    points = []
    for name, source in {"plain": canaries["ssh"].parent, "two words\\": canaries["state"].parent}.items():
        point = installation.workspace / "chroot" / name
        point.mkdir(parents=True)
        subprocess.run(["mount", "--bind", str(source), str(point)], check=True)
        points.append(str(point))
        assert (point / f".{nonce}").read_text() == nonce
    yield points
    for place in points:
        subprocess.run(["umount", place], check=True)


@pytest.mark.privileged
def test_secret_places_mounted_inside_the_workspace_are_hidden(
    paddock: Paddock, installation: Installation, mounted_inside: list[str], nonce: str
) -> None:
    box = paddock.create("chroot", workspace=str(installation.workspace))
    program = "say([os.listdir(point) for point in ARGS])"
    assert outside(program, *mounted_inside) != [[], []]
    assert inside(box, program, *mounted_inside) == [[], []]
    reads = [f"{point}/.{nonce}" for point in mounted_inside]
    assert set(outside(READ, *reads)) == {nonce}
    assert set(inside(box, READ, *reads)) == {"ENOENT"}


# -- FS-17: names ------------------------------------------------------------------------------------------------------

NAMES = [
    b"new\nline",
    b"\x1b[31mred",
    b"-rf",
    b"\xff\xfe",
    "a\u202eb".encode(),
    b"\x07",
    b" ",
    b"$(touch x)",
    b"a\rb",
    b"\xc2\x9b2J",
]


def test_hostile_names_survive_a_round_trip_and_are_shown_harmlessly(box: Box, installation: Installation) -> None:
    target = installation.workspace / "names"
    target.mkdir()
    for name in NAMES:
        (target / os.fsdecode(name)).write_bytes(name)
    entries = box.files.list(str(target))
    assert sorted(os.fsencode(entry.path.rpartition("/")[2]) for entry in entries) == sorted(NAMES)
    for entry in entries:
        assert box.files.read(entry.path) == os.fsencode(entry.path.rpartition("/")[2])
    box.files.make_dir("/tmp/names")
    for name in NAMES:
        box.files.symlink(
            f"/tmp/names/{os.fsdecode(name)}", "/etc/passwd"
        )  # each is skipped, and so named in a warning
    done = installation.cli("cp", "target:/tmp/names", "copied")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == len(NAMES)
    assert all(byte == 10 or 32 <= byte < 127 for byte in done.stderr), done.stderr
    out = installation.cli("cp", f"target:{target}", "copied")
    assert out.returncode == 0, out.stderr
    assert sorted(os.listdir(os.fsencode(installation.workspace / "copied" / "names"))) == sorted(NAMES)


# -- FS-19: temporary places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/run/user", "/run/lock", "/var/tmp", "/home/agent"])
def test_temporary_places_are_the_boxs_own(
    paddock: Paddock, installation: Installation, box: Box, place: str, nonce: str
) -> None:
    assert box.exec(["sh", "-c", f"echo > {place}/{nonce}"]).ok
    assert box.exec(["cat", f"{place}/{nonce}"]).ok
    assert not os.path.lexists(f"{place}/{nonce}")
    other = paddock.create("other", workspace=str(installation.workspace))
    assert not other.exec(["cat", f"{place}/{nonce}"]).ok


@pytest.fixture
def host_files(nonce: str) -> Iterator[list[str]]:
    paths = [f"{place}/{nonce}" for place in ("/tmp", "/dev/shm", "/var/tmp")]
    for path in paths:
        Path(path).write_text(nonce)
    yield paths
    for path in paths:
        os.unlink(path)


def test_temporary_files_of_the_host_are_not_there(box: Box, host_files: list[str], nonce: str) -> None:
    assert set(outside(READ, *host_files)) == {nonce}
    assert set(inside(box, READ, *host_files)) == {"ENOENT"}


def test_a_stopped_boxs_temporary_files_are_gone_when_it_starts_again(box: Box) -> None:
    assert box.exec(["sh", "-c", "mkdir -p /tmp/a/b; chmod 0 /tmp/a/b /tmp/a; echo > ~/kept"]).ok
    box.stop()
    assert box.exec(["sh", "-c", "test ! -e /tmp/a && ls -A ~"]).stdout == b"kept\n"


# -- toolchains --------------------------------------------------------------------------------------------------------


def test_toolchains_of_the_home_appear_and_their_credentials_do_not(installation: Installation, nonce: str) -> None:
    home = Path(paths.home_directory()) / f".{nonce}"
    good, bad, venv = home / "bin", home / "mixed", home / "venv"
    try:
        for directory in (good, bad, venv / "bin"):
            directory.mkdir(parents=True)
            (directory / "tool").write_text(f"#!/bin/sh\necho {directory}\n")
            (directory / "tool").chmod(0o755)
        secrets = [home / "secret", bad / ".npmrc", venv / "pip.conf", venv / ".env", home / ".ssh" / "id_rsa"]
        (venv / "pyvenv.cfg").write_text("")
        for secret in secrets:
            secret.parent.mkdir(exist_ok=True)
            secret.write_text(nonce)
        path = f"{good}:{bad}:{venv}/bin:/usr/bin:/bin"
        script = (
            f"{good}/tool; {bad}/tool; {venv}/bin/tool; grep -r {nonce}$ {home}; cat {home}/.ssh/id_rsa; "
            f"ls -A {home}; touch {good}/new"
        )
        done = installation.cli("run", "--", "sh", "-c", script, env={"PATH": path})
        assert done.stdout.decode().splitlines()[0] == str(good)
        assert f"{nonce}\n".encode() not in done.stdout.replace(str(home).encode(), b"")
        assert str(bad).encode() not in done.stdout
        assert b"Read-only file system" in done.stderr
        assert not (good / "new").exists()
        oracle = subprocess.run(["sh", "-c", script], capture_output=True, check=False, env={"PATH": path})
        assert oracle.stdout.count(nonce.encode() + b"\n") >= len(secrets)
        until(lambda: installation.cli("ls", "-q").stdout == b"", "the ephemeral box is gone")
    finally:
        fs.remove_tree(str(home))
