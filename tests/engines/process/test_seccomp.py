"""The filters on the real kernel: every act is tried outside first, so that a refusal inside means something."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import mmap
import os
import pickle
import platform
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

import paddock
from paddock.engines.process import seccomp

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.box

T = TypeVar("T")
SOURCE = Path(paddock.__file__).parents[1]
HIGH_HALF = 1 << 32  # the kernel drops it from an int argument, so must the filter
libc = ctypes.PyDLL(None, use_errno=True)  # keeps the GIL: a raw clone must not leave it with a thread that is gone
libc.syscall.restype = ctypes.c_long
filters = functools.cache(seccomp.build)


def in_child(act: Callable[[], T]) -> T:
    """Run `act` in a forked child and bring home what it returned."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = pickle.dumps((True, act()))
        except BaseException:  # noqa: BLE001  the child must never return into the test run
            answer = pickle.dumps((False, traceback.format_exc()))
        os.write(send, answer)
        os._exit(0)
    os.close(send)
    with open(receive, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(pid, 0)
    assert data, f"the child ended with wait status {status}"
    fine, result = pickle.loads(data)
    assert fine, result
    return result  # type: ignore[no-any-return]


def confined(act: Callable[[], T]) -> T:
    """Run `act` in a child under both filters."""
    programs = filters()[:2]

    def body() -> T:
        confine(programs)
        return act()

    return in_child(body)


def confine(programs: tuple[bytes, bytes]) -> None:
    libc.prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0)))  # PR_SET_NO_NEW_PRIVS
    seccomp.install(programs)


def number(name: str) -> int:
    return int(ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(name.encode()))


def call(name: str, *args: int | bytes) -> int:
    """Make one raw system call; its errno, 0 for success."""
    words = [ctypes.c_char_p(arg) if isinstance(arg, bytes) else ctypes.c_ulong(arg & (1 << 64) - 1) for arg in args]
    result = libc.syscall(ctypes.c_long(number(name)), *words)
    return ctypes.get_errno() if result == -1 else 0


def error_of(act: Callable[[], object]) -> int:
    try:
        act()
    except OSError as error:
        return error.errno or -1
    return 0


def can(capability: int) -> bool:
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("CapEff:")[1].split()[0], 16) >> capability & 1)


BAD, NOBODY = 1, -1  # an address and a descriptor that no process has
SYS_ADMIN, SYS_BOOT, SYS_MODULE, SYS_PACCT, SYSLOG, DAC_READ_SEARCH = 21, 22, 16, 20, 34, 2
# name, arguments that change nothing even for root, the capability without which the kernel itself says EPERM
DENIED: list[tuple[str, tuple[int, ...], int | None]] = [
    ("unshare", (0,), None),
    ("setns", (NOBODY, 0), None),
    ("mount", (BAD, BAD, BAD, 0, 0), None),
    ("umount2", (BAD, 0), None),
    ("pivot_root", (BAD, BAD), SYS_ADMIN),
    ("chroot", (BAD,), None),
    ("open_tree", (NOBODY, BAD, 0), None),
    ("move_mount", (NOBODY, BAD, NOBODY, BAD, 0), SYS_ADMIN),
    ("mount_setattr", (NOBODY, BAD, 0, BAD, 0), None),
    ("fsopen", (BAD, 0), SYS_ADMIN),
    ("fsconfig", (NOBODY, 0, 0, 0, 0), None),
    ("fsmount", (NOBODY, 0, 0), SYS_ADMIN),
    ("fspick", (NOBODY, BAD, 0), SYS_ADMIN),
    ("open_by_handle_at", (NOBODY, BAD, 0), DAC_READ_SEARCH),
    ("name_to_handle_at", (NOBODY, BAD, BAD, BAD, 0), None),
    ("fanotify_init", (0xFFFFFFFF, 0), SYS_ADMIN),
    ("io_uring_setup", (1, BAD), None),
    ("io_uring_enter", (NOBODY, 0, 0, 0, 0, 0), None),
    ("io_uring_register", (NOBODY, 0, 0, 0), None),
    ("bpf", (9999, BAD, 8), SYS_ADMIN),
    ("perf_event_open", (BAD, 0, -1, -1, 0), None),
    ("userfaultfd", (1,), None),  # UFFD_USER_MODE_ONLY: for everyone
    ("vmsplice", (NOBODY, BAD, 1, 0), None),
    ("keyctl", (0, -2, 0), None),  # is there a process keyring?
    ("add_key", (BAD, BAD, 0, 0, 0), None),
    ("request_key", (BAD, BAD, 0, 0), None),
    ("pidfd_getfd", (NOBODY, NOBODY, 0), None),
    ("modify_ldt", (0, 0, 0), None),
    ("mbind", (0, 0, 99, 0, 0, 0), None),
    ("get_mempolicy", (0, 0, 0, 0, 0), None),
    ("set_mempolicy", (99, 0, 0), None),
    ("init_module", (BAD, 0, BAD), SYS_MODULE),
    ("finit_module", (NOBODY, BAD, 0), SYS_MODULE),
    ("delete_module", (BAD, 0), SYS_MODULE),
    ("kexec_load", (0, 99, BAD, 0xFFFFFFFF), SYS_BOOT),
    ("reboot", (0, 0, 0, 0), SYS_BOOT),
    ("swapon", (BAD, 0), SYS_ADMIN),
    ("swapoff", (BAD,), SYS_ADMIN),
    ("iopl", (9,), None),
    ("acct", (BAD,), SYS_PACCT),
    ("quotactl", (0, 0, 0, 0), None),
    ("syslog", (10, 0, 0), SYSLOG),
    ("sethostname", (BAD, -1), SYS_ADMIN),
    ("settimeofday", (BAD, 0), None),
    ("clock_settime", (9999, BAD), None),
    ("clock_adjtime", (0, BAD), None),
    ("adjtimex", (BAD,), None),
]


