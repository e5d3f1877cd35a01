"""A mount plan executed in a real mount namespace: what each operation does, and that no link leads it astray."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock import codec, fs
from paddock.engines.process import kernel, mounting
from paddock.engines.process.operations import MountOp
from tests.support import namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = Path(mounting.ROOT)  # where the new root stands until the pivot
EMPTIES = (mounting.EMPTY_FILE, mounting.EMPTY_DIR)  # what names are covered with, at the start and later
PIDS = namespaces.MOUNTS | kernel.CLONE_NEWPID


def bind(source: Path, target: str, *attributes: str, **rest: Any) -> MountOp:
    found = source.stat()
    rest.setdefault("identity", (found.st_dev, found.st_ino))
    return MountOp(
        op="bind", source=os.fspath(source), target=target, attributes=("nosuid", "nodev", *attributes), **rest
    )


def build(*operations: MountOp) -> tuple[int, list[int]]:
    wire = [codec.to_wire(operation) for operation in operations]
    return mounting.build(wire, [])  # type: ignore[arg-type]


def built(*operations: MountOp, check: Callable[[], None], flags: int = namespaces.MOUNTS) -> None:
    """Build a root of these operations in a namespace and look at it."""

    def act() -> None:
        build(*operations)
        check()

    namespaces.inside(act, flags)


def refused(*operations: MountOp, number: int, said: str) -> None:
    def act() -> None:
        with pytest.raises(OSError) as caught:  # noqa: PT011  the number tells
            build(*operations)
        assert caught.value.errno == number, caught.value
        assert said in str(caught.value)

    namespaces.inside(act)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A workspace as an earlier run may have left it."""
    for directory in ("work/real/deep", "work/.git/hooks", "elsewhere", "extra"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "work/file").write_text("content")
    (tmp_path / "work/.git/config").write_text("[core]")
    (tmp_path / "extra/shown").write_text("extra")
    (tmp_path / "single").write_text("a file")
    (tmp_path / "work/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "work/filelink").symlink_to(tmp_path / "single")
    return tmp_path


# -- each operation ----------------------------------------------------------------------------------------------------


def test_a_directory_is_bound_with_its_parents_made(source: Path) -> None:
    def check() -> None:
        assert (PLACE / "a/b/c/file").read_text() == "content"
        (PLACE / "a/b/c/made").touch()
        assert sorted(os.listdir(PLACE)) == [*EMPTIES, "a"], "nothing but what was planned is in the root"

    built(bind(source / "work", "/a/b/c"), check=check)
    assert (source / "work/made").exists()


def test_a_file_is_bound_over_a_file(source: Path) -> None:
    built(bind(source / "single", "/x/file"), check=lambda: _holds(PLACE / "x/file", "a file"))


def _holds(path: Path, text: str) -> None:
    assert path.read_text() == text


def test_a_read_only_bind_is_not_written_and_a_writable_one_is(source: Path) -> None:
    def check() -> None:
        (PLACE / "rw/made").touch()
        with pytest.raises(OSError, match="Read-only file system"):
            (PLACE / "ro/made").touch()

    built(bind(source / "work", "/rw"), bind(source / "extra", "/ro", "ro"), check=check)


def test_every_bind_has_its_attributes(source: Path) -> None:
    def check() -> None:
        flags = os.statvfs(PLACE / "x").f_flag
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
        assert flags & os.ST_NOEXEC
        assert not os.statvfs(PLACE / "y").f_flag & os.ST_NOEXEC

    built(bind(source / "work", "/x", "noexec"), bind(source / "work", "/y"), check=check)


def test_directories_links_and_memory_are_made(source: Path) -> None:
    def check() -> None:
        assert stat.S_IMODE((PLACE / "run/user").stat().st_mode) == 0o1777
        assert os.readlink(PLACE / "bin") == "usr/bin"
        assert stat.S_IMODE((PLACE / "shm").stat().st_mode) == 0o1700
        flags = os.statvfs(PLACE / "shm").f_flag
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
        assert not flags & os.ST_NOEXEC
        assert os.statvfs(PLACE / "dev").f_flag & os.ST_NOEXEC

    built(
        MountOp(op="dir", target="/run/user", mode=0o1777),
        MountOp(op="symlink", target="/bin", to="usr/bin"),
        MountOp(op="tmpfs", target="/shm", options="mode=1700,size=64k"),
        MountOp(op="tmpfs", target="/dev", options="mode=755", devices=True, noexec=True),
        check=check,
    )


def test_devices_and_terminals_work(source: Path) -> None:
    def check() -> None:
        with (PLACE / "dev/zero").open("rb") as zero:
            assert zero.read(4) == bytes(4)
        assert (PLACE / "dev/pts/ptmx").exists()
        assert os.listdir(PLACE / "dev/pts") == ["ptmx"], "none of the host's terminals"

    built(
        MountOp(op="tmpfs", target="/dev", options="mode=755", devices=True, noexec=True),
        MountOp(op="device", target="/dev/zero", source="/dev/zero", attributes=("nosuid", "noexec")),
        MountOp(op="devpts", target="/dev/pts", options="newinstance,ptmxmode=0666,mode=0620"),
        check=check,
    )


def test_proc_shows_the_namespaces_own_processes(source: Path) -> None:
    def check() -> None:
        assert [name for name in os.listdir(PLACE / "proc") if name.isdigit()] == ["1"]

    built(MountOp(op="proc", target="/proc"), check=check, flags=PIDS)


@pytest.mark.parametrize("name", ["work/.git", "work/.git/config"])
def test_what_is_made_read_only_can_be_neither_changed_nor_moved_away(source: Path, name: str) -> None:
    target = f"/{name}"

    def check() -> None:
        here = PLACE / name
        (PLACE / "work/sibling").touch()
        (PLACE / "work/sibling").rename(PLACE / "work/moved")
        for attempt in (
            lambda: here.rename(here.with_name("moved-away")),
            lambda: here.unlink() if here.is_file() else here.rmdir(),
            lambda: here.write_text("x") if here.is_file() else (here / "made").touch(),
            lambda: here.chmod(0o777),
        ):
            with pytest.raises(OSError) as caught:  # noqa: PT011  either will do
                attempt()
            assert caught.value.errno in {errno.EROFS, errno.EBUSY}
        assert (PLACE / "work/.git/config").read_text() == "[core]"

    built(bind(source / "work", "/work"), MountOp(op="readonly", target=target), check=check)


def test_without_that_it_could(source: Path) -> None:
    def check() -> None:
        (PLACE / "work/.git/config").write_text("[alias]")
        (PLACE / "work/.git").rename(PLACE / "work/elsewhere")

    built(bind(source / "work", "/work"), check=check)


@pytest.mark.parametrize("name", ["work/.git", "work/file"])
def test_what_is_covered_is_empty_and_stays_so(source: Path, name: str) -> None:
    def check() -> None:
        here = PLACE / name
        assert not here.read_bytes() if here.is_file() else os.listdir(here) == []
        with pytest.raises(OSError) as caught:  # noqa: PT011  either will do
            here.write_text("x") if here.is_file() else (here / "made").touch()
        assert caught.value.errno in {errno.EROFS, errno.ENOENT}
        with pytest.raises(OSError, match="Device or resource busy"):
            here.rename(here.with_name("away"))

    assert (source / name).exists()
    built(bind(source / "work", "/work"), MountOp(op="cover", target=f"/{name}"), check=check)
    assert (source / "work/file").read_text() == "content"


@pytest.mark.parametrize("op", ["cover", "readonly"])
def test_what_does_not_exist_is_passed_over_only_when_it_may_be(source: Path, op: Any) -> None:
    work = bind(source / "work", "/work")
    built(work, MountOp(op=op, target="/work/missing", optional=True), check=lambda: None)
    assert not (source / "work/missing").exists()
    refused(work, MountOp(op=op, target="/work/missing"), number=errno.ENOENT, said=f"{op} /work/missing")


# -- links and exchanged sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "honest"),
    [
        ("/work/link", "/work/real"),
        ("/work/link/deep", "/work/real/deep"),
        ("/work/link/new/place", "/work/real/new/place"),
    ],
)
def test_a_bind_does_not_land_behind_a_link(source: Path, target: str, honest: str) -> None:
    work = bind(source / "work", "/work")
    built(
        work,
        bind(source / "extra", honest),
        check=lambda: _holds(PLACE / honest.lstrip("/") / "shown", "extra"),
    )
    refused(work, bind(source / "extra", target), number=errno.ELOOP, said=f"bind {target}")
    assert os.listdir(source / "elsewhere") == [], "nothing was made where the link leads"


