"""What of the host a box may be shown, and where it may land: SPEC-04, FS-06."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock import guard
from paddock.errors import UserError
from tests.fs.children import bind, in_child, in_mount_namespace, mount
from tests.support.scarcity import no_descriptors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home as people have it; beside it the disks of the machine."""
    home = tmp_path / "home/ann"
    for name in (
        ".ssh",
        ".config/gcloud",
        ".local/share/paddock/boxes",
        ".local/src/x",
        ".cache/pip",
        ".aws",
        "project/src",
    ):
        (home / name).mkdir(parents=True)
    for name in (".netrc", ".npmrc", ".bashrc", "project/notes", ".ssh/id_ed25519"):
        (home / name).touch()
    (tmp_path / "disk").mkdir()
    return home


def check(path: object, home: Path, what: str = "workspace") -> str:
    return guard.check_source(str(path), home=str(home), state_dirs=(f"{home}/.local/share/paddock",), what=what)


def refusal(path: object, home: Path) -> str:
    with pytest.raises(UserError) as caught:
        check(path, home)
    assert caught.value.hint
    assert caught.value.message[0].islower()
    assert not caught.value.message.endswith(".")
    return caught.value.message


@pytest.mark.parametrize("name", ["project", "project/src", "project/notes", ".local/src/x", ".cache/pip"])
def test_a_project_may_be_shown(home: Path, name: str) -> None:
    assert check(home / name, home) == str(home / name)


def test_the_real_path_comes_back(home: Path) -> None:
    (home / "link").symlink_to("project")
    assert check(home / "link/../link/src/", home) == str(home / "project/src")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        ".ssh",
        ".ssh/id_ed25519",
        ".config",
        ".config/gcloud",
        ".aws",
        ".netrc",
        ".npmrc",
        ".bashrc",
        ".local",
        ".local/share",
        ".local/share/paddock",
        ".local/share/paddock/boxes",
        ".cache",
        "project/../.ssh",
        "link",
        "link/id_ed25519",
        "hard",
    ],
)
def test_private_places_are_refused_however_they_are_spelled(home: Path, name: str) -> None:
    (home / "link").symlink_to(".ssh")
    os.link(home / ".netrc", home / "hard")
    assert "the workspace cannot be" in refusal(home / name, home)
    assert check(home / "project", home)


def test_messages_name_the_place_and_the_next_step(home: Path) -> None:
    with pytest.raises(UserError) as caught:
        check(home, home)
    assert caught.value.message == f"the workspace cannot be your home directory {home}"
    assert caught.value.hint == "give a project directory, for example `paddock run shell ~/project`"
    assert caught.value.exit_code == 2
    up = home.parent
    assert refusal(up, home) == f"the workspace cannot be {up}, which holds your home directory {home}"
    inside = home / ".config/gcloud"
    assert (
        refusal(inside, home) == f"the workspace cannot be {inside}, which is inside the private place {home}/.config"
    )
    (home / "link").symlink_to(".ssh")
    assert refusal(home / "link", home) == (
        f"the workspace cannot be {home}/link, which is the private place {home}/.ssh"
    )
    (home / "far").symlink_to(".config/gcloud")
    assert refusal(home / "far", home) == (
        f"the workspace cannot be {home}/far -> {inside}, which is inside the private place {home}/.config"
    )