@pytest.mark.parametrize(("name", "args", "capability"), DENIED, ids=[row[0] for row in DENIED])
def test_a_denied_call_says_not_permitted(name: str, args: tuple[int, ...], capability: int | None) -> None:
    if number(name) < 0:
        pytest.skip(f"no {name} on this machine")
    assert confined(lambda: call(name, *args)) == errno.EPERM
    if capability is not None and not can(capability):
        pytest.skip("inside it is refused; outside the kernel also refuses it to an ordinary user")
    assert in_child(lambda: call(name, *args)) != errno.EPERM


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("clone3", (BAD, 0)),
        ("openat2", (NOBODY, BAD, BAD, 0)),
        ("memfd_secret", (0xFFFF,)),
        ("futex_wake", (BAD, 0, 0, 99)),
    ],
)
def test_a_call_that_is_not_listed_looks_unimplemented(name: str, args: tuple[int, ...]) -> None:
    if number(name) < 0 or in_child(lambda: call(name, *args)) == errno.ENOSYS:
        pytest.skip(f"no {name} on this machine")
    assert confined(lambda: call(name, *args)) == errno.ENOSYS


def test_clone_makes_children_but_no_namespaces() -> None:
    new_user = 0x10000000

    def clone(flags: int) -> int:
        result = libc.syscall(
            ctypes.c_long(number("clone")), *map(ctypes.c_ulong, (flags | signal.SIGCHLD, 0, 0, 0, 0))
        )
        if result == 0:
            os._exit(0)
        return ctypes.get_errno() if result < 0 else os.waitpid(result, 0)[1]

    if in_child(lambda: clone(new_user)):
        pytest.skip("this host makes no user namespace for an ordinary user")
    assert confined(lambda: clone(new_user)) == errno.EPERM
    assert confined(lambda: clone(new_user | HIGH_HALF)) == errno.EPERM
    assert confined(lambda: clone(0)) == 0


SOCKETS = [
    ("vsock", (40, 1, 0), errno.EAFNOSUPPORT),
    ("vsock with noise in the high half", (40 | HIGH_HALF, 1, 0), errno.EAFNOSUPPORT),
    ("packet", (17, 3, 0), errno.EAFNOSUPPORT),
    ("packet by its old name", (2, 10, 0), errno.ESOCKTNOSUPPORT),
    ("alg", (38, 5, 0), errno.EAFNOSUPPORT),
    ("xdp", (44, 3, 0), errno.EAFNOSUPPORT),
    ("bluetooth", (31, 3, 0), errno.EAFNOSUPPORT),
    ("key", (15, 3, 2), errno.EAFNOSUPPORT),
    ("netlink sock_diag", (16, 3, 4), errno.EAFNOSUPPORT),
    ("netlink xfrm", (16, 3, 6), errno.EAFNOSUPPORT),
    ("netlink audit", (16, 3, 9), errno.EAFNOSUPPORT),
    ("netlink netfilter", (16, 3, 12), errno.EAFNOSUPPORT),
    ("netlink uevent", (16, 3, 15), errno.EAFNOSUPPORT),
    ("netlink generic", (16, 3, 16), errno.EAFNOSUPPORT),
    ("mptcp", (2, 1, 262), errno.EPROTONOSUPPORT),
    ("mptcp over ipv6", (10, 1, 262), errno.EPROTONOSUPPORT),
    ("sctp", (2, 1, 132), errno.EPROTONOSUPPORT),
    ("udplite", (2, 2, 136), errno.EPROTONOSUPPORT),
]


