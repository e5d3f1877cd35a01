"""Images unpacked by a process of its own."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images.context import Context, Target
from paddock.images.dockerignore import Dockerignore
from paddock.images.instructions import Copy
from paddock.images.layers import Layers
from paddock.images.sources import Directory
from paddock.runtime import unpacking
from tests.runtime.test_templates import saved

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime.unpacking import Unpacked


def _layer() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, owner, mode in (
            (".", 0, 0o755),
            ("of-root", 0, 0o4755),
            ("of-33", 33, 0o600),
            ("of-1000", 1000, 0o644),
        ):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if name == "." else tarfile.REGTYPE
            info.uid = info.gid = owner
            info.mode = mode
            archive.addfile(info)
    return out.getvalue()


def _unpacked(file: Path, place: Path, owner: tuple[int, int] = (0, 0)) -> Unpacked:
    fd = os.open(file, os.O_RDONLY)
    try:
        return unpacking.unpack(fd, str(place), owner)
    finally:
        os.close(fd)


@pytest.mark.parametrize("owner", [(0, 0), (1000, 1000)])
def test_files_belong_to_whom_the_image_says_as_boxes_see_it(tmp_path: Path, owner: tuple[int, int]) -> None:
    saved(tmp_path / "image.tar", _layer(), User="1000")
    store = tmp_path / "layers"
    found = _unpacked(tmp_path / "image.tar", store, owner)
    assert found.config.user == "1000"
    (layer,) = found.layers
    seen = ids.to_unpack(owner)
    for number, name in ((0, "of-root"), (33, "of-33"), (1000, "of-1000")):
        status = os.stat(f"{Layers(str(store)).tree(layer)}/{name}")
        assert status.st_uid == (_outside(seen, number) if seen.count > 1 else os.getuid())
    kinds = {"squashed"} if seen.count == 1 else {"mapped"} if seen.by_tool and any(owner) else {"sha256"}
    assert {layer.partition(":")[0]} == kinds
    assert _unpacked(tmp_path / "image.tar", store, owner) == found
    _remove(store)


def _outside(seen: ids.Ids, number: int) -> int:
    return next(out + number - one for one, out, size in seen.uids if one <= number < one + size)


def _remove(store: Path) -> None:
    from paddock.engines.container import removal

    removal.remove_tree(str(store))


def test_an_image_in_zstd_is_unpacked_there_too(tmp_path: Path) -> None:
    if not shutil.which("zstd", path="/usr/bin:/bin"):
        pytest.skip("no zstd on this machine")
    saved(tmp_path / "image.tar", _layer())
    subprocess.run(["/usr/bin/zstd", "-q", tmp_path / "image.tar"], check=True, timeout=30)
    assert _unpacked(tmp_path / "image.tar.zst", tmp_path / "layers").layers
    _remove(tmp_path / "layers")


def test_what_is_no_image_is_refused_as_ever_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no image\n" * 1000)
    with pytest.raises(UserError):
        _unpacked(tmp_path / "text", tmp_path / "layers")
    assert Layers(str(tmp_path / "layers")).whole() == []


def test_what_a_copy_takes_becomes_a_layer_of_its_own(tmp_path: Path) -> None:
    here = tmp_path / "context"
    here.mkdir()
    (here / "a").write_text("content")
    place = str(tmp_path / "layers")
    root = os.open(here, os.O_RDONLY)
    with tempfile.TemporaryFile() as spooled:
        target = Target(path="srv", is_directory=True, owner=(33, 33))
        Context(Directory(root), Dockerignore()).write(Copy(line=1, sources=("a",), target="/srv/"), target, spooled)
        spooled.flush()
        layer = unpacking.add(spooled.fileno(), place)
        assert unpacking.add(spooled.fileno(), place) == layer
    os.close(root)
    seen = ids.to_unpack((0, 0))
    file = f"{Layers(place).tree(layer)}/srv/a"
    with open(file, encoding="ascii") as opened:
        assert opened.read() == "content"
    assert os.stat(file).st_uid == (_outside(seen, 33) if seen.count > 1 else os.getuid())
    _remove(tmp_path / "layers")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", Unavailable),
        (b"[]", Unavailable),
        (b"{}", Unavailable),
        (b'{"layers": ["../../etc"]}', UserError),
        (b'{"layers": ["sha256:%s"]}' % (b"0" * 64), Unavailable),
        (b'{"error": "a\\u001b[2J", "by_user": true, "code": "X Y"}', UserError),
    ],
)
def test_what_the_process_says_is_looked_at(tmp_path: Path, answer: bytes, kind: type[PaddockError]) -> None:
    with pytest.raises(kind) as caught:
        unpacking._layers(unpacking._read(answer), Layers(str(tmp_path / "layers")))
    assert "\x1b" not in str(caught.value)
