"""The same layer for another user of a caller with subordinate ids."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container.removal import remove_tree
from paddock.images.layers import Layers
from paddock.runtime import forms, unpacking
from tests.runtime.test_templates import _tar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.images.layers import LayerId

pytestmark = pytest.mark.container


class _Catalogue:
    def __init__(self) -> None:
        self.known: dict[str, LayerId] = {}

    def step(self, key: str) -> LayerId | None:
        return self.known.get(key)

    def keep_step(self, key: str, layer: LayerId) -> None:
        self.known[key] = layer


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Layers]:
    yield Layers(str(tmp_path / "layers"))
    remove_tree(str(tmp_path / "layers"))


def test_there_and_back_is_the_same(layers: Layers, tmp_path: Path) -> None:
    (tmp_path / "one.tar").write_bytes(_tar({"file": b"x", "bin/tool": b"y"}))
    catalogue = _Catalogue()
    with layers.lease() as lease:
        first = forms.added(layers, lease, str(tmp_path / "one.tar"))
        (there,) = forms.fitted(layers, lease, catalogue, [first], forms.ROOT, (1000, 1000))  # type: ignore[arg-type]
        (back,) = forms.fitted(layers, lease, catalogue, [there], (1000, 1000), forms.ROOT)  # type: ignore[arg-type]
        (again,) = forms.fitted(layers, lease, catalogue, [first], forms.ROOT, (1000, 1000))  # type: ignore[arg-type]
        assert again == there
        if not unpacking.is_mapped():
            assert (there, back, catalogue.known) == (first, first, {}), "there is one form of it"
            return
        assert there != first
        owners = {layer: os.lstat(f"{layers.tree(layer)}/file").st_uid for layer in (first, there, back)}
        assert owners[first] == owners[back] == os.getuid(), "root's files are the caller's on disk"
        assert owners[there] != os.getuid(), "and for another user's boxes they are not"
