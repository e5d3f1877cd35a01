"""A model's answers over a websocket (RFC 6455), as OpenAI's service has it: each message is a request or an event."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase

    Answering = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]

_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _CLOSE, _PING, _PONG = 0, 1, 8, 9, 10
_LONG, _LONGER = 126, 127


def accept(key: str) -> str:
    """What proves that the server understood."""
    return base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()


def converse(reader: BufferedIOBase, writer: BufferedIOBase, answer: Answering) -> None:
    """Until the client goes."""
    for message in _messages(reader, writer):
        for event in answer(json.loads(message)):
            _send(writer, _TEXT, json.dumps(event).encode())


def _messages(reader: BufferedIOBase, writer: BufferedIOBase) -> Iterator[bytes]:
    parts: list[bytes] = []
    while (frame := _frame(reader)) is not None:
        last, kind, data = frame
        if kind == _CLOSE:
            _send(writer, _CLOSE, data)
            return
        if kind == _PING:
            _send(writer, _PONG, data)
        elif kind in {_CONTINUED, _TEXT}:
            parts.append(data)
            if last:
                yield b"".join(parts)
                parts.clear()


def _frame(reader: BufferedIOBase) -> tuple[bool, int, bytes] | None:
    head = reader.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 0x7F
    if size == _LONG:
        (size,) = struct.unpack(">H", reader.read(2))
    elif size == _LONGER:
        (size,) = struct.unpack(">Q", reader.read(8))
    mask = reader.read(4)  # of every client
    data = reader.read(size)
    pad = (mask * (size // 4 + 1))[:size]
    plain = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
    return bool(head[0] & 0x80), head[0] & 0x0F, plain


def _send(writer: BufferedIOBase, kind: int, data: bytes) -> None:
    size = bytes([len(data)]) if len(data) < _LONG else bytes([_LONG]) + struct.pack(">H", len(data))
    writer.write(bytes([0x80 | kind]) + size + data)
    writer.flush()
