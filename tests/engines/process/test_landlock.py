"""Landlock on the real kernel: what fails under it works without it, on the same writable mount."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import signal
import socket
import stat
import subprocess
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from paddock.engines.process import landlock

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
ABI = landlock.abi()
needs_landlock = pytest.mark.skipif(ABI < 1, reason="this kernel has no Landlock")


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


def restricted(writable: list[Path], act: Callable[[], T]) -> T:
    def body() -> T:
        no_new_privs()
        landlock.restrict([str(path) for path in writable], ABI)
        return act()

    return in_child(body)


def no_new_privs() -> None:
    ctypes.CDLL(None).prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0)))


def error_of(act: Callable[[], object]) -> int:
    try:
        act()
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two directories the box may write and one it may not; each holds `old` and `dir`."""
    made = tmp_path / "one", tmp_path / "two", tmp_path / "closed"
    for root in made:
        (root / "dir").mkdir(parents=True)
        (root / "old").write_text("old")
        (root / "node").touch()
    return made


def _bind(root: Path) -> None:
    os.chdir(root)  # a socket path has 108 bytes
    socket.socket(socket.AF_UNIX).bind("socket")


ACTS: list[tuple[str, int, Callable[[Path], object]]] = [
    ("create a file", 1, lambda root: (root / "new").write_text("x")),
    ("write a file", 1, lambda root: (root / "old").write_text("x")),
    ("append to a file", 1, lambda root: (root / "old").open("a").close()),
    ("truncate a file", 3, lambda root: os.truncate(root / "old", 0)),
    ("make a directory", 1, lambda root: (root / "made").mkdir()),
    ("make a symlink", 1, lambda root: (root / "link").symlink_to("old")),
    ("make a hard link", 2, lambda root: (root / "hard").hardlink_to(root / "old")),
    ("make a fifo", 1, lambda root: os.mkfifo(root / "fifo")),
    ("make a socket", 1, _bind),
    ("remove a file", 1, lambda root: (root / "old").unlink()),
    ("remove a directory", 1, lambda root: (root / "dir").rmdir()),
    ("rename a file", 1, lambda root: (root / "old").rename(root / "renamed")),
    ("move a file down", 2, lambda root: (root / "old").rename(root / "dir" / "moved")),
]


@needs_landlock
@pytest.mark.parametrize(("since", "act"), [row[1:] for row in ACTS], ids=[row[0] for row in ACTS])
def test_only_listed_directories_are_written(
    since: int, act: Callable[[Path], object], roots: tuple[Path, Path, Path]
) -> None:
    if since > ABI:
        pytest.skip(f"Landlock {ABI} does not decide this")
    open_, without, closed = roots
    assert restricted([open_], lambda: error_of(lambda: act(open_))) == 0
    assert restricted([open_], lambda: error_of(lambda: act(closed))) in {errno.EACCES, errno.EXDEV}
    assert in_child(lambda: error_of(lambda: act(without))) == 0


@needs_landlock
def test_an_empty_list_means_nothing_is_written_and_all_is_read(roots: tuple[Path, Path, Path]) -> None:
    root = roots[0]
    assert restricted([], lambda: error_of(lambda: (root / "new").write_text("x"))) == errno.EACCES
    assert restricted([], (root / "old").read_text) == "old"
    assert restricted([], lambda: sorted(os.listdir(root))) == ["dir", "node", "old"]
    assert restricted([], lambda: subprocess.run(["true"], check=False).returncode) == 0
    assert in_child(lambda: error_of(lambda: (root / "new").write_text("x"))) == 0


@needs_landlock
@pytest.mark.skipif(ABI < 2, reason="Landlock 1 lets no file change its directory")
def test_files_move_between_two_listed_directories_but_not_out(roots: tuple[Path, Path, Path]) -> None:
    one, two, closed = roots
    assert restricted([one, two], lambda: error_of(lambda: (one / "old").rename(two / "moved"))) == 0
    assert restricted([one, two], lambda: error_of(lambda: (one / "back").hardlink_to(two / "moved"))) == 0
    leave = restricted([one, two], lambda: error_of(lambda: (two / "moved").rename(closed / "out")))
    assert leave in {errno.EACCES, errno.EXDEV}
    assert in_child(lambda: error_of(lambda: (two / "moved").rename(closed / "out"))) == 0


@needs_landlock
def test_a_listed_file_is_written_but_not_replaced(roots: tuple[Path, Path, Path]) -> None:
    root = roots[0]
    assert restricted([root / "old"], lambda: error_of(lambda: (root / "old").write_text("new"))) == 0
    assert (root / "old").read_text() == "new"
    assert restricted([root / "old"], lambda: error_of(lambda: (root / "node").write_text("x"))) == errno.EACCES
    assert restricted([root / "old"], lambda: error_of((root / "old").unlink)) == errno.EACCES
    assert in_child(lambda: error_of((root / "old").unlink)) == 0


