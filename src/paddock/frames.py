"""Frames: the one byte format spoken on every socket of ours (docs/frames.md).

A frame is `length:u32 kind:u8 payload`, big-endian. Kind 0 carries one JSON object; the other kinds carry bytes of a
stream; an empty payload ends standard input or a file. `engines/guest/wire.py` has its own copy of these few lines
because init imports nothing else of ours.
"""

from __future__ import annotations

import json
import struct

from paddock.errors import Unavailable
from paddock.limits import FRAME_DATA_BYTES, FRAME_MESSAGE_BYTES, FRAME_NESTING

HEADER = struct.Struct("!IB")

MESSAGE = 0
STDIN = 1
STDOUT = 2
STDERR = 3
FILE = 4
KINDS = frozenset({MESSAGE, STDIN, STDOUT, STDERR, FILE})

Message = dict[str, object]


def encode(kind: int, payload: bytes) -> bytes:
    """One frame, or Unavailable for what the peer's decoder would refuse."""
    if len(payload) > _limit(kind):
        raise Unavailable(f"frame of {len(payload)} bytes is over the limit of {_limit(kind)}", code="protocol")
    return HEADER.pack(len(payload), kind) + payload


def encode_message(message: Message) -> bytes:
    try:
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise Unavailable(f"the message cannot be sent: {error}", code="protocol") from error
    return encode(MESSAGE, text.encode("utf-8"))


def decode_message(payload: bytes) -> Message:
    """Parse one JSON object; duplicate keys, NaN, infinity, deep nesting and anything that is no object are refused."""
    try:
        value = json.loads(
            payload.decode("utf-8"), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique
        )
    except (ValueError, RecursionError) as error:
        raise _malformed("not a JSON object") from error
    if not isinstance(value, dict):
        raise _malformed("not a JSON object")
    # Few brackets cannot nest deep, so most messages are not walked.
    if payload.count(b"[") + payload.count(b"{") > FRAME_NESTING and not _shallow(value, FRAME_NESTING):
        raise _malformed("nested too deep")
    return value


class Decoder:
    """Turns any chunking of bytes into the same frames; after the first malformed one every feed raises."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._failure = ""

    def __repr__(self) -> str:
        return f"<Decoder {self._failure or f'{len(self._buffer)} bytes pending'}>"

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames completed by `data`. Those before a malformed one are still delivered: the next feed raises."""
        frames: list[tuple[int, bytes]] = []
        if not self._failure:
            self._buffer += data
            self._take(frames)
        if self._failure and not frames:
            raise _malformed(self._failure)
        return frames

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def _take(self, frames: list[tuple[int, bytes]]) -> None:
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            length, kind = HEADER.unpack_from(self._buffer, start)
            if kind not in KINDS or length > _limit(kind):
                self._failure = f"frame of kind {kind} and {length} bytes"
                self._buffer.clear()
                return
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, bytes(self._buffer[start + HEADER.size : end])))
            start = end
        del self._buffer[:start]


def _limit(kind: int) -> int:
    return FRAME_MESSAGE_BYTES if kind == MESSAGE else FRAME_DATA_BYTES


def _malformed(what: str) -> Unavailable:
    return Unavailable(f"the peer sent malformed bytes: {what}", code="protocol")


def _refuse(constant: str) -> object:
    msg = f"constant {constant}"
    raise ValueError(msg)


def _finite(digits: str) -> float:
    value = float(digits)
    if value in {float("inf"), float("-inf")}:  # 1e999: a number that could not be sent back
        raise ValueError(digits)
    return value


def _shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels > 0 and all(_shallow(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_shallow(item, levels - 1) for item in value)
    return True


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        msg = "duplicate key"
        raise ValueError(msg)
    return value
