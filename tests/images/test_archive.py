"""A layer is unpacked beneath its directory or refused: ARC-01 to ARC-05, ARC-07, ARC-10, ARC-14."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images import archive, marks
from paddock.images.ownership import SQUASHED, Ownership
from tests.images import tars

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNERSHIP = Ownership(ids=65536) if os.geteuid() == 0 else SQUASHED


class Layer:
    """A directory to unpack into, with something of the host's beside it."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.root.mkdir()
        self.outside = path / "outside"
        self.outside.mkdir()
        (self.outside / "file").write_bytes(b"the host's")
        self.fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)

    def unpack(self, *entries: bytes, ownership: Ownership = OWNERSHIP) -> archive.Unpacked:
        return archive.unpack(tars.source(tars.archive(*entries)), self.fd, ownership)

    def host_is_untouched(self) -> bool:
        file = self.outside / "file"
        return os.listdir(self.outside) == ["file"] and file.read_bytes() == b"the host's" and file.stat().st_nlink == 1


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[Layer]:
    made = Layer(tmp_path)
    yield made
    os.close(made.fd)


def test_files_directories_and_links_come_out_as_they_are_written(layer: Layer) -> None:
    done = layer.unpack(
        tars.directory(b"./", 0o755),
        tars.directory(b"usr/", 0o755),
        tars.directory(b"usr/bin/", 0o555),
        tars.file(b"usr/bin/tool", b"x" * 5000, mode=0o755, mtime=1_600_000_000),
        tars.hardlink(b"usr/bin/same", b"usr/bin/tool"),
        tars.symlink(b"bin", b"usr/bin"),
        tars.symlink(b"absolute", b"/etc/passwd"),
        tars.symlink(b"upwards", b"../../../../etc/passwd"),
        tars.directory(b"tmp/", 0o1777),
        tars.file(b"implied/below", b"y"),
    )
    tool = layer.root / "usr/bin/tool"
    assert tool.read_bytes() == b"x" * 5000
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755
    assert tool.stat().st_mtime == 1_600_000_000
    assert tool.samefile(layer.root / "usr/bin/same")
    assert [os.readlink(layer.root / name) for name in ("bin", "absolute", "upwards")] == [
        "usr/bin",
        "/etc/passwd",
        "../../../../etc/passwd",
    ]
    assert stat.S_IMODE((layer.root / "tmp").stat().st_mode) == 0o1777
    assert stat.S_IMODE((layer.root / "implied").stat().st_mode) == 0o755
    assert stat.S_IMODE((layer.root / "usr/bin").stat().st_mode) == (0o755 if OWNERSHIP.is_squashed else 0o555)
    assert (done.entries, done.size_bytes, done.left_out) == (10, 5001, 0)


def test_a_directory_may_come_after_what_is_in_it(layer: Layer) -> None:
    layer.unpack(tars.file(b"a/b/c"), tars.directory(b"a/b/", 0o711), tars.directory(b"a/b/", 0o711))
    assert stat.S_IMODE((layer.root / "a/b").stat().st_mode) == 0o711


