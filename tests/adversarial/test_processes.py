"""Processes: no capability, no other namespace, no hand on init or the host, no way to use up what all boxes share."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import frames, limits
from paddock.model import ExecSpec, Limits
from tests.support import attack, contract
from tests.support.attack import PYTHON, Terminal, inside, number, outside, twin
from tests.support.installation import IS_ROOT, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL
DENIED = {"EPERM", "ENOSYS"}

# -- PROC-01, PROC-02: rights ------------------------------------------------------------------------------------------


def test_no_capability_can_be_had(box: Box) -> None:
    program = """
import struct
header = struct.pack("=Ii", 0x20080522, 0)
full = struct.pack("=6I", *[0xFFFFFFFF] * 6)
say({
    "capset": call(ARGS[0], header, full),
    "ambient": "ok" if libc.prctl(47, 2, 21, 0, 0) == 0 else word(ctypes.get_errno()),
    "securebits": "ok" if libc.prctl(28, 0, 0, 0, 0) == 0 else word(ctypes.get_errno()),
    "setuid": attempt(os.setuid, 0),
    "setgid": attempt(os.setgid, 0),
    "setgroups": attempt(os.setgroups, [0]),
    "new privileges": "ok" if libc.prctl(38, 0, 0, 0, 0) == 0 else word(ctypes.get_errno()),
})
"""
    refused = inside(box, program, number("capset"))
    assert set(refused.values()) <= {"EPERM", "EINVAL"}, refused
    if IS_ROOT:
        assert outside(program, number("capset"))["setgid"] == "ok"


@pytest.mark.parametrize("name", ["su", "passwd", "mount", "newgrp", "chfn", "sudo", "ping"])
def test_set_id_programs_of_the_host_give_nothing(box: Box, name: str) -> None:
    found = subprocess.run(["sh", "-c", f"PATH=$PATH:/usr/sbin command -v {name}"], capture_output=True, check=False)
    path = Path(found.stdout.decode().strip() or "/nonexistent")
    if not path.exists() or not path.stat().st_mode & 0o6000:
        pytest.skip(f"no set-id {name} on this machine")
    script = f"{path} --help >/dev/null 2>&1 & cat /proc/$!/status; wait"
    status = box.exec(["sh", "-c", script]).stdout.decode()
    own = "1000" if IS_ROOT else str(os.getuid())
    assert {line for line in status.splitlines() if line.startswith("Uid")} <= {"Uid:" + f"\t{own}" * 4}


def test_no_box_has_real_time_or_a_priority_above_others(box: Box) -> None:
    program = """
import resource
say([
    [resource.getrlimit(number) for number in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE)],
    attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),
    attempt(os.setpriority, os.PRIO_PROCESS, 0, 0),
    attempt(os.setpriority, os.PRIO_PROCESS, 0, 19),
])
"""
    assert inside(box, program) == [[[0, 0], [0, 0]], "EPERM", "EACCES", "ok"]


def test_no_process_of_a_box_is_root_outside(box: Box) -> None:
    pid = box.refresh().pid
    status = Path(f"/proc/{pid}/status").read_text()
    uids = {int(word) for word in status.split("Uid:")[1].splitlines()[0].split()}
    gids = {int(word) for word in status.split("Gid:")[1].splitlines()[0].split()}
    groups = status.split("Groups:")[1].splitlines()[0].split()
    assert 0 not in uids | gids
    assert uids == ({1_900_000_000} if IS_ROOT else {os.getuid()}) or IS_ROOT
    assert groups == [] or not IS_ROOT


# -- PROC-03: other processes ------------------------------------------------------------------------------------------

HANDS = """
import signal, struct
pid, calls = ARGS[0] or os.fork(), ARGS[1]
if pid == 0:
    signal.pause()
