"""OCI layouts in directories, which a box may be changing at this moment."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images import layout
from tests.images import pictures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def laid_out(place: Path) -> Path:
    for name, data in pictures.laid_out(pictures.LOWER).items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return place


def written(place: Path) -> dict[str, bytes]:
    sink = io.BytesIO()
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        layout.write(root, sink)
    finally:
        os.close(root)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as found:
        return {item.name: found.extractfile(item).read() for item in found.getmembers()}  # type: ignore[union-attr]


def test_a_layout_becomes_one_file_and_what_else_lies_there_does_not(tmp_path: Path) -> None:
    place = laid_out(tmp_path / "layout")
    (place / "secret").write_text("not an image's")
    (place / "blobs/sha256/short").write_text("no sum")
    assert written(place) == pictures.laid_out(pictures.LOWER)


def _blob(place: Path) -> Path:
    return next((place / "blobs/sha256").iterdir())


def _linked_blob(place: Path) -> None:
    blob = _blob(place)
    blob.unlink()
    blob.symlink_to("/etc/passwd")


def _linked_blobs(place: Path) -> None:
    (place / "blobs").rename(place / "elsewhere")
    (place / "blobs").symlink_to("elsewhere")


def _fifo(place: Path) -> None:
    blob = _blob(place)
    blob.unlink()
    os.mkfifo(blob)


def _directory(place: Path) -> None:
    blob = _blob(place)
    blob.unlink()
    blob.mkdir()


def _hole(place: Path) -> None:
    with _blob(place).open("wb") as file:
        file.truncate(1 << 40)


def _long(place: Path) -> None:
    (place / "index.json").write_bytes(b" " * (5 << 20))


@pytest.mark.parametrize(
    "damage",
    [_linked_blob, _linked_blobs, _fifo, _directory, _hole, _long, lambda place: (place / "oci-layout").unlink()],
)
def test_what_is_no_layout_is_refused_and_no_link_followed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    place = laid_out(tmp_path / "layout")
    damage(place)
    with pytest.raises(UserError):
        written(place)


def test_too_many_files_are_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = laid_out(tmp_path / "layout")
    monkeypatch.setattr(layout, "IMAGE_FILE_ENTRIES", 4)
    with pytest.raises(UserError, match="too many files"):
        written(place)
    with contextlib.suppress(FileNotFoundError):
        _blob(place).unlink()
    monkeypatch.setattr(layout, "IMAGE_FILE_ENTRIES", 5)
    assert len(written(place)) == 4