REFUSED: dict[str, tuple[tuple[bytes, ...], str]] = {
    "leads upwards": ((tars.file(b"../outside/new"),), "leads out"),
    "leads upwards later": ((tars.file(b"a/../../outside/new"),), "leads out"),
    "is absolute": ((tars.file(b"/tmp/new"),), "absolute"),
    "has no name": ((tars.file(b""),), "without a name"),
    "writes through a link": ((tars.symlink(b"a", b"../outside"), tars.file(b"a/new")), "no directory"),
    "writes over a link": ((tars.symlink(b"a", b"../outside/file"), tars.file(b"a", b"x")), "second entry"),
    "makes a directory through a link": (
        (tars.symlink(b"a", b"../outside"), tars.directory(b"a/new/")),
        "no directory",
    ),
    "makes a directory over a link": ((tars.symlink(b"a", b"../outside"), tars.directory(b"a/")), "second entry"),
    "implies a directory through a link": (
        (tars.symlink(b"a", b"../outside"), tars.file(b"a/b/new")),
        "no directory",
    ),
    "links through a link": ((tars.symlink(b"a", b"../outside"), tars.hardlink(b"b", b"a/file")), "no directory"),
    "links a link": ((tars.symlink(b"a", b"../outside/file"), tars.hardlink(b"b", b"a")), "no file"),
    "links a directory": ((tars.directory(b"a/"), tars.hardlink(b"b", b"a")), "no file"),
    "links the outside": ((tars.hardlink(b"a", b"../outside/file"),), "leads out"),
    "links an absolute name": ((tars.hardlink(b"a", b"/etc/passwd"),), "absolute"),
    "links what is not there": ((tars.hardlink(b"a", b"b"),), "came before"),
    "links what comes later": ((tars.hardlink(b"a", b"b"), tars.file(b"b")), "came before"),
    "links itself": ((tars.hardlink(b"a", b"a"),), "came before"),
    "hides through a link": ((tars.symlink(b"a", b"../outside"), tars.file(b"a/.wh.file")), "no directory"),
    "is opaque through a link": ((tars.symlink(b"a", b"../outside"), tars.file(b"a/.wh..wh..opq")), "no directory"),
    "hides the directory above": ((tars.file(b".wh..."),), "unknown mark"),
    "has a file twice": ((tars.file(b"a", b"1"), tars.file(b"a", b"2")), "second entry"),
    "has a file twice by another name": ((tars.file(b"a"), tars.file(b"./a")), "second entry"),
    "has a directory of another mode": ((tars.directory(b"a/", 0o755), tars.directory(b"a/", 0o777)), "second entry"),
    "has a file, then a directory": ((tars.file(b"a"), tars.directory(b"a/")), "second entry"),
    "has a directory, then a file": ((tars.directory(b"a/"), tars.file(b"a")), "second entry"),
    "has a file in a file": ((tars.file(b"a"), tars.file(b"a/b")), "no directory"),
    "has a disk": ((tars.header(b"sda", b"4", device=(8, 0)),), "block device"),
    "has memory": ((tars.header(b"etc/mem", b"3", device=(1, 1)),), "character device"),
    "has a whiteout of the kernel's": ((tars.header(b"etc/passwd", b"3"),), "character device"),
    "has a mark of the kernel's": (
        (tars.pax([(b"SCHILY.xattr.user.overlay.redirect", b"/etc")]), tars.directory(b"a/")),
        "forges a mark",
    ),
    "has a mark of root's": (
        (tars.pax([(b"SCHILY.xattr.trusted.overlay.opaque", b"y")]), tars.directory(b"a/")),
        "forges a mark",
    ),
    "has a link to nothing": ((tars.symlink(b"a", b""),), "to nothing"),
    "is a terabyte": ((tars.header(b"a", size=b"\x80" + (1 << 40).to_bytes(11, "big")),), "too much space"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_layer_is_refused_that(layer: Layer, case: str) -> None:
    entries, said = REFUSED[case]
    with pytest.raises(UserError, match=said) as caught:
        layer.unpack(tars.file(b"first"), *entries)
    assert caught.value.code == "bad-archive"
    assert layer.host_is_untouched()


def test_more_directory_names_than_memory_is_given_are_refused(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ARCHIVE_DIRECTORY_BYTES", 1000)
    with pytest.raises(UserError, match="memory"):
        layer.unpack(*(tars.directory(b"%090d/" % number) for number in range(20)))


def test_a_mark_hides_what_is_below_by_the_kernels_own_mark(layer: Layer) -> None:
    layer.unpack(
        tars.file(b"etc/.wh.gone"),
        tars.file(b"var/.wh..wh..opq"),
        tars.file(b"var/new", b"1"),
        tars.file(b"srv/.wh.replaced"),
        tars.directory(b"srv/replaced/"),
        tars.file(b"opt/file"),
        tars.file(b"opt/.wh.file"),
    )
    assert marks.is_whiteout(os.lstat(layer.root / "etc/gone"))
    for name, is_opaque in (("var", True), ("srv/replaced", True), ("etc", False), ("srv", False)):
        fd = os.open(layer.root / name, os.O_RDONLY)
        assert marks.is_opaque(fd) == is_opaque, name
        os.close(fd)
    assert (layer.root / "opt/file").is_file()
    assert not list(layer.root.rglob(".wh.*"))


def test_devices_of_dev_and_fifos_are_left_out(layer: Layer) -> None:
    done = layer.unpack(
        tars.header(b"dev/null", b"3", device=(1, 3)), tars.header(b"run/initctl", b"6"), tars.file(b"a")
    )
    assert done.left_out == 2
    assert os.listdir(layer.root) == ["a"]


def test_a_layer_without_ids_has_no_set_id_programs_and_can_be_read(layer: Layer) -> None:
    layer.unpack(
        tars.file(b"sudo", b"x", mode=0o4755, uid=0),
        tars.file(b"shadow", b"x", mode=0o000, uid=4_000_000, gid=5),
        ownership=SQUASHED,
    )
    sudo, shadow = layer.root / "sudo", layer.root / "shadow"
    assert stat.S_IMODE(sudo.stat().st_mode) == 0o755
    assert stat.S_IMODE(shadow.stat().st_mode) == 0o400
    assert shadow.stat().st_uid == os.geteuid()


@pytest.mark.privileged
def test_a_layer_with_ids_keeps_owners_and_set_id_bits(layer: Layer) -> None:
    layer.unpack(
        tars.file(b"sudo", b"x", mode=0o4755, uid=0, gid=33),
        tars.directory(b"mail/", 0o2775),
        tars.pax([(b"uid", b"1000"), (b"gid", b"1001")]) + tars.symlink(b"link", b"x"),
        ownership=Ownership(ids=65536),
    )
    sudo, link = (layer.root / "sudo").stat(), os.lstat(layer.root / "link")
    assert (stat.S_IMODE(sudo.st_mode), sudo.st_uid, sudo.st_gid) == (0o4755, 0, 33)
    assert stat.S_IMODE((layer.root / "mail").stat().st_mode) == 0o2775
    assert (link.st_uid, link.st_gid) == (1000, 1001)
    with pytest.raises(UserError, match="belongs to 65536:0"):
        layer.unpack(tars.pax([(b"uid", b"65536")]) + tars.file(b"far"), ownership=Ownership(ids=65536))


def test_attributes_of_users_stay_and_labels_of_the_host_go(layer: Layer) -> None:
    layer.unpack(
        tars.pax([(b"SCHILY.xattr.user.note", b"\x01"), (b"SCHILY.xattr.security.selinux", b"x")]) + tars.file(b"a")
    )
    assert os.listxattr(layer.root / "a") == ["user.note"]


def test_attributes_are_part_of_the_size(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tars.pax([(b"SCHILY.xattr.user.note", b"x" * 1000)])
    monkeypatch.setattr(archive, "FILE_BYTES", 1)
    done = layer.unpack(*(note + tars.file(b"a%d" % n, b"y") for n in range(9)))
    assert done.size_bytes == 9 * (len("user.note") + 1000 + 1)
    monkeypatch.setattr(archive, "ARCHIVE_BYTES", 9000)
    with pytest.raises(UserError, match="too much space"):
        layer.unpack(*(note + tars.file(b"b%d" % n, b"y") for n in range(9)))


@pytest.mark.parametrize("mtime", [b"\x80" + b"\x7f" * 11, b"7" * 11])
def test_a_time_far_away_is_brought_near(layer: Layer, mtime: bytes) -> None:
    layer.unpack(tars.header(b"a", mtime=mtime))
    assert 0 <= (layer.root / "a").stat().st_mtime <= 1 << 33


def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(layer: Layer) -> None:
    class Swapping:
        """A source in whose middle somebody else gets to work."""

        def __init__(self, data: bytes) -> None:
            self._source = tars.source(data)
            self._reads = 0

        def read(self, size: int, /) -> bytes:
            self._reads += 1
            if self._reads == 3:
                (layer.root / "a").rename(layer.root / "moved")
                (layer.root / "a").symlink_to(layer.outside)
            return self._source.read(size)

    # The cached descriptor of a/ is left for b/, so that a/ is looked up again.
    data = tars.archive(tars.directory(b"a/"), tars.directory(b"b/"), tars.file(b"b/x"), tars.file(b"a/new", b"x"))
    with pytest.raises(UserError, match="no directory"):
        archive.unpack(Swapping(data), layer.fd, OWNERSHIP)
    assert layer.host_is_untouched()


def test_a_full_disk_is_said_so(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(archive, "write_all", full)
    with pytest.raises(Unavailable, match="no space left") as caught:
        layer.unpack(tars.file(b"a", b"x"))
    assert caught.value.code == "disk"


def test_no_descriptor_is_left_open(layer: Layer) -> None:
    before = len(os.listdir("/proc/self/fd"))
    layer.unpack(tars.file(b"a/b/c"), tars.file(b"d/e", b"x"), tars.hardlink(b"f/g", b"d/e"), tars.file(b"a/.wh.q"))
    for case in ("links a link", "writes through a link", "has a file twice"):
        with pytest.raises(UserError):
            layer.unpack(*(entry for entry in REFUSED[case][0]))
        for path in layer.root.iterdir():
            Path(path).rename(layer.root.parent / f"{case} {path.name}")
    assert len(os.listdir("/proc/self/fd")) == before
