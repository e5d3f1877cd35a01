"""Accounting, held against real processes that hold a known amount."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.engines.process import accounting
from paddock.errors import Unavailable
from paddock.limits import MIB

HOG = 192 * MIB  # more than the slack, so that memory counted twice is seen


def slack() -> int:
    """What forks of the test process hold by themselves: its own memory, which grows with the tests before this one."""
    status = Path("/proc/self/status").read_text()
    held = sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssAnon:", "VmPTE:")))
    return held * 1024 + 40 * MIB


ORDINARY = 61234
CLONE_FILES, CLONE_NEWUSER, CLONE_NEWPID = 0x400, 0x10000000, 0x20000000
PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
MAP_NORESERVE, MADV_NOHUGEPAGE = 0x4000, 15
SYS_EXIT = {"x86_64": 60, "aarch64": 93}
LIBC = ctypes.CDLL(None, use_errno=True)

Ready = Callable[[], None]


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[Ready], None]], int]]:
    """Forks a process that runs a function; returns its pid when the function says that it is ready."""
    with contextlib.ExitStack() as stack:
        yield lambda body: stack.enter_context(_forked(body))


@contextlib.contextmanager
def _forked(body: Callable[[Ready], None]) -> Iterator[int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            body(lambda: _tell_and_wait(writer))
        finally:
            os._exit(0)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"r", "the process ended before it was ready"
        yield pid
    finally:
        os.killpg(pid, signal.SIGKILL)  # grandchildren included
        os.waitpid(pid, 0)
        assert os.read(reader, 1) == b"", "someone survived"
        os.close(reader)


def _tell_and_wait(writer: int) -> None:
    os.write(writer, b"r")
    signal.pause()


def _hog(size: int = HOG) -> bytearray:
    return bytearray(b"x") * size


def _idle(ready: Ready) -> None:
    ready()


def _hold(ready: Ready) -> None:
    kept = _hog()
    ready()
    del kept


def _grandchild_holds(ready: Ready) -> None:
    if os.fork() == 0 and os.fork() == 0:
        _hold(ready)
        os._exit(0)
    signal.pause()


def _hold_under_a_hostile_name(ready: Ready) -> None:
    LIBC.prctl(PR_SET_NAME, b"x) R 1 (\n 1", 0, 0, 0)
    _grandchild_holds(ready)


def _hold_without_first_thread(ready: Ready) -> None:
    threading.Thread(target=lambda: _hold(ready)).start()
    LIBC.syscall(SYS_EXIT[platform.machine()], 0)


def _memfd(size: int = HOG) -> int:
    fd = os.memfd_create("hog")
    written = 0
    while written < size:
        written += os.write(fd, b"x" * MIB)
    return fd


def _hold_memfd(ready: Ready) -> None:
    _memfd()
    ready()


def _share_mapped_memfd(ready: Ready) -> None:
    mapping = mmap.mmap(_memfd(), HOG)
    assert mapping.read().count(b"x") == HOG
    if os.fork() == 0:
        signal.pause()
    ready()


def _hold_memfd_in_a_thread_of_its_own(ready: Ready) -> None:
    def hide() -> None:
        assert LIBC.unshare(CLONE_FILES) == 0
        _hold_memfd(ready)

    threading.Thread(target=hide).start()
    time.sleep(60)


def _hold_page_tables(ready: Ready) -> None:
    """Empty memory that was only read: no page of it is anybody's, the tables that say so are."""
    size = HOG // 4096 * 2 * MIB
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), MADV_NOHUGEPAGE)
    for offset in range(0, size, 2 * MIB):
        assert ctypes.c_char.from_address(start + offset).value == b"\0"
    ready()


@pytest.mark.parametrize(
    "body",
    [
        _hold,
        _hold_page_tables,
        _grandchild_holds,
        _hold_under_a_hostile_name,
        _hold_without_first_thread,
        _hold_memfd,
        _share_mapped_memfd,
        _hold_memfd_in_a_thread_of_its_own,
    ],
)
def test_memory_is_seen_once_however_it_is_held(
    body: Callable[[Ready], None], start: Callable[[Callable[[Ready], None]], int]
) -> None:
    idle, box = start(_idle), start(body)
    figures = accounting.memory_of([idle, box])
    assert figures[idle] < slack()
    assert HOG <= figures[box] < HOG + slack()