@pytest.mark.parametrize(("args", "refusal"), [row[1:] for row in SOCKETS], ids=[row[0] for row in SOCKETS])
def test_a_socket_beyond_unix_tcp_udp_and_route_is_refused(args: tuple[int, int, int], refusal: int) -> None:
    assert confined(lambda: call("socket", *args)) == refusal
    if in_child(lambda: call("socket", *args)) in {refusal, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}:
        pytest.skip("inside it is refused; this kernel has none outside either")


@pytest.mark.parametrize("args", [(1, 1, 0), (1, 5, 0), (2, 1, 6), (2, 2, 17), (2 | HIGH_HALF, 1, 0), (16, 3, 0)])
def test_the_sockets_programs_need_are_made(args: tuple[int, int, int]) -> None:
    assert confined(lambda: call("socket", *args)) == 0


def test_socketpairs_are_unix_only() -> None:
    assert confined(lambda: len(socket.socketpair())) == 2
    assert in_child(lambda: call("socketpair", socket.AF_INET, 1, 0, bytes(8))) == errno.EOPNOTSUPP
    assert confined(lambda: call("socketpair", socket.AF_INET, 1, 0, bytes(8))) == errno.EAFNOSUPPORT


SET_ID = [0o4755, 0o2755, 0o6755]


def _chmod(place: Path, mode: int) -> None:
    (place / "file").touch()
    os.chmod(place / "file", mode)


def _fchmod(place: Path, mode: int) -> None:
    with (place / "file").open("w") as file:
        os.fchmod(file.fileno(), mode)


def _fchmodat2(place: Path, mode: int) -> None:
    (place / "file").touch()
    _raise(call("fchmodat2", -100, bytes(place / "file"), mode, 0))


def _open(place: Path, mode: int) -> None:
    os.close(os.open(place / "file", os.O_CREAT | os.O_WRONLY, mode))


def _open_by_its_old_number(place: Path, mode: int) -> None:
    _raise(call("open", bytes(place / "file"), os.O_CREAT | os.O_WRONLY, mode))


def _creat(place: Path, mode: int) -> None:
    _raise(call("creat", bytes(place / "file"), mode))


def _tmpfile(place: Path, mode: int) -> None:
    fd = os.open(place, os.O_TMPFILE | os.O_WRONLY, mode)
    os.link(f"/proc/self/fd/{fd}", place / "file", src_dir_fd=fd, follow_symlinks=True)  # only so it follows, 3.11


def _mknod(place: Path, mode: int) -> None:
    os.mknod(place / "file", stat.S_IFREG | mode)


def _raise(number: int) -> None:
    if number:
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("mode", SET_ID, ids=oct)
@pytest.mark.parametrize(
    "act",
    [_chmod, _fchmod, _fchmodat2, _open, _open_by_its_old_number, _creat, _tmpfile, _mknod],
    ids=lambda f: f.__name__,
)
def test_no_call_leaves_a_set_id_file(act: Callable[[Path, int], None], mode: int, tmp_path: Path) -> None:
    inside, outside, plain = (tmp_path / name for name in ("inside", "outside", "plain"))
    for place in (inside, outside, plain):
        place.mkdir()
    refusal = in_child(lambda: error_of(lambda: act(outside, mode)))
    if refusal in {errno.ENOSYS, errno.EOPNOTSUPP, errno.EISDIR}:
        pytest.skip("not on this machine or file system")
    assert refusal == 0
    assert (outside / "file").stat().st_mode & 0o6000 == mode & 0o6000
    assert confined(lambda: error_of(lambda: act(inside, mode))) == errno.EPERM
    assert not (inside / "file").exists() or not (inside / "file").stat().st_mode & 0o6000
    assert confined(lambda: error_of(lambda: act(plain, 0o755))) == 0


def test_mkdir_needs_no_rule_because_the_kernel_drops_set_id_bits(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o6755)
    assert not (tmp_path / "a").stat().st_mode & 0o4000
    assert (tmp_path / "a").stat().st_mode & 0o2000 == tmp_path.stat().st_mode & 0o2000


DEVICES = (os.makedev(1, 3), os.makedev(0, 0))  # the second, as a character device, is anyone's