def test_a_home_behind_a_link_is_still_the_home(home: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(home)
    for spelled in (home, alias):
        assert "your home directory" in refusal(spelled, alias)
        assert "the private place" in refusal(spelled / ".ssh", alias)
    assert check(alias / "project", alias) == str(home / "project")


def test_a_private_place_that_is_a_link_is_refused_at_both_ends(home: Path, tmp_path: Path) -> None:
    (tmp_path / "disk/keys").mkdir()
    assert check(tmp_path / "disk/keys", home)
    (home / ".gnupg").symlink_to(tmp_path / "disk/keys")
    for path in (home / ".gnupg", tmp_path / "disk/keys", tmp_path / "disk"):
        assert ".gnupg" in refusal(path, home)


def test_a_bind_mount_of_a_private_place_is_refused(home: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for name in ("keys", "up", "state"):
        (disk / name).mkdir()
        assert check(disk / name, home)

    def act() -> None:
        bind(f"{home}/.ssh", f"{disk}/keys")
        bind(str(home.parent), f"{disk}/up")
        bind(f"{home}/.local/share/paddock", f"{disk}/state")
        for name in ("keys", "keys/id_ed25519", "up", "up/ann", "up/ann/.aws", "state", "state/boxes"):
            assert "cannot be" in refusal(disk / name, home)
        assert check(disk / "up/ann/project", home) == f"{disk}/up/ann/project"

    in_mount_namespace(act)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/proc", "/proc/self", "/proc/self/root", "/proc/1", "/sys", "/sys/kernel", "/dev", "/dev/shm",
        "/dev/null",
        "/etc", "/etc/ssl", "/etc/passwd", "/run", "/boot", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/bin",
        "/sbin", "/lib", "/var", "/var/lib", "/var/run", "/var/lib/dpkg", "/tmp", "/var/tmp", "/home",
        "//", "/tmp/../etc",
    ],
)  # fmt: skip
def test_system_directories_are_refused(home: Path, path: str) -> None:
    if not os.path.exists(path):
        pytest.skip(f"this machine has no {path}")
    refusal(path, home)


@pytest.mark.parametrize("path", ["/var/tmp/x", "/tmp/x", "/srv/x", "/opt/x", "/mnt/x", "/var/lib/ci/ws", "/usr/src/x"])
def test_usual_places_of_projects_are_not_refused(path: str) -> None:
    top = "/" + path.split("/")[1]
    if not os.path.isdir(top):
        pytest.skip(f"this machine has no {top}")

    def act() -> None:
        mount("tmpfs", top, "tmpfs")
        os.makedirs(path)
        assert guard.check_source(path, home="/nowhere/ann", state_dirs=(), what="workspace") == path

    in_mount_namespace(act)


def test_a_removable_disk_is_a_gap_in_run_and_in_nothing_else() -> None:
    def act() -> None:
        mount("tmpfs", "/run", "tmpfs")
        os.makedirs("/run/media/ann/disk/project")
        os.makedirs("/run/media/ann/disk/state/boxes")
        os.makedirs("/run/user/1000/x")

        def look(path: str) -> str:
            state = "/run/media/ann/disk/state"
            return guard.check_source(path, home="/nowhere/ann", state_dirs=(state,), what="workspace")

        assert look("/run/media/ann/disk/project")
        with pytest.raises(UserError):
            guard.check_source("/run/media", home="/nowhere/ann", state_dirs=(), what="workspace")
        for path in (
            "/run",
            "/run/user/1000/x",
            "/run/media/ann/disk",
            "/run/media/ann/disk/state/boxes",
        ):
            with pytest.raises(UserError):
                look(path)

    in_mount_namespace(act)