def test_a_cheap_figure_is_never_too_low_and_is_taken_only_where_it_is_enough(
    start: Callable[[Callable[[Ready], None]], int],
) -> None:
    def hold_in_four(ready: Ready) -> None:
        kept = _hog()
        for _ in range(3):
            if os.fork() == 0:
                signal.pause()
        ready()
        del kept

    box = start(hold_in_four)
    exact = accounting.memory_of([box])[box]
    assert accounting.memory_of([box], {box: 1 << 40})[box] >= 4 * HOG > exact >= HOG
    assert accounting.memory_of([box], {box: 3 * HOG})[box] < 3 * HOG


def test_a_process_that_forks_twice_is_its_namespaces_still() -> None:
    """The kernel hands an orphan to the pid 1 of its namespace, so the chain of parents ends at the box's init."""
    reader, writer = os.pipe()
    outside = os.fork()
    if outside == 0:
        try:
            _serve_namespace(writer)
        finally:
            os._exit(0)
    os.close(writer)
    words = os.read(reader, 64).split()
    try:
        if not words:
            pytest.skip("no pid namespace can be made here")
        init = int(words[0])
        assert os.read(reader, 1) == b"r"
        assert HOG <= accounting.memory_of([init])[init] < HOG + slack()
        assert len(accounting.family(init)) == 2
    finally:
        os.close(reader)
        if words:
            os.kill(int(words[0]), signal.SIGKILL)
        os.waitpid(outside, 0)


def _serve_namespace(writer: int) -> None:
    if LIBC.unshare(CLONE_NEWPID if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWPID) != 0:
        return
    init = os.fork()
    if init == 0:
        if os.fork() == 0:
            if os.fork() == 0:
                while os.getppid() != 1:  # until the one in the middle is gone
                    time.sleep(0.001)
                kept = _hog()
                os.write(writer, b"r")
                signal.pause()
                del kept
            os._exit(0)
        os.wait()
        signal.pause()
    os.write(writer, b"%d\n" % init)
    os.waitpid(init, 0)


def test_processes_outside_of_every_box_are_nobodys(start: Callable[[Callable[[Ready], None]], int]) -> None:
    idle, _stranger = start(_idle), start(_hold)
    figures = accounting.memory_of([idle])
    assert list(figures) == [idle]
    assert figures[idle] < slack()


def test_a_box_that_has_gone_is_left_out(start: Callable[[Callable[[Ready], None]], int]) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    alive = start(_idle)
    assert list(accounting.memory_of([pid, alive])) == [alive]
    assert accounting.family(pid) == frozenset()


def test_a_process_that_hides_from_its_user_is_still_counted() -> None:
    """Without the right to read smaps and descriptors the public figure is used; it is never too low."""
    reader, writer = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        try:
            _count_hidden(writer)
        finally:
            os._exit(0)
    os.close(writer)
    words = os.read(reader, 256).split()
    os.close(reader)
    os.waitpid(watcher, 0)
    readable, figure = int(words[0]), int(words[1])
    assert not readable, "the process was not hidden, so nothing is proven"
    assert figure >= HOG