buffer = ctypes.create_string_buffer(8)
iovec = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
remote = (ctypes.c_void_p * 2)(id(0), 8)
def read(name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        file.read(1)
def write(name, text):
    with open(f"/proc/{pid}/{name}", "w") as file:
        file.write(text)
results = {
    "environ": attempt(read, "environ"),
    "maps": attempt(read, "maps"),
    "mem": attempt(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))),
    "fd": attempt(os.listdir, f"/proc/{pid}/fd"),
    "exe": attempt(os.readlink, f"/proc/{pid}/exe"),
    "root": attempt(os.listdir, f"/proc/{pid}/root/"),
    "oom": attempt(write, "oom_score_adj", "1000"),
    "process_vm_readv": call(calls["process_vm_readv"], pid, iovec, 1, remote, 1, 0),
    "process_vm_writev": call(calls["process_vm_writev"], pid, iovec, 1, remote, 1, 0),
    "kcmp": call(calls["kcmp"], os.getpid(), pid, 1, 0, 0),
    "prlimit": call(calls["prlimit64"], pid, 7, struct.pack("QQ", 100, 100), None),
    "ptrace": call(calls["ptrace"], 0x4206, pid, 0, 0),
}
if not ARGS[0]:
    os.kill(pid, signal.SIGKILL)
say(results)
"""


def hand_calls() -> dict[str, int]:
    names = ("process_vm_readv", "process_vm_writev", "kcmp", "prlimit64", "ptrace")
    return {name: number(name) for name in names}


def test_nothing_in_the_box_can_lay_hands_on_init(box: Box) -> None:
    oracle = inside(box, HANDS, 0, hand_calls())  # a process of its own can be traced, read, written and limited
    assert set(oracle.values()) == {"ok"}, oracle
    refused = inside(box, HANDS, 1, hand_calls())
    assert set(refused.values()) <= {"EPERM", "EACCES"}, refused


def test_processes_of_the_host_do_not_exist_for_a_box(box: Box) -> None:
    sleeper = subprocess.Popen([PYTHON, "-I", "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        assert attack.outside("say(attempt(os.kill, ARGS[0], 0))", sleeper.pid) == "ok"
        program = """
say([attempt(os.kill, ARGS[0], 9), attempt(os.pidfd_open, ARGS[0]), attempt(os.listdir, f"/proc/{ARGS[0]}")])
"""
        assert set(inside(box, program, sleeper.pid)) <= {"ESRCH", "ENOENT"}
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    "number_", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGCHLD, signal.SIGXCPU]
)
def test_no_signal_from_inside_ends_or_stops_init(box: Box, number_: int) -> None:
    pid = box.refresh().pid
    box.exec(["sh", "-c", f"kill -{int(number_)} 1; kill -{int(number_)} -1"])
    assert box.exec(["echo", "alive"]).stdout == b"alive\n"
    assert box.refresh().pid == pid
    box.exec(["sh", "-c", "sleep 100 & kill -9 $!"])  # the oracle: the signal does end others


def test_killing_everything_in_a_box_ends_nothing_elsewhere(
    paddock: Paddock, installation: Installation, box: Box
) -> None:
    other = paddock.create("other", workspace=str(installation.workspace))
    job = other.detach(["sleep", "600"])
    daemon = installation.daemon_pid()
    victim = box.detach(["sleep", "600"])
    box.exec(["sh", "-c", "kill -9 -1"])
    until(lambda: not {row.id: row.running for row in box.jobs()}[victim], "the box's own command is gone")
    assert {row.id: row.running for row in other.jobs()}[job]
    assert installation.daemon_pid() == daemon


# -- PROC-04: system calls ---------------------------------------------------------------------------------------------

_BAD = -1
# name, arguments that do nothing: outside the kernel answers with another error, or succeeds
CALLS: list[tuple[str, tuple[int, ...]]] = [
    ("io_uring_setup", (1, _BAD)),
    ("io_uring_enter", (_BAD, 0, 0, 0, 0, 0)),
    ("io_uring_register", (_BAD, 0, 0, 0)),
    ("userfaultfd", (1,)),
    ("perf_event_open", (_BAD, 0, _BAD, _BAD, 0)),
    ("add_key", (_BAD, _BAD, 0, 0, 0)),
    ("request_key", (_BAD, _BAD, 0, 0)),
    ("keyctl", (0, -3, 0)),
    ("name_to_handle_at", (_BAD, _BAD, _BAD, _BAD, 0)),
    ("vmsplice", (_BAD, _BAD, 1, 0)),
    ("pidfd_getfd", (_BAD, 0, 0)),
    ("fanotify_mark", (_BAD, 1, 1, _BAD, _BAD)),
    ("setns", (_BAD, 0)),
    ("open_tree", (_BAD, _BAD, 0)),
    ("memfd_secret", (0,)),
    ("mbind", (0, 0, 0, 0, 0, 0)),
    ("move_pages", (0, 0, 0, 0, 0, 0)),
    ("process_madvise", (_BAD, 0, 0, 0, 0)),
]


def test_dangerous_system_calls_are_refused(box: Box) -> None:
    program = "say({name: call(number, *args) for name, number, args in ARGS})"
    rows = [(name, number(name), args) for name, args in CALLS]
    oracle = outside(program, *rows)
    reached = {name for name, word in oracle.items() if word not in DENIED}
    assert len(reached) >= len(CALLS) // 2, oracle  # a kernel may lack some of them or keep them to root
    refused = inside(box, program, *rows)
    assert {name: word for name, word in refused.items() if word not in DENIED} == {}


@pytest.mark.parametrize("persona", [0x0400000, 0x0100000, 0x4000000, 0x8000000])
def test_weakening_personalities_are_refused(box: Box, persona: int) -> None:
    program = "say('ok' if libc.personality(ctypes.c_ulong(ARGS[0])) >= 0 else word(ctypes.get_errno()))"
    assert outside(program, persona) == "ok"
    assert inside(box, program, persona) == "EPERM"


# -- PROC-05: terminals ------------------------------------------------------------------------------------------------


def test_a_box_cannot_type_into_the_users_terminal(installation: Installation, box: Box) -> None:
    program = """
