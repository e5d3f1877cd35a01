"""What a layer takes of the disk: it never changes, so it is measured once and written down beside it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from paddock import fs
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.images.layers import LayerId, Layers

    Measure = Callable[[str, int, float], tuple[int, bool]]

_FILE: Final = "size"
_FILE_BYTES: Final = 1 << 10
_MEASURE_ENTRIES, _MEASURE_S = 1_000_000, 5.0


def size(layers: Layers, layer: LayerId, measure: Measure = fs.tree_bytes) -> tuple[int, bool]:
    """Bytes, and whether that is all of it. May take some seconds, once."""
    known = known_size(layers, layer)
    if known is not None:
        return known
    place = os.path.dirname(layers.tree(layer))
    found = measure(place, _MEASURE_ENTRIES, _MEASURE_S)
    try:
        fs.write_atomic(f"{place}/{_FILE}", json.dumps(found).encode())
    except PaddockError:
        pass  # a full disk, say: it is measured again
    return found


def known_size(layers: Layers, layer: LayerId) -> tuple[int, bool] | None:
    """Without measuring; None if nobody has."""
    try:
        with open(f"{os.path.dirname(layers.tree(layer))}/{_FILE}", "rb") as file:
            number, is_whole = json.loads(file.read(_FILE_BYTES))
    except (OSError, ValueError, TypeError):
        return None
    return (number, bool(is_whole)) if isinstance(number, int) and number >= 0 else None