@pytest.mark.parametrize("op", ["cover", "readonly", "tmpfs", "dir"])
def test_no_operation_goes_through_a_link(source: Path, op: Any) -> None:
    work = bind(source / "work", "/work")
    (source / "elsewhere/deep").mkdir()
    built(work, MountOp(op=op, target="/work/real/deep"), check=lambda: None)
    refused(work, MountOp(op=op, target="/work/link/deep"), number=errno.ELOOP, said=f"{op} /work/link/deep")


@pytest.mark.parametrize("op", ["cover", "readonly"])
def test_a_link_itself_is_not_taken_for_what_it_names(source: Path, op: Any) -> None:
    refused(
        bind(source / "work", "/work"),
        MountOp(op=op, target="/work/filelink"),
        number=errno.ELOOP,
        said="symbolic link",
    )


def test_a_target_does_not_climb_out_of_the_root(source: Path) -> None:
    refused(bind(source / "extra", "/a/../../b"), number=errno.EINVAL, said="bind /a/../../b")


def test_a_file_in_the_way_of_a_directory_is_named(source: Path) -> None:
    refused(
        bind(source / "work", "/work"), bind(source / "extra", "/work/file/x"), number=errno.ENOTDIR, said="work/file/x"
    )


def test_a_source_that_was_exchanged_is_not_shown(source: Path) -> None:
    honest = bind(source / "work", "/work")
    built(honest, check=lambda: None)
    (source / "work").rename(source / "was-work")
    (source / "elsewhere").rename(source / "work")
    refused(honest, number=errno.ESTALE, said="was replaced while the box started")


