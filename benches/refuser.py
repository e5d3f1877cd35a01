"""The least a gateway can be: a process of its own that takes doors and refuses everything, so that boxes start."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from typing import TYPE_CHECKING

from paddock import fs, limits

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Refuser:
    def __enter__(self) -> Self:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            try:
                _serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def door(self) -> socket.socket:
        """A box's end of a new door."""
        gateway, box = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with gateway:
            socket.send_fds(self._ours, [b"door"], [gateway.fileno()])
        return box


def _serve(control: socket.socket) -> None:
    while True:
        data, fds = fs.receive_fds(control, 16, 1)
        if not data:
            return
        with socket.socket(fileno=fds[0]) as door:
            data, fds = fs.receive_fds(door, 64, 2)
            if data:
                _refuse(door, socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1]))


def _refuse(door: socket.socket, tcp: socket.socket, udp: socket.socket) -> None:
    """One box after another: until this one is gone."""
    with tcp, udp:
        while True:
            ready = select.select([door, tcp, udp], [], [])[0]
            if tcp in ready:
                with tcp.accept()[0] as peer:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if udp in ready:
                query, peer_address = udp.recvfrom(512)
                record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(limits.REFUSAL_ADDRESS)
                udp.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + query[12:] + record, peer_address)
            if door in ready:
                return