import fcntl
requests = [0x5412, 0x541C, 0x5423]
words = [attempt(fcntl.ioctl, fd, request, b"x") for request in requests for fd in (0, 1, 2)]
words.append(attempt(lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")))
high = libc.ioctl(0, ctypes.c_ulong(0x5412 | 1 << 32), b"x")
words.append("ok" if high == 0 else word(ctypes.get_errno()))
open(ARGS[0], "w").write(json.dumps([words, os.ttyname(0), sorted(os.listdir("/dev/pts"))]))
"""
    result = installation.workspace / "result"
    for words in (("exec", "-t", "target"), ("exec", "-it", "--timeout", "60s", "target"), ("run",)):
        argv = attack.program(program, str(result))
        terminal = Terminal(installation, *words, *(["--"] if words == ("run",) else []), *argv)
        assert terminal.finish() == 0, terminal.seen
        answers, name, listed = json.loads(result.read_text())
        assert set(answers) == {"EPERM"}
        assert name.startswith("/dev/pts/")
        assert set(listed) <= {"0", "1", "2", "ptmx"}
        assert b"x" not in terminal.seen.replace(b"process box", b"")


def test_without_a_terminal_there_is_none_to_open(box: Box) -> None:
    assert inside(box, "say(attempt(os.open, '/dev/tty', os.O_RDWR))") == "ENXIO"


# -- PROC-06: namespaces -----------------------------------------------------------------------------------------------

_NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x00000080,
    "user and mount": 0x10020000,
    "all": 0x7E020000,
}
NEST = """
import struct
flags, calls = ARGS
def clone():
    pid = libc.syscall(ctypes.c_long(calls["clone"]), ctypes.c_long(flags & ~0xFF | 17), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return "ok" if pid > 0 else word(ctypes.get_errno())
def clone3():
    args = struct.pack("11Q", flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = libc.syscall(ctypes.c_long(calls["clone3"]), args, ctypes.c_long(len(args)))
    if pid == 0:
        os._exit(0)
    return "ok" if pid > 0 else word(ctypes.get_errno())
results = {"clone3": clone3()}
if flags != 0x80:  # in clone these bits are the signal
    results["clone"] = clone()
results["unshare"] = call(calls["unshare"], flags)
say(results)
"""


@pytest.mark.parametrize("flags", _NAMESPACES.values(), ids=_NAMESPACES)
def test_no_namespace_can_be_made_by_any_call(box: Box, flags: int) -> None:
    calls = {name: number(name) for name in ("clone", "unshare")} | {"clone3": 435}
    oracle = twin(NEST, flags, calls)
    assert set(oracle.values()) == {"ok"}, oracle
    refused = inside(box, NEST, flags, calls)
    assert set(refused.values()) <= DENIED, refused
    assert inside(box, NEST, 0, calls) == {"clone3": "ENOSYS", "clone": "ok", "unshare": "EPERM"}


@pytest.mark.privileged
def test_the_kernel_itself_counts_no_further_namespace(box: Box) -> None:
    """The second layer: in the box's user namespace but without its filter, none can be nested either."""
    enter = ["nsenter", "--target", str(box.refresh().pid), "--user", "--preserve-credentials", "--"]
    nest = ["unshare", "--user", "true"]
    done = subprocess.run([*enter, *nest], capture_output=True, check=False)
    assert b"No space left" in done.stderr
    assert subprocess.run(nest, check=False).returncode == 0


def test_tools_that_need_a_namespace_of_their_own_say_so(box: Box) -> None:
    assert "not permitted" in box.exec(["unshare", "-Ur", "true"]).stderr.decode()


# -- PROC-07: the kernel's own files -----------------------------------------------------------------------------------

KNOBS = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_inotify_instances",
    "/proc/sys/kernel/shmmax",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
]


def test_the_kernels_knobs_cannot_be_turned(box: Box) -> None:
    program = "say({path: attempt(lambda: os.close(os.open(path, os.O_WRONLY))) for path in ARGS})"
    own = [path for path in KNOBS if "/net/" in path or "/user/" in path or "hostname" in path]
    oracle = twin(program, *own)
    assert oracle["/proc/sys/net/ipv4/ip_forward"] == "ok"
    assert oracle["/proc/sys/user/max_user_namespaces"] == "ok"
    if IS_ROOT:
        assert outside(program, KNOBS[0]) == {KNOBS[0]: "ok"}
    refused = inside(box, program, *KNOBS)
    assert set(refused.values()) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, refused


def test_what_tells_of_the_kernel_is_empty_or_closed(box: Box) -> None:
    program = """
def size(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return len(os.read(fd, 100))
    except OSError as error:
        return word(error.errno)
say({path: size(path) for path in ARGS})
"""
    names = (
        "kallsyms",
        "kcore",
        "kmsg",
        "keys",
        "key-users",
        "timer_list",
        "slabinfo",
        "vmallocinfo",
        "iomem",
        "modules",
    )
    paths = [f"/proc/{name}" for name in names]
    oracle = outside(program, *paths)
    assert oracle["/proc/kallsyms"] == 100
    found = inside(box, program, *paths)
    assert set(found.values()) <= {0, "EACCES", "EPERM", "ENOENT"}, found
    assert inside(box, "say([os.listdir('/sys'), os.path.exists('/sys/fs/cgroup')])") == [[], False]


# -- keyrings and System V objects -------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
KEY = """
long, keyctl, name = ctypes.c_long, ctypes.c_long(ARGS[0]), ARGS[1].encode()
serial = libc.syscall(keyctl, long(10), long(-4), b"user", name, long(0))
if serial < 0:
    say(word(ctypes.get_errno()))
else:
    buffer = ctypes.create_string_buffer(100)
    size = libc.syscall(keyctl, long(11), long(serial), buffer, long(100))
    say(buffer.raw[:size].decode() if size >= 0 else word(ctypes.get_errno()))
"""


@pytest.fixture
def host_key(nonce: str) -> Iterator[str]:
    """A key in the caller's user keyring, which every process of the user can reach."""
    add, control = ctypes.c_long(number("add_key")), ctypes.c_long(number("keyctl"))
    serial = _libc.syscall(add, b"user", nonce.encode(), nonce.encode(), ctypes.c_long(len(nonce)), ctypes.c_long(-4))
    if serial < 0:
        pytest.skip("this machine has no keyrings for us")
    yield nonce
    _libc.syscall(control, ctypes.c_long(9), ctypes.c_long(serial), ctypes.c_long(-4))


def test_keys_of_the_user_are_out_of_reach(box: Box, host_key: str) -> None:
    assert outside(KEY, number("keyctl"), host_key) == host_key
    assert inside(box, KEY, number("keyctl"), host_key) == "EPERM"
    assert host_key.encode() not in box.exec(["cat", "/proc/keys"]).stdout


def test_shared_memory_and_queues_of_the_host_are_elsewhere(box: Box) -> None:
    key = int.from_bytes(os.urandom(3)) | 1
    program = """
found = libc.shmget(ARGS[0], 4096, 0)
say(["ok" if found >= 0 else word(ctypes.get_errno()), len(open("/proc/sysvipc/shm").readlines())])
"""
    identity = _libc.shmget(key, 4096, 0o1600)
    assert identity >= 0
    try:
        assert outside(program, key)[0] == "ok"
        assert inside(box, program, key) == ["ENOENT", 1]
    finally:
        _libc.shmctl(identity, 0, None)


# -- counts: one box must not take what all share ----------------------------------------------------------------------


def test_inotify_instances_are_bounded_per_box(box: Box) -> None:
    program = """
count = 0
while libc.inotify_init() >= 0 and count < 5000:
    count += 1
say(count)
"""
    assert 0 < inside(box, program) <= limits.INOTIFY_INSTANCES
    hold = program.replace("say(count)", "say(count); sys.stdin.read()")
    command = box.start(ExecSpec(argv=tuple(attack.program(hold)), stdin=True))
    try:
        assert next(iter(command.output()))[0] == frames.STDOUT
        assert outside("say(libc.inotify_init() >= 0)") is True  # while a box holds all of its own
    finally:
        command.close()


def test_one_box_cannot_take_all_terminals(paddock: Paddock, installation: Installation, box: Box) -> None:
    program = """
held = []
try:
    while len(held) < 5000:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
say(len(held))
sys.stdin.read()
"""
    command = box.start(ExecSpec(argv=tuple(attack.program(program)), stdin=True))
    try:
        kind, count = next(iter(command.output()))
        assert kind == frames.STDOUT
        assert 16 < int(count) <= limits.TERMINALS_PER_BOX
        paddock.create("other", workspace=str(installation.workspace))
        terminal = Terminal(installation, "exec", "-t", "other", "tty")
        assert terminal.finish() == 0, terminal.seen
    finally:
        command.close()


FORK = """
import signal, time
children = []
try:
    while len(children) < 4000:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    pass
say(len(children))
sys.stdin.read()
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""


def test_processes_are_bounded_per_box_and_other_boxes_are_not_affected(
    paddock: Paddock, installation: Installation
) -> None:
    boxes = [
        paddock.create(name, workspace=str(installation.workspace), limits=Limits(pids=40)) for name in ("one", "two")
    ]
    commands = [box.start(ExecSpec(argv=tuple(attack.program(FORK)), stdin=True)) for box in boxes]
    try:
        for command in commands:  # the second is bounded by its own count, while the first holds all of its own
            _, count = next(iter(command.output()))
            assert 30 <= int(count) <= 40
        third = paddock.create("three", workspace=str(installation.workspace), limits=Limits(pids=40))
        assert third.exec(["sh", "-c", "sleep 0 & sleep 0 & wait; echo fine"]).stdout == b"fine\n"
        assert subprocess.run(["true"], check=True).returncode == 0
    finally:
        for command in commands:
            command.close()


# -- PROC-10, PROC-11, PROC-12: commands -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255])
def test_the_exit_code_is_the_commands_own(box: Box, code: int) -> None:
    result = box.exec(["sh", "-c", f"exit {code}"])
    assert (result.exit_code, result.signal, result.timed_out) == (code, None, False)


@pytest.mark.parametrize("number_", [1, 2, 9, 11, 15, 31])
def test_an_end_by_signal_is_told_from_an_exit_code(box: Box, number_: int) -> None:
    result = box.exec(["sh", "-c", f"ulimit -c 0; kill -{number_} $$"])
    assert (result.exit_code, result.signal) == (128 + number_, number_)


def rss_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


FLOOD = "import os\nblock = bytes(range(256)) * 256\nwhile True:\n    os.write(1, block)\n    os.write(2, block)\n"


def test_a_flood_of_output_that_nobody_reads_takes_no_memory(box: Box, installation: Installation) -> None:
    daemon, init = installation.daemon_pid(), box.refresh().pid
    assert init is not None
    before = rss_bytes(daemon), rss_bytes(init)
    command = box.start(ExecSpec(argv=(PYTHON, "-I", "-c", FLOOD)))
    try:
        worker = command.wait_started().pid
        states = f"for n in 1 2 3 4 5; do cut -d' ' -f3 /proc/{worker}/stat; sleep 0.05; done"
        until(lambda: set(box.exec(["sh", "-c", states]).stdout.split()) == {b"S"}, "the flood is held up")
        growth = rss_bytes(daemon) - before[0], rss_bytes(init) - before[1]
        assert max(growth) < 8 << 20, growth
        read = 0
        for _, data in command.output():  # and what is read is what was written
            read += len(data)
            if read > 100 << 20:
                break
        growth = rss_bytes(daemon) - before[0], rss_bytes(init) - before[1]
        assert max(growth) < 8 << 20, growth
    finally:
        command.close()


def test_a_flood_into_a_journal_is_bounded_on_disk_and_in_memory(box: Box, installation: Installation) -> None:
    daemon, init = installation.daemon_pid(), box.refresh().pid
    assert init is not None
    before = rss_bytes(daemon), rss_bytes(init)
    amount = 3 * limits.JOURNAL_BYTES
    job = box.detach(["sh", "-c", f"yes 0123456789 | head -c {amount}; echo the end"])
    until(lambda: not {row.id: row.running for row in box.jobs()}[job], "the flood is over", 60)
    directory = installation.state / "boxes" / box.refresh().id / "journal"
    assert sum(path.stat().st_size for path in directory.iterdir()) <= limits.JOURNAL_BYTES
    growth = rss_bytes(daemon) - before[0], rss_bytes(init) - before[1]
    assert max(growth) < 8 << 20, growth
    shown = installation.cli("logs", f"target/{job}").stdout
    assert shown.endswith(b"the end\n")
    assert len(shown) <= limits.JOURNAL_BYTES


def test_many_commands_at_once_never_mix_their_streams(installation: Installation, box: Box) -> None:
    wrong: list[str] = []

    def run(index: int) -> None:
        with installation.sdk() as sdk:
            own = sdk.named("target")
            word = f"{index:04d}"
            script = f"for n in $(seq 200); do echo {word}; echo {word} >&2; done; cat; exit {index % 100}"
            if index % 5 == 4:  # some leave in the middle
                command = own.start(ExecSpec(argv=("sh", "-c", f"while echo {word}; do :; done")))
                for count, (_, data) in enumerate(command.output()):
                    if (
                        set(data.split())
                        - {word.encode()}
                        - {word[:n].encode() for n in range(5)}
                        - {word[n:].encode() for n in range(5)}
                    ):
                        wrong.append(word)
                    if count > 20:
                        break
                command.close()
                return
            result = own.exec(["sh", "-c", script], stdin=word.encode() * 1000)
            expected = f"{word}\n".encode() * 200
            if (result.stdout, result.stderr, result.exit_code) != (
                expected + word.encode() * 1000,
                expected,
                index % 100,
            ):
                wrong.append(word)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert wrong == []
    until(lambda: box.processes() == [], "every command has ended")


def test_a_limit_on_init_cannot_shut_the_box_or_hold_up_the_daemon(
    paddock: Paddock, installation: Installation, box: Box
) -> None:
    """Regression: prlimit(1, RLIMIT_NOFILE, 3) made init accept nobody, and each later connect stopped the daemon."""
    program = "import resource; say([attempt(resource.prlimit, 1, n, (3, 3)) for n in range(16)])"
    refused = inside(box, program)
    assert set(refused) == {"EPERM"}
    begun = time.monotonic()
    assert box.exec(["echo", "alive"]).stdout == b"alive\n"
    assert time.monotonic() - begun < 5
