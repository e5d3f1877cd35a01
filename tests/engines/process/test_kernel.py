"""Each call does what its name says, and an error names the call."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
from pathlib import Path

import pytest

from paddock.engines.process import confine, kernel
from tests.fs.children import in_child
from tests.support import namespaces

_KINDS = {
    "user": kernel.CLONE_NEWUSER,
    "mnt": kernel.CLONE_NEWNS,
    "pid": kernel.CLONE_NEWPID,
    "net": kernel.CLONE_NEWNET,
    "ipc": kernel.CLONE_NEWIPC,
    "uts": kernel.CLONE_NEWUTS,
    "cgroup": kernel.CLONE_NEWCGROUP,
}
_libc = ctypes.CDLL(None, use_errno=True)


def _links() -> dict[str, str]:
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in _KINDS}


def _status(key: str) -> str:
    return next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{key}:"))


# -- processes and namespaces ------------------------------------------------------------------------------------------


def test_a_box_is_cloned_into_namespaces_of_its_own() -> None:
    outside = _links()

    def act() -> None:
        assert {kind for kind, link in _links().items() if link != outside[kind]} == set(_KINDS)
        assert os.getpid() == 1

    namespaces.inside(act, kernel.BOX_NAMESPACES)


def test_only_the_namespaces_asked_for_are_new() -> None:
    outside = _links()

    def act() -> None:
        assert {kind for kind, link in _links().items() if link != outside[kind]} == {"user", "uts"}
        kernel.unshare(kernel.CLONE_NEWIPC)
        assert os.readlink("/proc/self/ns/ipc") != outside["ipc"]

    namespaces.inside(act, kernel.CLONE_NEWUSER | kernel.CLONE_NEWUTS)


def test_a_clone_that_is_refused_is_an_error_here_and_no_child() -> None:
    def act() -> None:
        confine.write_file("/proc/sys/user/max_user_namespaces", "0")
        with pytest.raises(OSError, match="clone: No space left on device"):
            kernel.clone(kernel.CLONE_NEWUSER)
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        with pytest.raises(OSError, match="unshare: No space left on device"):
            kernel.unshare(kernel.CLONE_NEWUSER)

    namespaces.inside(act, kernel.CLONE_NEWUSER)


def test_a_child_is_a_whole_python() -> None:
    """The raw clone goes round libc: signals, memory and further children must still work in it."""

    def act() -> None:
        seen: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
        in_child(lambda: None)
        assert len(bytes(1 << 24)) == 1 << 24

    namespaces.inside(act, kernel.CLONE_NEWUSER)


@pytest.mark.privileged
def test_becoming_another_user_is_for_good() -> None:
    def act() -> None:
        kernel.become(61234, 61235)
        assert (os.getresuid(), os.getresgid()) == ((61234,) * 3, (61235,) * 3)
        with pytest.raises(PermissionError):
            os.setuid(0)

    in_child(act)


def test_becoming_a_user_that_is_not_mapped_is_refused() -> None:
    def act() -> None:
        with pytest.raises(OSError, match="setresgid: Invalid argument"):
            kernel.become(12345, 12345)

    namespaces.inside(act, kernel.CLONE_NEWUSER)


def test_all_capabilities_go() -> None:
    keys = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")

    def act() -> None:
        kernel.set_hostname("before")
        kernel.drop_all_capabilities()
        assert [int(_status(key).split()[1], 16) for key in keys] == [0] * 5
        with pytest.raises(PermissionError):
            kernel.set_hostname("after")

    namespaces.inside(act, kernel.CLONE_NEWUSER | kernel.CLONE_NEWUTS)


def test_a_process_that_is_not_dumpable_hides_its_memory() -> None:
    def act() -> None:
        assert _libc.prctl(3, 0, 0, 0, 0) == 1
        kernel.set_dumpable(dumpable=False)
        assert _libc.prctl(3, 0, 0, 0, 0) == 0
        kernel.set_dumpable(dumpable=True)
        assert _libc.prctl(3, 0, 0, 0, 0) == 1

    namespaces.inside(act, kernel.CLONE_NEWUSER)


def test_no_new_privileges_once_set() -> None:
    def act() -> None:
        assert _status("NoNewPrivs").split()[1] == "0"
        kernel.set_no_new_privs()
        assert _status("NoNewPrivs").split()[1] == "1"

    in_child(act)


def test_a_session_keyring_is_left_behind() -> None:
    number = kernel._NUMBERS[os.uname().machine]["keyctl"]

    def session() -> int:
        return int(
            _libc.syscall(ctypes.c_long(number), 0, ctypes.c_int(-3), 1)
        )  # KEYCTL_GET_KEYRING_ID, created if none

    def act() -> None:
        before = session()
        kernel.join_new_session_keyring()
        assert session() != before

    in_child(act)


@pytest.mark.parametrize("kept", [set(), {0}, {0, 1, 2}, {5}, {3, 7, 8}, {0, 9}])
def test_only_the_descriptors_to_keep_stay_open(kept: set[int]) -> None:
    def act() -> None:
        for fd in range(12):
            os.dup2(3, fd)
        kernel.close_all_but(kept)
        assert {fd for fd in range(2000) if _is_open(fd)} == kept

    in_child_with_report_elsewhere(act)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def in_child_with_report_elsewhere(act: object) -> None:
    """As in_child, for acts that close every descriptor: only the exit code tells."""
    assert callable(act)
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open("/dev/null", os.O_RDWR), 3)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_host_name_is_the_namespaces_own() -> None:
    before = os.uname().nodename

    def act() -> None:
        kernel.set_hostname("box")
        assert os.uname().nodename == "box"

    namespaces.inside(act, kernel.CLONE_NEWUSER | kernel.CLONE_NEWUTS)
    assert os.uname().nodename == before


def test_a_title_replaces_the_whole_command_line() -> None:
    def act() -> None:
        assert b"python" in Path("/proc/self/cmdline").read_bytes()
        kernel.set_title(b"a-title")
        assert Path("/proc/self/cmdline").read_bytes().strip(b"\0") == b"a-title"
        assert Path("/proc/self/comm").read_text() == "a-title\n"
        kernel.set_title(b"x" * 100_000)
        assert set(Path("/proc/self/cmdline").read_bytes().strip(b"\0")) == {ord("x")}
        kernel.trim_heap()

    in_child(act)


# -- mounts ------------------------------------------------------------------------------------------------------------


def test_a_mount_is_made_and_unmade(tmp_path: Path) -> None:
    (tmp_path / "hidden").touch()

    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("some", os.fspath(tmp_path), "tmpfs", kernel.MS_NOSUID, "size=64k,mode=711")
        assert list(tmp_path.iterdir()) == []
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o711
        assert os.statvfs(tmp_path).f_flag & os.ST_NOSUID
        kernel.unmount(os.fspath(tmp_path))
        assert (tmp_path / "hidden").exists()

    namespaces.inside(act)
    assert (tmp_path / "hidden").exists()


@pytest.mark.parametrize(
    ("attribute", "flag"),
    [
        (kernel.ATTR_RDONLY, os.ST_RDONLY),
        (kernel.ATTR_NOSUID, os.ST_NOSUID),
        (kernel.ATTR_NODEV, os.ST_NODEV),
        (kernel.ATTR_NOEXEC, os.ST_NOEXEC),
    ],
)
@pytest.mark.parametrize("recursive", [True, False])
def test_attributes_hold_for_a_tree_or_for_its_top_alone(
    tmp_path: Path, attribute: int, flag: int, recursive: bool
) -> None:
    for name in ("source/inner", "target"):
        (tmp_path / name).mkdir(parents=True)

    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("inner", os.fspath(tmp_path / "source/inner"), "tmpfs")
        tree = kernel.open_tree(os.fspath(tmp_path / "source"))
        kernel.set_mount(tree, attribute, recursive=recursive)
        target = os.open(tmp_path / "target", os.O_PATH)
        kernel.move_mount(tree, target)
        flags = [os.statvfs(tmp_path / path).f_flag & flag for path in ("target", "target/inner", "source/inner")]
        assert [bool(one) for one in flags] == [True, recursive, False], "the source is as it was"

    namespaces.inside(act)


def test_a_tree_without_what_is_mounted_below_it(tmp_path: Path) -> None:
    for name in ("source/inner", "target"):
        (tmp_path / name).mkdir(parents=True)

    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("inner", os.fspath(tmp_path / "source/inner"), "tmpfs")
        (tmp_path / "source/inner/file").touch()
        fd = os.open(tmp_path / "source/inner", os.O_PATH)
        for tree, found in (
            (kernel.clone_tree(fd), ["file"]),
            (kernel.clone_tree(fd, recursive=True), ["file"]),
        ):
            kernel.move_mount(tree, os.open(tmp_path / "target", os.O_PATH))
            assert os.listdir(tmp_path / "target") == found
            kernel.unmount(os.fspath(tmp_path / "target"))

    namespaces.inside(act)


def test_a_link_is_not_followed_when_its_tree_is_opened(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    def act() -> None:
        namespaces.private_mounts()
        assert stat.S_ISDIR(os.fstat(kernel.open_tree(os.fspath(tmp_path / "real"))).st_mode)
        assert stat.S_ISLNK(os.fstat(kernel.open_tree(os.fspath(tmp_path / "link"))).st_mode)

    namespaces.inside(act)


def test_the_old_root_is_gone_after_the_pivot(tmp_path: Path) -> None:
    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("root", os.fspath(tmp_path), "tmpfs")
        (tmp_path / "only").touch()
        os.chdir(tmp_path)
        kernel.pivot_root_here()
        assert (os.getcwd(), os.listdir("/")) == ("/", ["only"])
        assert not os.path.exists("/usr")

    namespaces.inside(act)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: kernel.mount("x", "/nonexistent", "tmpfs"), "mount tmpfs /nonexistent: No such file"),
        (lambda: kernel.mount("x", "/", "nosuchfs"), "mount nosuchfs /: No such device"),
        (lambda: kernel.unmount("/usr/share"), "umount /usr/share: Invalid argument"),
        (lambda: kernel.open_tree("/nonexistent"), "open_tree /nonexistent: No such file"),
        (lambda: kernel.clone_tree(999), "open_tree: Bad file descriptor"),
        (lambda: kernel.set_mount(999, kernel.ATTR_RDONLY), "mount_setattr: Bad file descriptor"),
        (lambda: kernel.move_mount(999, 998), "move_mount: Bad file descriptor"),
    ],
)
def test_an_error_names_the_call_and_the_place(call: object, said: str) -> None:
    def act() -> None:
        namespaces.private_mounts()
        assert callable(call)
        with pytest.raises(OSError) as caught:  # noqa: PT011  its text is what this is about
            call()
        assert said in str(caught.value)
        assert caught.value.errno in errno.errorcode

    namespaces.inside(act)
