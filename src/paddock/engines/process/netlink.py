"""Netlink, as far as a sealed network needs it: attributes, messages, and an exchange that ends with a verdict.

Imported by the launcher, which is forked for every box: only light modules here.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

ROUTE, NETFILTER = 0, 12  # protocols
REQUEST, ACK, EXCL, CREATE, APPEND = 0x1, 0x4, 0x200, 0x400, 0x800  # flags of a message
_ERROR = 2
_NESTED = 0x8000
_HEADER = struct.Struct("=IHHII")
_REPLY_BYTES = 16 * 1024
_ANSWER_S = 5.0  # the kernel answers before send() returns


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(parts))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """A 32-bit number in network order, as netfilter wants it."""
    return attribute(kind, struct.pack(">i", value))


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags | REQUEST, sequence, 0) + body


def exchange(protocol: int, data: bytes, last: int) -> None:
    """Send messages and wait for the answer to the one numbered `last`; raises the first error there is."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as sock:
        sock.settimeout(_ANSWER_S)
        sock.send(data)
        while not answered(sock.recv(_REPLY_BYTES), last):
            pass


def answered(reply: bytes, last: int) -> bool:
    """Is message number `last` acknowledged here? Raises when any was refused."""
    done = False
    while len(reply) >= _HEADER.size + 4:
        length, kind, _, sequence, _ = _HEADER.unpack_from(reply)
        if not _HEADER.size + 4 <= length <= len(reply):
            raise OSError(errno.EBADMSG, "a netlink answer that ends too early")
        if kind == _ERROR:
            (code,) = struct.unpack_from("=i", reply, _HEADER.size)
            if code:
                raise OSError(-code, f"netlink message {sequence}: {os.strerror(-code)}")
            done |= sequence == last
        reply = reply[length + -length % 4 :]
    return done