def _makes_node(path: Path, kind: int, device: int) -> bool:
    return error_of(lambda: os.mknod(path, kind | 0o600, device)) == 0


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_no_device_node_is_made(kind: int, tmp_path: Path) -> None:
    made = [device for device in DEVICES if _makes_node(tmp_path / str(device), kind, device)]
    if not made:
        pytest.skip("this user can make no such node outside either")
    assert confined(lambda: error_of(lambda: os.mknod(tmp_path / "inside", kind | 0o600, made[0]))) == errno.EPERM
    assert not (tmp_path / "inside").exists()


def test_fifos_are_made(tmp_path: Path) -> None:
    assert confined(lambda: error_of(lambda: os.mkfifo(tmp_path / "fifo"))) == 0


def test_rename_leaves_no_device_node_behind(tmp_path: Path) -> None:
    def rename(name: str) -> int:
        (tmp_path / name).touch()
        whiteout = 4
        return call("renameat2", -100, bytes(tmp_path / name), -100, bytes(tmp_path / f"{name}.new"), whiteout)

    assert confined(lambda: rename("inside")) == errno.EPERM
    if in_child(lambda: rename("outside")):
        pytest.skip("this file system has no whiteouts")
    assert stat.S_ISCHR((tmp_path / "outside").stat().st_mode)


def _ask_terminal(request: int) -> int:
    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY: typing is only possible into one's own terminal
    return call("ioctl", terminal, request, bytes(8))


@pytest.mark.parametrize("request_", [0x5412, 0x5412 | HIGH_HALF, 0x541C, 0x5423], ids=hex)
def test_nothing_types_into_a_terminal_or_loads_a_line_discipline(request_: int) -> None:
    assert confined(lambda: _ask_terminal(request_)) == errno.EPERM
    assert in_child(lambda: _ask_terminal(request_)) in {0, errno.EIO, errno.ENOTTY}


def test_the_window_size_is_still_asked() -> None:
    assert confined(lambda: _ask_terminal(0x5413)) == 0


def test_a_debugger_may_stop_randomisation_but_no_one_makes_memory_executable() -> None:
    read_implies_exec, no_randomize = 0x0400000, 0x0040000
    assert in_child(lambda: call("personality", read_implies_exec)) == 0
    assert confined(lambda: call("personality", read_implies_exec)) == errno.EPERM
    assert confined(lambda: call("personality", read_implies_exec | HIGH_HALF)) == errno.EPERM
    assert confined(lambda: call("personality", no_randomize)) == 0
    assert confined(lambda: call("personality", 0xFFFFFFFF)) == 0


