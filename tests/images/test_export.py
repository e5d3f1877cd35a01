"""What is exported is taken by the programs it is meant for, and by ourselves: ARC-09."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images.documents import ImageConfig
from paddock.images.export import Picture, export
from paddock.images.layers import LayerId, Layers, new_frozen_id
from paddock.images.oci import ImageFile, own_architecture
from paddock.images.ownership import of_caller
from tests.images import tars
from tests.images.pictures import LOWER, UPPER

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = ImageConfig(
    architecture=own_architecture(),
    diff_ids=(),
    env=("PATH=/usr/bin:/bin",),
    cmd=("sh",),
    user="1000",
    labels={"a": "b"},
    exposed=("80/tcp",),
)


@pytest.fixture
def store(tmp_path: Path) -> Layers:
    return Layers(os.fspath(tmp_path / "layers"))


def chain(store: Layers, tmp_path: Path) -> list[LayerId]:
    """Two layers of archives, and one that was a box's own."""
    upper = tmp_path / "upper"
    (upper / "home").mkdir(parents=True)
    (upper / "home/work").write_bytes(b"done")
    frozen = new_frozen_id()
    with store.lease() as lease:
        found = [store.add(lease, tars.source(data), of_caller()).id for data in (LOWER, UPPER)]
        store.freeze(lease, os.fspath(upper), frozen, of_caller().ids)
    return [*found, frozen]


def exported(store: Layers, layers: Sequence[LayerId], tmp_path: Path, *tags: str) -> Path:
    path = tmp_path / "image.tar"
    with path.open("wb") as file:
        export(store, [Picture(chain=tuple(layers), config=CONFIG, tags=tags or ("my-team:v1",))], file)
    return path


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")


def run(*argv: str | Path, cwd: Path) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.fspath(cwd), "TMPDIR": os.fspath(cwd)}
    done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_export_is_loaded_elsewhere_with_all_that_was_in_it(store: Layers, tmp_path: Path) -> None:
    path = exported(store, chain(store, tmp_path), tmp_path)
    elsewhere = Layers(os.fspath(tmp_path / "elsewhere"))
    fd = os.open(path, os.O_RDONLY)
    try:
        with ImageFile(fd, os.fspath(tmp_path)) as file, elsewhere.lease() as lease:
            (image,) = file.images()
            layers = file.load(image, elsewhere, lease, of_caller())
    finally:
        os.close(fd)
    assert image.tags == ("my-team:v1",)
    assert (image.config.user, image.config.exposed) == ("1000", ("80/tcp",))
    lower, upper, frozen = (Path(elsewhere.tree(layer)) for layer in layers)
    assert (lower / "etc/name").read_bytes() == b"lower"
    assert not (upper / "etc/gone").is_file()
    assert os.path.lexists(upper / "etc/gone")
    assert (frozen / "home/work").read_bytes() == b"done"


def test_the_same_image_is_the_same_bytes(store: Layers, tmp_path: Path) -> None:
    layers = chain(store, tmp_path)
    assert exported(store, layers, tmp_path).read_bytes() == exported(store, layers, tmp_path).read_bytes()


def test_every_blob_has_its_sum_for_a_name_and_nothing_of_this_machine_is_said(store: Layers, tmp_path: Path) -> None:
    path = exported(store, chain(store, tmp_path), tmp_path)
    with tarfile.open(path) as found:
        files = {item.name: found.extractfile(item) for item in found.getmembers() if item.isfile()}
        data = {name: file.read() for name, file in files.items() if file}
    blobs = {name: content for name, content in data.items() if name.startswith("blobs/")}
    assert len(blobs) == 5
    assert all(hashlib.sha256(content).hexdigest() == name.rpartition("/")[2] for name, content in blobs.items())
    whole = path.read_bytes()
    for word in (os.uname().nodename, os.fspath(tmp_path), os.environ.get("USER") or "no-such-user"):
        assert word.encode() not in whole


def test_a_layer_that_is_twice_in_a_chain_is_written_once(store: Layers, tmp_path: Path) -> None:
    lower, upper, _ = chain(store, tmp_path)
    with tarfile.open(exported(store, [lower, upper, lower], tmp_path)) as found:
        names = found.getnames()
    assert len(names) == len(set(names))


def test_all_its_names_are_in_it_or_none(store: Layers, tmp_path: Path) -> None:
    layers = chain(store, tmp_path)
    for tags in (("a:1", "b/c:2"), ("a:1",)):
        with tarfile.open(exported(store, layers, tmp_path, *tags)) as found:
            listed = json.loads(found.extractfile("manifest.json").read())  # type: ignore[union-attr]
            index = json.loads(found.extractfile("index.json").read())  # type: ignore[union-attr]
        assert listed[0]["RepoTags"] == [*tags]
        named = [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in index["manifests"]]
        assert named == [*tags]


def test_what_is_large_only_by_its_holes_is_refused_at_once(store: Layers, tmp_path: Path) -> None:
    upper = tmp_path / "sparse"
    upper.mkdir()
    with (upper / "hole").open("wb") as file:
        file.truncate(1 << 40)
    frozen = new_frozen_id()
    with store.lease() as lease:
        store.freeze(lease, os.fspath(upper), frozen, of_caller().ids)
    with pytest.raises(UserError, match="too large to be written out, at 'hole'") as caught:
        exported(store, [frozen], tmp_path)
    assert caught.value.code == "too-large"
    assert (tmp_path / "image.tar").stat().st_size == 0


