"""The envoy: a program that the runtime starts in a box whose init was put back from memory, to hand it a line."""

from __future__ import annotations

import socket

PLACE = "\0paddock-line"
LINE = 3  # the descriptor it was given
_ANSWER_S = 10.0


def main() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_ANSWER_S)
        sock.connect(PLACE)
        socket.send_fds(sock, [b"1"], [LINE])
        if sock.recv(1) != b"1":
            raise ConnectionRefusedError