def test_a_source_that_became_a_link_is_not_followed(source: Path) -> None:
    honest = bind(source / "work", "/work")
    (source / "work").rename(source / "was-work")
    (source / "work").symlink_to(source / "was-work")
    refused(honest, number=errno.ESTALE, said="was replaced")


def test_a_parent_that_cannot_be_written_will_do_when_the_name_is_there(source: Path) -> None:
    (source / "extra/place").mkdir()
    read_only = bind(source / "extra", "/x", "ro")
    built(read_only, bind(source / "work", "/x/place"), check=lambda: _holds(PLACE / "x/place/file", "content"))
    refused(read_only, bind(source / "work", "/x/missing"), number=errno.ENOENT, said="bind /x/missing")


def test_mounts_below_a_source_come_with_it_and_keep_its_attributes(source: Path) -> None:
    def act() -> None:
        namespaces.private_mounts()
        kernel.mount("inner", os.fspath(source / "work/real"), "tmpfs")
        (source / "work/real/inside").touch()
        build(bind(source / "work", "/work", "ro"))
        with pytest.raises(OSError, match="Read-only file system"):
            (PLACE / "work/real/inside").write_text("x")

    namespaces.inside(act)


# -- the pivot ---------------------------------------------------------------------------------------------------------


def test_after_the_pivot_the_root_is_read_only_and_the_host_is_gone(source: Path) -> None:
    def act() -> None:
        build(
            bind(source / "work", "/work"),
            MountOp(op="tmpfs", target="/dev", options="mode=755", devices=True, noexec=True),
        )
        mounting.pivot()
        assert sorted(os.listdir("/")) == [*EMPTIES, "dev", "work"]
        for path in ("/made", "/dev/made"):
            with pytest.raises(OSError) as caught:  # noqa: PT011  the number tells
                os.close(os.open(path, os.O_CREAT))
            assert caught.value.errno == errno.EROFS
        os.close(os.open("/work/made", os.O_CREAT))
        with pytest.raises(FileNotFoundError):
            os.stat(source)

    namespaces.inside(act)


# -- an overlay --------------------------------------------------------------------------------------------------------


def overlay(source: Path, target: str) -> MountOp:
    for name in ("upper", "work"):
        (source / "layers" / name).mkdir(parents=True, exist_ok=True)
    return replace(bind(source / "work", target), op="overlay", layers=os.fspath(source / "layers"))