@needs_landlock
def test_devices_and_proc_are_written_but_nothing_is_made_there(tmp_path: Path) -> None:
    made = Path("/dev/shm") / f"{tmp_path.name}-{os.getpid()}"  # the one place in /dev where anyone may make a file

    def write() -> int:
        fd = os.open("/dev/null", os.O_WRONLY)
        os.write(fd, b"x")
        Path("/proc/self/comm").write_text("renamed")
        os.close(os.openpty()[1])
        return error_of(made.touch)

    assert restricted([], write) == errno.EACCES
    assert not made.exists()
    assert in_child(write) == 0
    made.unlink()


@needs_landlock
def test_no_device_node_is_made_even_where_all_else_is_allowed(roots: tuple[Path, Path, Path]) -> None:
    root = roots[0]
    device = os.makedev(0, 0)  # the one device node the kernel lets anyone make
    if error_of(lambda: os.mknod(root / "outside", stat.S_IFCHR, device)):
        pytest.skip("this file system has no such node outside either")
    assert restricted([root], lambda: error_of(lambda: os.mknod(root / "inside", stat.S_IFCHR, device))) == errno.EACCES


@needs_landlock
@pytest.mark.skipif(ABI < 6, reason="Landlock scopes signals since ABI 6")
def test_signals_stay_inside() -> None:
    outside = os.getpid()
    assert in_child(lambda: error_of(lambda: os.kill(outside, 0))) == 0
    assert restricted([], lambda: error_of(lambda: os.kill(outside, 0))) == errno.EPERM

    def signal_own_child() -> int:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]

    assert restricted([], signal_own_child) == signal.SIGKILL


@needs_landlock
@pytest.mark.skipif(ABI < 6, reason="Landlock scopes abstract sockets since ABI 6")
def test_abstract_sockets_of_the_host_do_not_answer() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel picks a free abstract name
        listener.listen()
        name = listener.getsockname()

        def connect() -> int:
            with socket.socket(socket.AF_UNIX) as client:
                return error_of(lambda: client.connect(name))

        assert in_child(connect) == 0
        assert restricted([], connect) == errno.EPERM


@needs_landlock
@pytest.mark.skipif(ABI < 9, reason="Landlock decides about sockets with a path since ABI 9")
def test_sockets_of_the_host_in_a_workspace_do_not_answer_but_own_ones_do(roots: tuple[Path, Path, Path]) -> None:
    root = roots[0]
    with socket.socket(socket.AF_UNIX) as listener:
        fd = os.open(root, os.O_PATH)
        listener.bind(f"/proc/self/fd/{fd}/host")
        listener.listen()

        def connect(name: str) -> int:
            os.chdir(root)
            with socket.socket(socket.AF_UNIX) as client:
                return error_of(lambda: client.connect(name))

        def connect_own() -> int:
            os.chdir(root)
            with socket.socket(socket.AF_UNIX) as own:
                own.bind("own")
                own.listen()
                return connect("own")

        assert in_child(lambda: connect("host")) == 0
        assert restricted([root], lambda: connect("host")) == errno.EACCES
        assert restricted([root], connect_own) == 0
        os.close(fd)


@needs_landlock
@pytest.mark.parametrize("version", range(1, ABI + 1))
def test_older_versions_of_the_interface_still_restrict(version: int, roots: tuple[Path, Path, Path]) -> None:
    def body() -> list[int]:
        no_new_privs()
        landlock.restrict([str(roots[0])], version)
        return [error_of((root / "new").touch) for root in (roots[0], roots[2])]

    assert in_child(body) == [0, errno.EACCES]


def _refusal(writable: list[str], version: int) -> tuple[int, int]:
    """Try to restrict; the errno, and how many descriptors were left open."""

    def body() -> tuple[int, int]:
        no_new_privs()
        before = len(os.listdir("/proc/self/fd"))
        return error_of(lambda: landlock.restrict(writable, version)), len(os.listdir("/proc/self/fd")) - before

    return in_child(body)


def test_restrict_without_landlock_is_an_error_and_not_a_shrug() -> None:
    assert _refusal([], 0) == (errno.EOPNOTSUPP, 0)


@needs_landlock
def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    assert _refusal([str(tmp_path / "missing")], ABI) == (errno.ENOENT, 0)


@needs_landlock
def test_a_symlink_is_an_error_because_it_could_lead_anywhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr")
    assert _refusal([str(tmp_path / "link")], ABI) == (errno.ELOOP, 0)
    assert _refusal([str(tmp_path)], ABI) == (0, 0)


@needs_landlock
@pytest.mark.skipif(ABI >= 9, reason="this kernel knows every right")
def test_a_version_the_kernel_does_not_have_is_an_error() -> None:
    refusal, left_open = _refusal([], 9)
    assert refusal in {errno.EINVAL, errno.E2BIG}
    assert left_open == 0