def test_a_layer_that_changes_meanwhile_is_noticed(store: Layers, tmp_path: Path) -> None:
    layers = chain(store, tmp_path)
    place = Path(store.tree(layers[-1]), "home/work")
    with pytest.raises(UserError, match="changed while it was read"):
        export(store, [Picture(chain=tuple(layers[-1:]), config=CONFIG)], _After(place))


class _After:
    """Changes a file as soon as the header of its layer is written."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._left = 3

    def write(self, data: bytes, /) -> None:
        self._left -= 1
        if not self._left:
            self._place.write_bytes(b"else")


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
def test_skopeo_takes_an_export_and_we_take_what_skopeo_writes(store: Layers, tmp_path: Path, form: str) -> None:
    """skopeo is the library of podman, and docker-archive is the form that docker load reads."""
    need("skopeo")
    path = exported(store, chain(store, tmp_path), tmp_path)
    looked = json.loads(run("skopeo", "inspect", "--config", f"{form}:{path}", cwd=tmp_path))
    assert looked["config"]["User"] == "1000"
    assert len(looked["rootfs"]["diff_ids"]) == 3
    for other in ("docker-archive", "oci-archive"):
        copy = tmp_path / f"{other}.tar"
        target = f"{other}:{copy}:example.com/team:v2"
        run("skopeo", "--insecure-policy", "copy", f"{form}:{path}", target, cwd=tmp_path)
        elsewhere = Layers(os.fspath(tmp_path / f"from-{other}"))
        fd = os.open(copy, os.O_RDONLY)
        try:
            with ImageFile(fd, os.fspath(tmp_path)) as file, elsewhere.lease() as lease:
                (image,) = file.images()
                layers = file.load(image, elsewhere, lease, of_caller())
        finally:
            os.close(fd)
        assert Path(elsewhere.tree(layers[2]), "home/work").read_bytes() == b"done"


def test_umoci_unpacks_an_export_to_what_a_box_would_see(store: Layers, tmp_path: Path) -> None:
    need("skopeo")
    need("umoci")
    path = exported(store, chain(store, tmp_path), tmp_path)
    run("skopeo", "--insecure-policy", "copy", f"oci-archive:{path}", f"oci:{tmp_path}/layout:v1", cwd=tmp_path)
    run("umoci", "unpack", "--rootless", "--image", f"{tmp_path}/layout:v1", tmp_path / "bundle", cwd=tmp_path)
    root = tmp_path / "bundle/rootfs"
    assert (root / "etc/name").read_bytes() == b"upper"
    assert not os.path.lexists(root / "etc/gone")
    assert (root / "home/work").read_bytes() == b"done"


def test_an_image_that_umoci_made_is_loaded(store: Layers, tmp_path: Path) -> None:
    need("umoci")
    layout = tmp_path / "layout"
    run("umoci", "init", "--layout", layout, cwd=tmp_path)
    run("umoci", "new", "--image", f"{layout}:v1", cwd=tmp_path)
    run("umoci", "unpack", "--rootless", "--image", f"{layout}:v1", tmp_path / "bundle", cwd=tmp_path)
    (tmp_path / "bundle/rootfs/made").write_bytes(b"by umoci")
    run("umoci", "repack", "--image", f"{layout}:v1", tmp_path / "bundle", cwd=tmp_path)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as written:
        written.add(layout, ".")
    (tmp_path / "image.tar.gz").write_bytes(gzip.compress(packed.getvalue()))
    fd = os.open(tmp_path / "image.tar.gz", os.O_RDONLY)
    try:
        with ImageFile(fd, os.fspath(tmp_path)) as file, store.lease() as lease:
            (image,) = file.images()
            layers = file.load(image, store, lease, of_caller())
    finally:
        os.close(fd)
    assert Path(store.tree(layers[-1]), "made").read_bytes() == b"by umoci"


def test_several_images_are_one_file_and_without_names_of_the_host(store: Layers, tmp_path: Path) -> None:
    upper = tmp_path / "other"
    (upper / "home/me/project").mkdir(parents=True)
    (upper / "srv/full").mkdir(parents=True)
    (upper / "srv/full/file").write_bytes(b"x")
    os.chmod(upper / "srv/full/file", 0o600)
    frozen = new_frozen_id()
    with store.lease() as lease:
        store.freeze(lease, os.fspath(upper), frozen, of_caller().ids)
    unnamed = ("/home/me/project", "/srv/full", "/missing")
    pictures = [
        Picture(chain=(frozen,), config=CONFIG, tags=("one",), one_owner=True, unnamed=unnamed),
        Picture(chain=tuple(chain(store, tmp_path)), config=CONFIG, tags=("two",)),
    ]
    path = tmp_path / "both.tar"
    with path.open("wb") as file:
        export(store, pictures, file, for_docker=False)
    fd = os.open(path, os.O_RDONLY)
    try:
        with ImageFile(fd, os.fspath(tmp_path)) as found:
            assert [image.tags for image in found.images()] == [("one",), ("two",)]
            elsewhere = Layers(os.fspath(tmp_path / "elsewhere"))
            with elsewhere.lease() as lease:
                (layer,) = found.load(found.images()[0], elsewhere, lease, of_caller())
    finally:
        os.close(fd)
    assert sorted(os.listdir(elsewhere.tree(layer))) == ["srv"]
    assert (Path(elsewhere.tree(layer)) / "srv/full/file").read_bytes() == b"x"