def _count_hidden(writer: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(ORDINARY)
        os.setuid(ORDINARY)

    def hide(ready: Ready) -> None:
        LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        _hold(ready)

    with _forked(hide) as pid:
        readable = os.access(f"/proc/{pid}/fd", os.R_OK)
        os.write(writer, b"%d %d" % (readable, accounting.memory_of([pid])[pid]))


@pytest.mark.parametrize("name", [b"\rVmPTE: -999999", b"\rRssAnon:x", b"\x0bVmPTE:", b"\x1cVmSwap: -1"])
def test_a_program_that_calls_itself_a_line_of_its_status_is_counted_as_any(
    start: Callable[[Callable[[Ready], None]], int], name: bytes
) -> None:
    def rename(ready: Ready) -> None:
        LIBC.prctl(PR_SET_NAME, name, 0, 0, 0)
        _hold(ready)

    pid = start(rename)
    assert name[:15] in Path(f"/proc/{pid}/status").read_bytes(), "else nothing is proven"
    assert HOG <= accounting.memory_of([pid], {pid: 10**12})[pid] < 2 * HOG + slack()


def test_a_file_without_a_name_counts_while_it_is_open(
    tmp_path: Path, start: Callable[[Callable[[Ready], None]], int]
) -> None:
    below, elsewhere = tmp_path / "below", tmp_path / "elsewhere"

    def keep_open(ready: Ready) -> None:
        for place, size in ((below, 3 * MIB), (elsewhere, 5 * MIB)):
            place.mkdir()
            fd = os.open(place / "file", os.O_CREAT | os.O_RDWR)
            os.write(fd, b"x" * size)
            os.unlink(place / "file")
            os.dup(fd)
        os.write(os.memfd_create("memory"), b"x" * 7 * MIB)
        (below / "named").write_bytes(b"x" * MIB)
        kept = (below / "named").open()
        if os.fork() == 0:
            signal.pause()
        ready()
        kept.close()

    idle, box = start(_idle), start(keep_open)
    figures = accounting.unlinked_of({idle: (f"{below}/",), box: (f"{below}/",)})
    assert figures[idle] == 0
    assert 3 * MIB <= figures[box] < 4 * MIB
    assert 8 * MIB <= accounting.unlinked_of({box: ("/",)})[box] < 9 * MIB, "everything, but no memory"


def test_what_a_box_wrote_counts_for_processes_that_have_ended_too(
    tmp_path: Path, start: Callable[[Callable[[Ready], None]], int]
) -> None:
    def write(name: str) -> None:
        (tmp_path / name).write_bytes(b"x" * 4 * MIB)
        (tmp_path / name).unlink()

    def write_by_child(ready: Ready) -> None:
        write("own")
        pid = os.fork()
        if pid == 0:
            write("childs")
            os._exit(0)
        os.waitpid(pid, 0)
        ready()

    before = accounting.written_of([os.getpid()])[os.getpid()]
    write("ours")
    if accounting.written_of([os.getpid()])[os.getpid()] - before < 4 * MIB:
        pytest.skip("this file system writes to no disk")
    idle, box = start(_idle), start(write_by_child)
    figures = accounting.written_of([idle, box])
    assert figures[idle] == 0
    assert 8 * MIB <= figures[box] < 9 * MIB


def test_processor_time_counts_for_processes_that_have_ended_too(
    start: Callable[[Callable[[Ready], None]], int],
) -> None:
    def work() -> None:
        while time.process_time() < 0.2:
            pass

    def work_by_child(ready: Ready) -> None:
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        os.waitpid(pid, 0)
        ready()

    idle, box = start(_idle), start(work_by_child)
    assert accounting.processor_of(idle) < 0.1
    assert 0.15 <= accounting.processor_of(box) < 5
    assert accounting.processor_of(2**22 + 1) == 0


@pytest.mark.parametrize("loop", [(10, 11), (10, 10)])
def test_parents_that_form_a_ring_do_not_hang_it(tmp_path: Path, loop: tuple[int, int]) -> None:
    """Pids reused between two reads can look like that."""
    for pid, parent in ((loop[0], loop[1]), (loop[1], loop[0]), (12, 1), (1, 0)):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        stat = f"{pid} (x) S {parent} " + "0 " * 15 + "1 0\n"
        (tmp_path / str(pid) / "stat").write_text(stat)
    assert accounting.family(1, os.fspath(tmp_path)) == {1, 12}


@pytest.mark.parametrize("text", ["", "12 (x", "12 (x) S", "12 (x) S 1 0"])
def test_a_stat_file_cut_short_is_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text(text)
    assert accounting.memory_of([12], {}, os.fspath(tmp_path)) == {}


def test_the_host_says_what_is_left(tmp_path: Path) -> None:
    assert 0 < accounting.available() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert accounting.disk_free(tmp_path) > 0
    files = accounting.files_free(tmp_path)
    assert files is None or files > 0
    (tmp_path / "meminfo").write_text("MemTotal: 12 kB\nMemAvailable:       7 kB\n")
    assert accounting.available(os.fspath(tmp_path)) == 7 * 1024


def test_a_host_that_does_not_say_what_is_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not say"):
        accounting.available(os.fspath(tmp_path))
