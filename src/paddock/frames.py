"""Frames: the one byte format spoken on every socket of ours (docs/frames.md).

A frame is `length:u32 kind:u8 payload`, big-endian. Kind 0 carries one JSON object; the other kinds carry bytes of a
stream, and an empty payload ends that stream. `engines/guest/init.py` has its own copy of these few lines because it
must stay a single file.
"""

from __future__ import annotations

import json
import struct

from paddock.errors import Unavailable
from paddock.limits import FRAME_DATA_BYTES, FRAME_MESSAGE_BYTES

HEADER = struct.Struct("!IB")

MESSAGE = 0
STDIN = 1
STDOUT = 2
STDERR = 3
FILE = 4
KINDS = frozenset({MESSAGE, STDIN, STDOUT, STDERR, FILE})

Message = dict[str, object]


def encode(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


def encode_message(message: Message) -> bytes:
    payload = json.dumps(message, separators=(",", ":")).encode("utf-8")
    if len(payload) > FRAME_MESSAGE_BYTES:
        msg = f"message of {len(payload)} bytes is over the limit of {FRAME_MESSAGE_BYTES}"
        raise Unavailable(msg, code="protocol")
    return encode(MESSAGE, payload)


def decode_message(payload: bytes) -> Message:
    """Parse one JSON object; duplicate keys, NaN, deep nesting and anything that is no object are refused."""
    try:
        value = json.loads(payload.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _malformed("not a JSON object") from error
    if not isinstance(value, dict):
        raise _malformed("not a JSON object")
    return value


class Decoder:
    """Turns any chunking of bytes into frames, or raises once and stays failed."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __repr__(self) -> str:
        return f"<Decoder {len(self._buffer)} bytes pending>"

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        frames: list[tuple[int, bytes]] = []
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            length, kind = HEADER.unpack_from(self._buffer, start)
            if kind not in KINDS:
                raise _malformed(f"unknown frame kind {kind}")
            if length > (FRAME_MESSAGE_BYTES if kind == MESSAGE else FRAME_DATA_BYTES):
                raise _malformed(f"frame of {length} bytes")
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, bytes(self._buffer[start + HEADER.size : end])))
            start = end
        del self._buffer[:start]
        return frames

    @property
    def pending(self) -> int:
        return len(self._buffer)


def _malformed(what: str) -> Unavailable:
    return Unavailable(f"the peer sent malformed bytes: {what}", code="protocol")


def _refuse(constant: str) -> object:
    msg = f"constant {constant}"
    raise ValueError(msg)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        msg = "duplicate key"
        raise ValueError(msg)
    return value
