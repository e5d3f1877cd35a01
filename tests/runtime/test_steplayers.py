"""What a step leaves, as a layer."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container.removal import remove_tree
from paddock.errors import Unavailable, UserError
from paddock.images.build import CopyStep, DirectoryStep
from paddock.images.dockerignore import Dockerignore
from paddock.images.instructions import Copy
from paddock.images.layers import Layers
from paddock.runtime.steplayers import StepLayers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.container


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "context").mkdir()
    (tmp_path / "context/a").write_text("a")
    yield tmp_path
    remove_tree(str(tmp_path / "layers"))


def _never() -> None:
    pass


def test_a_box_leaves_its_changes_and_a_copy_its_files(place: Path) -> None:
    layers = Layers(str(place / "layers"))
    root = os.open(place / "context", os.O_RDONLY)
    try:
        with layers.lease() as lease:
            steps = StepLayers(layers, lease, root, Dockerignore(), _never)
            upper = steps.upper()
            os.makedirs(f"{upper}/run/paddock")
            with open(f"{upper}/made", "w", encoding="utf-8") as file:
                file.write("x")
            frozen = steps.frozen(upper)
            assert os.listdir(layers.tree(frozen)) == ["made"]
            directory = steps.directory([frozen], DirectoryStep(line=2, path="/srv/app", user=""))
            assert os.path.isdir(f"{layers.tree(directory)}/srv/app")
            copy = CopyStep(
                line=3, copy=Copy(line=3, sources=("a",), target="/srv/app/", chmod="600"), target="/srv/app/"
            )
            copied = steps.copied([frozen, directory], copy, steps.digest(copy))
            assert os.stat(f"{layers.tree(copied)}/srv/app/a").st_mode & 0o777 == 0o600
            assert steps.digest(copy) == steps.digest(copy)
            tree = steps.of_tree(root)
            assert os.listdir(layers.tree(tree)) == ["a"]
            assert os.listdir(lease.staging) == []
    finally:
        os.close(root)


def test_who_left_gets_no_layer(place: Path) -> None:
    def over() -> None:
        raise Unavailable("the build was interrupted", code="interrupted")

    layers = Layers(str(place / "layers"))
    root = os.open(place / "context", os.O_RDONLY)
    try:
        with layers.lease() as lease:
            steps = StepLayers(layers, lease, root, Dockerignore(), over)
            copy = CopyStep(line=3, copy=Copy(line=3, sources=("a",), target="/x/"), target="/x/")
            with pytest.raises(Unavailable, match="interrupted"):
                steps.copied([], copy, "")
            assert os.listdir(lease.staging) == []
        assert layers.whole() == []
    finally:
        os.close(root)


@pytest.mark.parametrize("is_add", [False, True])
def test_a_directory_that_changes_meanwhile_gives_no_layer_for_what_it_was(place: Path, is_add: bool) -> None:
    """Such a layer would be taken for every build of the files as they were."""
    with tarfile.open(place / "context/t.tar", "w") as archive:
        archive.add(place / "context/a", "a")
    changed = b"evil" + bytes(508)
    layers = Layers(str(place / "layers"))
    root = os.open(place / "context", os.O_RDONLY)
    try:
        with layers.lease() as lease:
            steps = StepLayers(layers, lease, root, Dockerignore(), _never)
            copy = CopyStep(line=3, copy=Copy(line=3, sources=("t.tar",), target="/x/", is_add=is_add), target="/x/")
            known = steps.digest(copy)
            assert os.listdir(f"{layers.tree(steps.copied([], copy, known))}/x") == ["a" if is_add else "t.tar"]
            before = layers.whole()
            data = (place / "context/t.tar").read_bytes()
            (place / "context/t.tar").write_bytes(data[:512] + changed + data[1024:])
            with pytest.raises(UserError, match="line 3: the build directory changed"):
                steps.copied([], copy, known)
            assert layers.whole() == before
            assert os.listdir(lease.staging) == []
    finally:
        os.close(root)
