"""Compression undone within bounds, and sums of what was really read: ARC-05, ARC-06."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images import streams
from paddock.images.streams import Hashed, Part, plain, spool

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(256)) * 3000


def unpacked(data: bytes, directory: Path) -> bytes:
    with plain(io.BytesIO(data), os.fspath(directory)) as source:
        return b"".join(iter(lambda: source.read(1000), b""))


def zstd(data: bytes) -> bytes:
    if shutil.which("zstd") is None:
        pytest.skip("there is no zstd")
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True, timeout=30).stdout


@pytest.mark.parametrize("data", [DATA, b"", b"abc"])
def test_bytes_without_compression_pass_as_they_are(tmp_path: Path, data: bytes) -> None:
    assert unpacked(data, tmp_path) == data


def test_gzip_is_undone_member_by_member(tmp_path: Path) -> None:
    assert unpacked(gzip.compress(DATA) + gzip.compress(b"") + gzip.compress(b"end"), tmp_path) == DATA + b"end"


def test_zstd_is_undone_by_its_program(tmp_path: Path) -> None:
    assert unpacked(zstd(DATA) + zstd(b"end"), tmp_path) == DATA + b"end"
    assert list(tmp_path.iterdir()) == []


def test_without_its_program_zstd_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Unavailable, match="zstd") as caught:
        unpacked(b"\x28\xb5\x2f\xfd\0\0", tmp_path)
    assert caught.value.code == "no-zstd"


@pytest.mark.parametrize("cut", [10, 1000, -1, -4])
def test_compressed_data_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    with pytest.raises(UserError, match="compressed data"):
        unpacked(gzip.compress(os.urandom(5000))[:cut], tmp_path)
    with pytest.raises(UserError, match="compressed data"):
        unpacked(zstd(os.urandom(5000))[:cut], tmp_path)


def test_damaged_and_foreign_compression_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(5000)))
    packed[-6] ^= 1
    for data in (bytes(packed), gzip.compress(DATA) + b"garbage", bz2.compress(DATA), lzma.compress(DATA)):
        with pytest.raises(UserError):
            unpacked(data, tmp_path)


def test_a_bomb_is_unpacked_only_as_far_as_it_is_read(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(200 << 20), 9)
    with plain(io.BytesIO(bomb), os.fspath(tmp_path)) as source:
        assert len(source.read(1000)) <= 1000


def test_a_part_of_a_file_is_that_part(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        part = Part(fd, 2, 5)
        assert [part.read(3), part.read(9), part.read(9)] == [b"234", b"56", b""]
        assert Part(fd, 8).read(100) == b"89"
        part = Part(fd, 0, 5)
        part.skip(3)
        assert part.read(9) == b"34"
        part.skip(3)
        assert part.read(9) == b""
    finally:
        os.close(fd)


def test_a_sum_is_of_all_that_was_read() -> None:
    hashed = Hashed(io.BytesIO(DATA))
    hashed.read(10)
    hashed.drain()
    assert (hashed.digest, hashed.size) == (f"sha256:{hashlib.sha256(DATA).hexdigest()}", len(DATA))


def test_a_spool_has_no_name_and_an_end(tmp_path: Path) -> None:
    fd = spool(io.BytesIO(DATA), os.fspath(tmp_path), len(DATA))
    try:
        assert os.read(fd, 1 << 20) == DATA
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(fd)
    with pytest.raises(UserError, match="too much space"):
        spool(io.BytesIO(DATA), os.fspath(tmp_path), len(DATA) - 1)


@pytest.mark.parametrize(("floor", "most"), [(1 << 60, 1 << 40), (0, 1000)])
def test_compressed_data_takes_neither_the_hosts_space_nor_more_than_an_image_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: int, most: int
) -> None:
    data = zstd(os.urandom(5000))
    assert len(unpacked(data, tmp_path)) == 5000, "the oracle"
    monkeypatch.setattr(streams, "DISK_FLOOR_BYTES", floor)
    monkeypatch.setattr(streams, "IMAGE_BYTES", most)
    with pytest.raises(UserError, match="too much space"):
        unpacked(data, tmp_path)


def test_all_is_written_where_a_write_takes_a_part(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        streams.write_all(fd, DATA)
    finally:
        os.close(fd)
    assert (tmp_path / "file").read_bytes() == DATA
