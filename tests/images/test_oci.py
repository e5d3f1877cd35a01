"""Images are read from the files that others write, and refused where a sum or a list is wrong: ARC-05 to ARC-07."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images.layers import LayerId, Layers, layer_of
from paddock.images.oci import Image, ImageFile, own_architecture
from paddock.images.ownership import of_caller
from tests.images import pictures, tars
from tests.images.pictures import LOWER, UPPER

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ground:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.layers = Layers(os.fspath(path / "layers"))
        self.spool = path / "spool"
        self.spool.mkdir()

    @contextlib.contextmanager
    def opened(self, data: bytes) -> Iterator[ImageFile]:
        (self.path / "image.tar").write_bytes(data)
        fd = os.open(self.path / "image.tar", os.O_RDONLY)
        try:
            with ImageFile(fd, os.fspath(self.spool)) as file:
                yield file
        finally:
            os.close(fd)

    def load(self, data: bytes) -> tuple[Image, tuple[LayerId, ...]]:
        with self.opened(data) as file, self.layers.lease() as lease:
            (image,) = file.images()
            return image, file.load(image, self.layers, lease, of_caller())


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def is_loaded(ground: Ground, data: bytes) -> None:
    image, layers = ground.load(data)
    assert image.tags == ("team:v1",)
    assert (image.config.user, image.config.env, image.config.cmd) == ("agent", ("PATH=/bin",), ("sh",))
    assert layers == tuple(layer_of(pictures.digest(data), of_caller()) for data in (LOWER, UPPER))
    assert Path(ground.layers.tree(layers[0]), "etc/name").read_bytes() == b"lower"
    assert Path(ground.layers.tree(layers[1]), "etc/name").read_bytes() == b"upper"
    assert list(ground.spool.iterdir()) == []


def test_what_docker_saves_is_loaded(ground: Ground) -> None:
    is_loaded(ground, pictures.tar(pictures.saved(LOWER, UPPER)))


def test_an_oci_layout_is_loaded_with_its_layers_compressed_or_not(ground: Ground) -> None:
    is_loaded(ground, pictures.tar(pictures.laid_out(LOWER, UPPER, blobs=[gzip.compress(LOWER), UPPER])))


def test_a_layer_compressed_with_zstd_is_loaded(ground: Ground) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("there is no zstd")
    packed = subprocess.run(["zstd", "-qc"], input=LOWER, capture_output=True, check=True, timeout=30).stdout
    is_loaded(
        ground, pictures.tar(pictures.laid_out(LOWER, UPPER, blobs=[packed, UPPER], layer_type="layer.v1.tar+zstd"))
    )


def test_a_file_that_is_compressed_as_a_whole_is_loaded(ground: Ground) -> None:
    is_loaded(ground, gzip.compress(pictures.tar(pictures.saved(LOWER, UPPER))))


def test_an_image_may_come_through_a_pipe(ground: Ground) -> None:
    reader, writer = os.pipe()

    def feed() -> None:
        with os.fdopen(writer, "wb") as file:
            file.write(pictures.tar(pictures.saved(LOWER, UPPER)))

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        with ImageFile(reader, os.fspath(ground.spool)) as file:
            assert len(file.images()) == 1
    finally:
        thread.join()
        os.close(reader)


def test_a_layer_that_docker_saved_once_and_linked_to_is_found(ground: Ground) -> None:
    files = pictures.saved(LOWER, UPPER)
    config, first, second, listed = files
    data = tars.archive(
        tars.file(config.encode(), files[config]),
        tars.file(b"shared/layer.tar", LOWER),
        tars.symlink(first.encode(), b"../shared/layer.tar"),
        tars.file(second.encode(), UPPER),
        tars.file(listed.encode(), files[listed]),
    )
    is_loaded(ground, data)


def test_a_layer_that_is_there_is_not_read_again(ground: Ground) -> None:
    is_loaded(ground, pictures.tar(pictures.saved(LOWER, UPPER)))
    inodes = [os.stat(ground.layers.tree(layer)).st_ino for layer in ground.layers.whole()]
    is_loaded(ground, pictures.tar(pictures.laid_out(LOWER, UPPER, blobs=[gzip.compress(LOWER), UPPER])))
    assert [os.stat(ground.layers.tree(layer)).st_ino for layer in ground.layers.whole()] == inodes


def test_of_several_machines_this_one_is_taken(ground: Ground) -> None:
    ours = pictures.laid_out(LOWER, UPPER, entry={"platform": {"architecture": own_architecture(), "os": "linux"}})
    theirs = pictures.laid_out(UPPER, entry={"platform": {"architecture": "s390x", "os": "linux"}})
    proof = pictures.laid_out(UPPER, entry={"platform": {"architecture": "unknown", "os": "unknown"}})
    listed = [item for files in (theirs, ours, proof) for item in _listed(files)]
    inner = pictures.dumped({"schemaVersion": 2, "manifests": listed})
    outer = pictures.described(inner, "index.v1+json")
    files = theirs | proof | ours | {f"blobs/sha256/{pictures.digest(inner)[7:]}": inner}
    files["index.json"] = pictures.dumped({"schemaVersion": 2, "manifests": [outer]})
    is_loaded(ground, pictures.tar(files))


def _listed(files: dict[str, bytes]) -> list[object]:
    import json

    found: list[object] = json.loads(files["index.json"])["manifests"]
    return found


def test_an_image_for_another_machine_is_said_so(ground: Ground) -> None:
    settings = pictures.config(LOWER, architecture="s390x")
    with pytest.raises(UserError, match="for 's390x'") as caught:
        ground.load(pictures.tar(pictures.saved(LOWER, settings=settings)))
    assert caught.value.code == "architecture"


def _without(files: dict[str, bytes], end: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(end)}


def _swapped(files: dict[str, bytes], old: bytes, new: bytes) -> dict[str, bytes]:
    assert old in files.values()
    return {name: new if data == old else data for name, data in files.items()}


TAMPERED = tars.archive(tars.file(b"etc/name", b"EVIL!"))
SAVED, LAID_OUT = pictures.saved(LOWER), pictures.laid_out(LOWER)
REFUSED: dict[str, bytes] = {
    "no image": pictures.tar({"a": b""}),
    "an empty file": b"",
    "a text": b"hello" * 1000,
    "a truncated file": pictures.tar(SAVED)[:-2000],
    "a tampered layer": pictures.tar(_swapped(SAVED, LOWER, TAMPERED)),
    "a tampered blob": pictures.tar(_swapped(LAID_OUT, LOWER, TAMPERED.ljust(len(LOWER), b"\0"))),
    "a blob of another size": pictures.tar(_swapped(LAID_OUT, LOWER, TAMPERED)),
    "a tampered configuration": pictures.tar(
        _swapped(SAVED, pictures.dumped(pictures.config(LOWER)), pictures.dumped(pictures.config(LOWER, x=1)))
    ),
    "a missing layer": pictures.tar(_without(SAVED, "layer.tar")),
    "a missing blob": pictures.tar(_without(LAID_OUT, pictures.digest(LOWER)[7:])),
    "a missing layout": pictures.tar(_without(LAID_OUT, "oci-layout")),
    "a layout of the future": pictures.tar(LAID_OUT | {"oci-layout": b'{"imageLayoutVersion":"2.0.0"}'}),
    "layers out of order": pictures.tar(pictures.saved(LOWER, UPPER, settings=pictures.config(UPPER, LOWER))),
    "fewer layers than it says": pictures.tar(pictures.saved(LOWER, settings=pictures.config(LOWER, UPPER))),
    "more layers than it says": pictures.tar(pictures.saved(LOWER, UPPER, settings=pictures.config(LOWER))),
    "a layer of another kind": pictures.tar(pictures.laid_out(LOWER, layer_type="layer.nondistributable.v1.tar")),
    "a manifest that is no list": pictures.tar({"manifest.json": b"{}"}),
    "a manifest of numbers": pictures.tar({"manifest.json": b"[1]"}),
    "a manifest without names": pictures.tar({"manifest.json": b"[{}]"}),
    "a manifest twice": tars.archive(*[tars.file(b"manifest.json", b"[]")] * 2),
    "a huge manifest": pictures.tar({"manifest.json": b" " * (5 << 20)}),
    "a device": tars.archive(tars.header(b"manifest.json", b"3")),
    "a hard link": tars.archive(tars.file(b"a", b"[]"), tars.hardlink(b"manifest.json", b"a")),
    "a name that leads out": tars.archive(tars.file(b"../manifest.json", b"[]")),
    "a layer elsewhere": pictures.tar({"manifest.json": b'[{"Config":"/etc/passwd","Layers":["../../etc/passwd"]}]'}),
    "a layer by a link to elsewhere": tars.archive(
        tars.file(b"manifest.json", b'[{"Config":"c"}]'), tars.symlink(b"c", b"/etc/passwd")
    ),
    "a hostile layer": pictures.tar(pictures.saved(tars.archive(tars.file(b"../x")))),
    "a compressed layer with a tail": pictures.tar(
        pictures.laid_out(LOWER, blobs=[gzip.compress(LOWER) + gzip.compress(b"tail")])
    ),
}


def _nested() -> bytes:
    """An index of an index of an index, and so on."""
    files = pictures.laid_out(LOWER)
    index = files["index.json"]
    for _ in range(5):
        files[f"blobs/sha256/{pictures.digest(index)[7:]}"] = index
        index = pictures.dumped({"schemaVersion": 2, "manifests": [pictures.described(index, "index.v1+json")]})
    return pictures.tar(files | {"index.json": index})


def _repeated() -> bytes:
    """An index that names another a hundred times, which names an image a hundred times."""
    files = pictures.laid_out(LOWER)
    index = json.loads(files["index.json"])
    inner = pictures.dumped({"schemaVersion": 2, "manifests": index["manifests"] * 100})
    files[f"blobs/sha256/{pictures.digest(inner)[7:]}"] = inner
    outer = {"schemaVersion": 2, "manifests": [pictures.described(inner, "index.v1+json")] * 100}
    return pictures.tar(files | {"index.json": pictures.dumped(outer)})


REFUSED["lists in lists"] = _nested()
REFUSED["one list many times"] = _repeated()
REFUSED["one image many times"] = pictures.tar(
    SAVED | {"manifest.json": pictures.dumped(json.loads(SAVED["manifest.json"]) * 1000)}
)


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_whole_with(ground: Ground, case: str) -> None:
    with pytest.raises(UserError) as caught:
        ground.load(REFUSED[case])
    assert caught.value.code == "bad-archive"
    ground.layers.prune(set)
    assert ground.layers.whole() == []
    assert list(ground.spool.iterdir()) == []


def test_a_bomb_in_a_compressed_file_ends_at_the_limit(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.images import streams

    monkeypatch.setattr(streams, "IMAGE_BYTES", 1 << 20)
    with pytest.raises(UserError, match="too much space"):
        ground.load(gzip.compress(bytes(64 << 20)))


def test_nothing_stays_open(ground: Ground) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for case in ("a tampered blob", "an empty file", "a hostile layer"):
        with pytest.raises(UserError):
            ground.load(REFUSED[case])
    is_loaded(ground, gzip.compress(pictures.tar(pictures.saved(LOWER, UPPER))))
    assert len(os.listdir("/proc/self/fd")) == before
