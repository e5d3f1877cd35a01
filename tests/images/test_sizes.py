"""A layer is measured once, and what is written down of it is not believed blindly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.images import sizes
from paddock.images.layers import LayerId, Layers, new_frozen_id

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    tmp_path.chmod(0o700)
    return Layers(os.fspath(tmp_path / "layers"))


def frozen(layers: Layers, tmp_path: Path, size_bytes: int) -> LayerId:
    (tmp_path / "upper").mkdir()
    (tmp_path / "upper/file").write_bytes(b"x" * size_bytes)
    layer = new_frozen_id()
    with layers.lease() as lease:
        layers.freeze(lease, os.fspath(tmp_path / "upper"), layer, 0)
    return layer


def test_it_is_measured_when_somebody_asks_and_then_known(layers: Layers, tmp_path: Path) -> None:
    layer = frozen(layers, tmp_path, 100_000)
    assert sizes.known_size(layers, layer) is None
    found, is_whole = sizes.size(layers, layer)
    assert found > 100_000
    assert is_whole
    assert sizes.known_size(layers, layer) == (found, True)
    with open(f"{layers.tree(layer)}/more", "wb") as file:
        file.write(b"x" * 50_000)
    assert sizes.size(layers, layer) == (found, True), "it is not measured again"


@pytest.mark.parametrize("text", ["", "[", "[-1, true]", '["x", true]', "[1]", "5", "[1.5, true]"])
def test_what_is_no_size_is_measured_again(layers: Layers, tmp_path: Path, text: str) -> None:
    layer = frozen(layers, tmp_path, 1000)
    with open(f"{os.path.dirname(layers.tree(layer))}/size", "w", encoding="ascii") as file:
        file.write(text)
    assert sizes.known_size(layers, layer) is None
    assert sizes.size(layers, layer)[0] > 1000