def test_an_overlay_shows_the_source_and_writes_to_its_layer(source: Path) -> None:
    def check() -> None:
        assert (PLACE / "ws/file").read_text() == "content"
        (PLACE / "ws/file").write_text("changed")
        (PLACE / "ws/made").touch()
        (PLACE / "ws/link").unlink()
        flags = os.statvfs(PLACE / "ws").f_flag
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
        assert sorted(os.listdir(PLACE)) == [*EMPTIES, "ws"], "the places its layers came from are gone"

    before = sorted(os.listdir(source / "work"))
    built(overlay(source, "/ws"), check=check)
    assert (source / "work/file").read_text() == "content"
    assert sorted(os.listdir(source / "work")) == before
    assert sorted(os.listdir(source / "layers/upper")) == ["file", "link", "made"]
    assert stat.S_ISCHR((source / "layers/upper/link").lstat().st_mode)


def test_an_overlay_finds_the_work_of_the_last_one(source: Path) -> None:
    built(overlay(source, "/ws"), check=(PLACE / "ws/file").unlink)
    (source / "work/file").write_text("by the host")
    (source / "work/new").write_text("by the host")

    def check() -> None:
        assert not (PLACE / "ws/file").exists()
        assert (PLACE / "ws/new").read_text() == "by the host"

    built(overlay(source, "/ws"), check=check)


def test_other_operations_work_on_an_overlay(source: Path) -> None:
    def check() -> None:
        assert (PLACE / "ws/file").read_text() == ""
        with pytest.raises(OSError, match="Read-only file system"):
            (PLACE / "ws/.git/made").touch()
        with pytest.raises(OSError, match="busy"):
            (PLACE / "ws/real").rename(PLACE / "ws/elsewhere")
        assert (PLACE / "ws/real/deep/shown").read_text() == "extra"

    built(
        overlay(source, "/ws"),
        bind(source / "extra", "/ws/real/deep"),
        MountOp(op="readonly", target="/ws/.git"),
        MountOp(op="cover", target="/ws/file"),
        MountOp(op="pin", target="/ws/real"),
        check=check,
    )


def test_a_pin_that_is_optional_may_be_missing(source: Path) -> None:
    built(
        bind(source / "work", "/ws"),
        MountOp(op="pin", target="/ws/missing", optional=True),
        check=lambda: _holds(PLACE / "ws/file", "content"),
    )
    refused(bind(source / "work", "/ws"), MountOp(op="pin", target="/ws/missing"), number=errno.ENOENT, said="pin")


def test_an_overlay_of_a_directory_that_was_replaced_is_refused(source: Path) -> None:
    planned = overlay(source, "/ws")
    (source / "work").rename(source / "old")
    (source / "work").mkdir()
    refused(planned, number=errno.ESTALE, said="replaced")


def test_an_overlay_looks_again_only_when_it_is_told(source: Path) -> None:
    def act() -> None:
        _, (picked,) = build(overlay(source, "/ws"))
        shown, beside = PLACE / "ws/file", source / "beside"
        assert shown.read_text() == "content"
        assert not (PLACE / "ws/later").exists()
        beside.write_text("replaced")
        beside.rename(source / "work/file")
        (source / "work/later").touch()
        assert (shown.read_text(), (PLACE / "ws/later").exists()) == ("content", False)
        kernel.look_again(picked)
        assert (shown.read_text(), (PLACE / "ws/later").exists()) == ("replaced", True)

    source = _elsewhere(source)
    try:
        namespaces.inside(act)
    finally:
        fs.remove_tree(os.fspath(source))  # the overlay's own work directory is closed to everybody


def _elsewhere(source: Path) -> Path:
    """The new root covers /tmp, and this test looks at both sides."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    shutil.copytree(source / "work", place / "work", symlinks=True)
    return place


# -- a host that goes on working ---------------------------------------------------------------------------------------


def test_a_name_that_the_host_replaces_all_the_time_is_covered_all_the_same(source: Path) -> None:
    def go_on_saving() -> None:
        while True:
            (source / "fresh").touch()
            (source / "fresh").replace(source / "work/file")

    pid = namespaces.spawn(go_on_saving, 0)
    try:
        cover = MountOp(op="cover", target="/work/file")
        for _ in range(20):
            built(bind(source / "work", "/work"), *[cover] * 20, check=lambda: None)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
