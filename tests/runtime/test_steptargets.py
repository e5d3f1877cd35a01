"""Where a COPY goes in a root of layers, and what a RUN leaves there of ours."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images.context import Target
from paddock.images.pack import Dress
from paddock.runtime import steptargets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("etc", "srv/deep", "usr/lib"):
        (root / name).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:\nagent:x:1000:100::/home/agent:\n")
    (root / "etc/group").write_text("root:x:0:\nstaff:x:50:\n")
    os.symlink("usr/lib", root / "lib")
    os.symlink("/srv", root / "usr/lib/out")
    return root


@pytest.mark.parametrize(
    ("path", "found", "is_directory"),
    [
        ("/srv/", "srv", True),
        ("/srv", "srv", True),
        ("/srv/new", "srv/new", False),
        ("/new/dir/", "new/dir", True),
        ("/lib/x", "usr/lib/x", False),
        ("/lib/out/x", "srv/x", False),
        ("/../../srv/../etc/passwd", "etc/passwd", False),
        ("/", "", True),
    ],
)
def test_a_path_leads_where_it_would_lead_in_the_box(tree: Path, path: str, found: str, is_directory: bool) -> None:
    target = steptargets.find([str(tree)], path)
    assert (target.path, target.is_directory) == (found, is_directory)
    assert steptargets.read_target(steptargets.target_text(target)) == target


def test_what_is_there_on_the_way_keeps_its_looks(tree: Path) -> None:
    (tree / "srv/deep").chmod(0o2711)
    os.utime(tree / "srv/deep", (7, 7))
    (name, first), (deep, second) = steptargets.find([str(tree)], "/srv/deep/x").parents
    assert (name, deep) == ("srv", "srv/deep")
    assert (second.mode, second.mtime, first.owner) == (0o2711, 7, (os.getuid(), os.getgid()))


@pytest.mark.parametrize(
    ("words", "owner"),
    [("agent", (1000, 100)), ("agent:staff", (1000, 50)), ("7", (7, 7)), ("7:8", (7, 8)), ("1000", (1000, 100))],
)
def test_an_owner_is_whom_the_root_knows(tree: Path, words: str, owner: tuple[int, int]) -> None:
    assert steptargets.find([str(tree)], "/srv/", words).owner == owner


def test_nobody_and_a_file_on_the_way_are_refused(tree: Path) -> None:
    with pytest.raises(UserError, match="no files can be of 'ghost'"):
        steptargets.find([str(tree)], "/srv/", "ghost")
    with pytest.raises(UserError, match="no directory"):
        steptargets.find([str(tree)], "/etc/passwd/x")


def test_missing_directories_are_made_for_their_user(tmp_path: Path) -> None:
    target = Target(path="a/b/c", is_directory=True, parents=(("a", Dress(mode=0o700, owner=(1, 1))),))
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    steptargets.write_directories(fd, target, (5, 6))
    os.close(fd)
    with tarfile.open(tmp_path / "out") as archive:
        rows = [(member.name, member.mode, member.uid, member.gid) for member in archive.getmembers()]
    assert rows == [("a", 0o700, 1, 1), ("a/b", 0o755, 5, 6), ("a/b/c", 0o755, 5, 6)]


def test_places_of_ours_go_and_what_a_command_made_stays(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    for name in ("dev/pts", "run/paddock", "etc", "proc", "home", "srv"):
        (upper / name).mkdir(parents=True)
    for name in ("etc/resolv.conf", "etc/hosts", "etc/mine", "srv/run"):
        (upper / name).write_text("")
    steptargets.tidy(str(upper))
    assert sorted(os.listdir(upper)) == ["etc", "home", "srv"]
    assert (os.listdir(upper / "etc"), os.listdir(upper / "srv")) == (["mine"], ["run"])
    os.symlink("/etc", tmp_path / "link")
    with pytest.raises(OSError, match=r"[Nn]ot a directory|symbolic"):
        steptargets.tidy(str(tmp_path / "link"))


def test_a_hostile_root_of_a_command_leads_nowhere(tmp_path: Path) -> None:
    """The command may have put links where we look; nothing behind them is touched."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "resolv.conf").write_text("of the host")
    upper = tmp_path / "upper"
    upper.mkdir()
    os.symlink(host, upper / "etc")
    os.symlink(host, upper / "dev")
    steptargets.tidy(str(upper))
    assert (host / "resolv.conf").read_text() == "of the host"


def test_an_archive_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steptargets, "BUILD_COPY_BYTES", 1000)
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    try:
        sink = steptargets.Sink(fd, lambda: None)
        sink.write(b"x" * 900)
        with pytest.raises(UserError, match="too large"):
            sink.write(b"x" * 101)
        stopped = steptargets.Sink(fd, _interrupted)
        with pytest.raises(Unavailable, match="over"):
            stopped.write(b"x")
        monkeypatch.setattr(steptargets, "DISK_FLOOR_BYTES", 1 << 60)
        with pytest.raises(Unavailable, match="no space left"):
            steptargets.Sink(fd, lambda: None).write(b"x")
    finally:
        os.close(fd)


def test_what_is_no_copy_has_the_hosts_space_for_its_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steptargets, "BUILD_COPY_BYTES", 1)
    monkeypatch.setattr(steptargets, "_LOOK_BYTES", 10)
    with open(tmp_path / "out", "wb") as file:
        roomy = steptargets.Roomy(file.fileno(), file.write)
        steptargets.Roomy(file.fileno()).write(b"plain ")
        roomy.write(b"x" * 11)
        monkeypatch.setattr(steptargets, "DISK_FLOOR_BYTES", 1 << 60)
        roomy.write(b"y" * 10)
        with pytest.raises(Unavailable, match="no space left"):
            roomy.write(b"z")
    assert (tmp_path / "out").read_bytes() == b"plain " + b"x" * 11 + b"y" * 10


def _interrupted() -> None:
    raise Unavailable("it is over", code="interrupted")


def test_a_layer_is_packed_with_the_ids_that_its_boxes_see(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    steptargets.write_layer(str(tmp_path / "tree"), str(tmp_path / "plain.tar"), 0, 0)
    steptargets.write_layer(
        str(tmp_path / "tree"), str(tmp_path / "seen.tar"), os.getuid() or 1000, os.getgid() or 1000
    )
    with tarfile.open(tmp_path / "plain.tar") as archive:
        assert archive.getmember("file").uid == os.getuid()
    with tarfile.open(tmp_path / "seen.tar") as archive:
        assert archive.getmember("file").uid == (0 if os.getuid() else 1000)


def test_places_of_the_users_directories_go_while_they_are_empty(tmp_path: Path) -> None:
    for name in ("home/me/project", "home/me/other", "srv/kept", "opaque"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "srv/kept/file").write_text("")
    os.setxattr(tmp_path / "opaque", "user.overlay.opaque", b"y")
    (tmp_path / "link").symlink_to("/home")
    steptargets.tidy(str(tmp_path), ["/home/me/project", "/srv/kept", "/opaque", "/missing/x", "/link/x", "/"])
    assert sorted(os.listdir(tmp_path)) == ["home", "link", "opaque", "srv"]
    assert os.listdir(tmp_path / "home/me") == ["other"]
    steptargets.tidy(str(tmp_path), ["/home/me/other"])
    assert sorted(os.listdir(tmp_path)) == ["link", "opaque", "srv"]