def _machine_code(code: bytes) -> int:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    return int(ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86_64 machine code")
@pytest.mark.parametrize(
    "code",
    [b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"],
    ids=["int 0x80", "x32"],
)
def test_a_foreign_getpid_is_refused_and_does_not_kill(code: bytes) -> None:
    assert confined(lambda: _machine_code(code)) in {-errno.EPERM, 2**32 - errno.EPERM}
    pid, result = in_child(lambda: (os.getpid(), _machine_code(code)))
    assert result in {pid, -errno.ENOSYS}  # ENOSYS: a kernel without that machine


def test_install_refuses_without_no_new_privs_and_installs_nothing() -> None:
    programs = filters()[:2]

    def install() -> tuple[int, bool]:
        refusal = error_of(lambda: seccomp.install(programs))
        return refusal, "Seccomp:\t0" in Path("/proc/self/status").read_text()

    assert in_child(install) == (errno.EACCES, True)


def test_both_filters_are_installed() -> None:
    assert "Seccomp_filters:\t2" in confined(Path("/proc/self/status").read_text)


def test_bytes_that_are_no_program_raise() -> None:
    def body() -> int:
        libc.prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        return error_of(lambda: seccomp.install((b"\xff" * 64, b"")))

    assert in_child(body) == errno.EINVAL


def test_building_leaves_no_descriptor_open_and_gives_the_same_bytes() -> None:
    before = os.listdir("/proc/self/fd")
    assert seccomp.build() == filters()
    assert os.listdir("/proc/self/fd") == before


def _python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{code}"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_a_broken_library_is_named_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "libseccomp.so.2").write_bytes(b"not a library")
    code = "from paddock.engines.process.seccomp import build\ntry: build()\nexcept OSError as e: print(e)"
    assert "libseccomp2" in _python(code, LD_LIBRARY_PATH=str(tmp_path)).stdout


def test_the_launcher_stays_small_by_importing_only_light_modules() -> None:
    code = "import paddock.engines.process.seccomp, paddock.engines.process.landlock\nprint(*sys.modules)"
    heavy = {"dataclasses", "typing", "enum", "re", "json", "subprocess", "inspect", "collections", "ctypes.util"}
    loaded = _python(code).stdout.split()
    assert "ctypes" in loaded
    assert not heavy & set(loaded)


PYTHON_PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, subprocess, sys, tempfile, threading
def square(n): return n * n
def main():
    print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout.strip())
    seen = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool: print(pool.map(square, range(4)))
    async def child():
        p = await asyncio.create_subprocess_exec("true"); return await p.wait()
    print(len(seen), asyncio.run(child()))
if __name__ == "__main__": main()
"""
NODE_PROGRAM = """
const { Worker } = require("worker_threads"), { execFileSync, fork } = require("child_process"), fs = require("fs");
if (process.argv[2] === "child") { process.send("pong"); process.disconnect(); }
else (async () => {
  console.log(execFileSync("echo", ["hi"]).toString().trim(), (await fs.promises.readdir(".")).length > 0);
  const w = new Worker('require("worker_threads").parentPort.postMessage(42)', { eval: true });
  console.log(await new Promise((r) => w.on("message", r)));
  console.log(await new Promise((r) => fork(__filename, ["child"]).on("message", r)));
})();
"""
PERL_PROGRAM = "$p = open(F, '-|') // die; if (!$p) { print 'from child'; exit } print <F>; close F; exit system 'true'"
GIT_PROGRAM = """
git init -q repo && cd repo && echo hello > file && git add file
git -c user.name=a -c user.email=a@example.invalid commit -qm first
git branch other && git gc -q && git log --format=%s && git clone -q . ../copy && cat ../copy/file
"""
GCC_PROGRAM = """
printf '#include <stdio.h>\\nint main(void){puts("compiled");return 0;}' > a.c && gcc -O1 -pipe -o a a.c && ./a
"""
TMUX_PROGRAM = """
tmux -S ./socket -f /dev/null new-session -d 'stty size > size; tmux -S ./socket wait-for -S done' \\; wait-for done
test -s size && echo sized
"""
PROGRAMS = [
    ("python3", "python3 program.py", PYTHON_PROGRAM, "42\n[0, 1, 4, 9]\n[0, 1, 4, 9]\n8 0\n"),
    ("bash", "bash program.py", "set -o pipefail; seq 100 | sort -rn | head -n1; cat <(echo a) <<< b", "100\na\n"),
    ("tar", "mkdir -p a/b && echo x > a/b/c && tar czf a.tgz a && rm -r a && tar xzpf a.tgz && cat a/b/c", "", "x\n"),
    ("find", "mkdir a && touch a/b && chmod 600 a/b && find . -name b -perm 600 -exec stat -c %a {} +", "", "600\n"),
    ("git", GIT_PROGRAM, "", "first\nhello\n"),
    ("gcc", GCC_PROGRAM, "", "compiled\n"),
    ("node", "node program.py", NODE_PROGRAM, "hi true\n42\npong\n"),
    ("perl", "perl program.py", PERL_PROGRAM, "from child"),
    ("strace", "strace -f -o log sh -c 'true; true' && grep -q execve log && echo traced", "", "traced\n"),
    ("tmux", TMUX_PROGRAM, "", "sized\n"),
    ("script", "script -qec 'tty > name' /dev/null > /dev/null < /dev/null && grep -c dev/pts name", "", "1\n"),
    ("ip", "ip -o link show lo | cut -d' ' -f2", "", "lo:\n"),
    ("getent", "getent hosts 127.0.0.1 > /dev/null; getent passwd root | cut -d: -f1", "", "root\n"),
    (
        "gdb",
        "gdb -q -batch -ex run -ex 'info proc' --args /bin/true | grep -o 'exited normally'",
        "",
        "exited normally\n",
    ),
]


def _run_program(command: str, program: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="pd-") as place:  # short: a socket path has 108 bytes
        Path(place, "program.py").write_text(textwrap.dedent(program))
        env = {"PATH": os.environ["PATH"], "HOME": place, "TMPDIR": place, "GIT_CONFIG_NOSYSTEM": "1", "TERM": "dumb"}
        argv = ["sh", "-ec", command]
        done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(("tool", "command", "program", "output"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_a_program_runs_as_before(tool: str, command: str, program: str, output: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    result = confined(lambda: _run_program(command, program))
    if result != (0, output) and _run_program(command, program) != (0, output):
        pytest.skip(f"{tool} does not work outside either")
    assert result == (0, output)