@pytest.mark.privileged
def test_a_view_of_the_kernel_is_refused_wherever_it_is_mounted(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "disk/chroot-proc"
    place.mkdir()
    assert check(place, home)

    def act() -> None:
        mount("proc", str(place), "proc")
        assert "part of a proc file system" in refusal(place, home)
        assert "part of a proc file system" in refusal(place / "sys/kernel", home)

    in_mount_namespace(act)


def test_what_is_neither_file_nor_directory_is_refused(home: Path) -> None:
    os.mkfifo(home / "project/fifo")
    assert "neither a directory nor a regular file" in refusal(home / "project/fifo", home)
    at = os.open(home / "project", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{at}/docker.sock")
    os.close(at)
    assert "is a socket" in refusal(home / "project/docker.sock", home)
    (home / "project/link").symlink_to("docker.sock")
    assert "is a socket" in refusal(home / "project/link", home)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "is not an absolute path"),
        ("project", "is not an absolute path"),
        ("~/project", "is not an absolute path"),
        ("/tmp/\0", "is not an absolute path"),
        ("/tmp/\ud800", "is not an absolute path"),
        ("/no/such/place", "does not exist"),
        ("/etc/passwd/x", "cannot be used: Not a directory"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(home: Path, path: str, said: str) -> None:
    assert said in refusal(path, home)


def test_a_loop_of_links_is_refused(home: Path) -> None:
    (home / "project/loop").symlink_to("loop")
    assert "cannot be used" in refusal(home / "project/loop", home)


def test_odd_names_are_neutralised_in_messages(home: Path) -> None:
    (home / ".ssh/\x1b[2J\n\udcff").mkdir()
    assert refusal(home / ".ssh/\x1b[2J\n\udcff", home).isprintable()
    assert refusal(home / "missing\n", home).isprintable()
    (home / "project/odd\n\udcff").mkdir()
    assert check(home / "project/odd\n\udcff", home) == str(home / "project/odd\n\udcff")


def test_what_is_asked_for_is_named(home: Path) -> None:
    with pytest.raises(UserError, match=r"^the mount source cannot be"):
        check(home / ".ssh", home, what="mount source")


def test_the_home_of_root_is_refused_to_others_and_its_projects_shown_to_root() -> None:
    def act() -> None:
        if os.geteuid() != 0:
            with pytest.raises(UserError):
                guard.check_source("/root", home="/home/ann", state_dirs=(), what="workspace")
            return
        mount("tmpfs", "/root", "tmpfs")
        os.makedirs("/root/project")
        os.makedirs("/root/.ssh")
        assert guard.check_source("/root/project", home="/root", state_dirs=(), what="workspace") == "/root/project"
        for path, home in (("/root/project", "/home/ann"), ("/root", "/root"), ("/root/.ssh", "/root")):
            with pytest.raises(UserError):
                guard.check_source(path, home=home, state_dirs=(), what="workspace")

    in_mount_namespace(act)


@pytest.mark.privileged
def test_root_is_kept_from_showing_the_home_of_a_user(home: Path, tmp_path: Path) -> None:
    def act() -> None:
        passwd = tmp_path / "passwd"
        passwd.write_text(f"root:x:0:0::/root:/bin/sh\nbroken line\nann:x:1000:1000::{home}:/bin/sh\n")
        assert guard.check_source(str(home), home="/root", state_dirs=(), what="workspace")
        bind(str(passwd), "/etc/passwd")
        for path in (home, home / ".ssh", home.parent):
            with pytest.raises(UserError, match=r"home directory of ann|private place"):
                guard.check_source(str(path), home="/root", state_dirs=(), what="workspace")
        assert guard.check_source(f"{home}/project", home="/root", state_dirs=(), what="workspace")

    in_mount_namespace(act)


def test_no_home_and_no_state_still_leave_the_system_closed() -> None:
    for path in ("/", "/etc", "/proc"):
        with pytest.raises(UserError):
            guard.check_source(path, home="", state_dirs=(), what="workspace")


def test_a_check_leaves_no_descriptor_open(home: Path) -> None:
    def act() -> None:
        before = os.listdir("/proc/self/fd")
        check(home / "project", home)
        refusal(home / ".ssh", home)
        assert os.listdir("/proc/self/fd") == before

    in_child(act)


# -- check_target -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/mnt/data", "/mnt/data"),
        ("//mnt/./data//", "/mnt/data"),
        ("/home/agent/x", "/home/agent/x"),
        ("/home/agent/.npmrc", "/home/agent/.npmrc"),
        ("/home/ann/project", "/home/ann/project"),
        ("/etcetera", "/etcetera"),
        ("/tmp/x", "/tmp/x"),
        ("/opt", "/opt"),
    ],
)
def test_a_mount_may_land_here(path: str, target: str) -> None:
    assert guard.check_target(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "", "data", "./data", "/", "//", "/.", "/mnt/../etc", "/mnt/..", "/a\0b", "/\ud800", "/" + "x" * 5000,
        "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/etc", "/etc/passwd", "/usr", "/usr/bin/python3", "/run",
        "/run/paddock", "/bin", "/sbin/x", "/lib", "/lib64", "//etc//", "/home", "/home/agent", "/home/agent/", "/tmp",
        "/var", "/var/run/docker.sock",
    ],
)  # fmt: skip
def test_a_mount_may_not_land_there(path: str) -> None:
    with pytest.raises(UserError) as caught:
        guard.check_target(path)
    assert caught.value.hint
    assert caught.value.code == "bad-target"


def test_without_descriptors_a_place_is_neither_shown_nor_called_bad(home: Path) -> None:
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        check(home / "project", home)
    assert check(home / "project", home)
