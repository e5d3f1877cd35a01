"""Content encodings of an answer. The gateway asks for none; a server that compresses all the same is read if it is
gzip or deflate, within a bound: what a few bytes unfold to is nobody's to choose but ours.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from paddock.limits import METER_UNFOLDED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 64 * 1024
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Decoder:
    """`readable` turns False for good when the encoding is unknown, its bytes are broken, or it unfolds to too much."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        self.readable = name in {"", "identity", *_WINDOWS}
        self._unfold = zlib.decompressobj(_WINDOWS[name]) if name in _WINDOWS else None
        self._left = METER_UNFOLDED_BYTES

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What it unfolds to, in pieces."""
        if self._unfold is None:
            if self.readable:
                yield data
            return
        while data and self.readable:
            try:
                piece = self._unfold.decompress(data, _PIECE_BYTES)
            except zlib.error:
                self.readable = False
                return
            data = self._unfold.unconsumed_tail
            self._left -= len(piece)
            self.readable = self._left >= 0
            yield piece
