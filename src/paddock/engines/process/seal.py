"""A sealed network: only loopback, every way out of it bent to two sockets, which are the gateway's.

Runs in the new box while it still has the capabilities of its outer user namespace. A box that is not given a door has
its loopback and nothing else. Otherwise the whole of IPv4 is local, so that every connection has somewhere to start;
nftables turns TCP to one listener and questions for names to one socket, and refuses the rest at once. Both sockets
leave by the door. Before a box comes up it proves three things by doing them (`Check`): they are tried right after
sealing and heard at the end, so that the gateway answers while the box is still being built.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import time

from paddock import limits
from paddock.engines.guest.door import BACKLOG, Seal
from paddock.engines.process import netlink, nft

_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x41
_UNROUTABLE = ("198.51.100.1", 9)  # TEST-NET-2: no sealed namespace has a route to it
REFUSED = ("192.0.2.1", 9)  # TEST-NET-1: whatever the policy, no box may reach it
_DENIED_NAME = b"\x06denied\x07paddock\x00"  # no policy allows a name under .paddock

_NEW_ROUTE = 24
_TABLE_LOCAL, _PROTOCOL_BOOT, _SCOPE_HOST, _LOCAL = 255, 3, 254, 2
_OUT_INTERFACE = 4
_LOOPBACK_INDEX = 1  # of `lo` in every network namespace
_ROUTE_FLAGS = netlink.ACK | netlink.CREATE | netlink.EXCL
_ROUTE = netlink.message(
    _NEW_ROUTE,
    _ROUTE_FLAGS,
    1,
    struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, _TABLE_LOCAL, _PROTOCOL_BOOT, _SCOPE_HOST, _LOCAL, 0)
    + netlink.attribute(_OUT_INTERFACE, struct.pack("=i", _LOOPBACK_INDEX)),
)


def close_off() -> None:
    """Loopback only. Then prove it: no route may exist to anywhere else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))
        try:
            probe.connect(_UNROUTABLE)
        except OSError as error:
            if error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH}:
                return
            raise
    msg = "the network namespace has a way out"
    raise OSError(errno.EPERM, msg)


def make(door: int, ports: list[int], address: str = "127.0.0.1") -> Seal:
    """Seal a network that was closed off, and hand the gateway its sockets through `door`, which becomes the seal's.

    `address` is the gateway's there.
    """
    nft.load()  # before the route: there is no moment in which something could leave unseen
    netlink.exchange(netlink.ROUTE, _ROUTE, 1)
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    tcp.bind((address, limits.SEAL_TCP_PORT))
    tcp.listen(BACKLOG)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    # Not 0.0.0.0: an answer would choose the address of whoever asked as its source, and be refused.
    udp.bind((address, limits.SEAL_DNS_PORT))
    seal = Seal(tcp, udp, socket.socket(fileno=door))
    for port in ports:
        seal.listen(port)
    seal.announce(seal.door)
    return seal


class Check:
    """Three attempts to get out: a datagram, a name nobody may have, a connection to an address nobody may reach."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + limits.SEAL_CHECK_S
        self._datagram()
        self._id = os.urandom(2)
        self._name = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        question = _DENIED_NAME + struct.pack(">HH", 1, 1)
        self._query = self._id + struct.pack(">HHHHH", 0x0100, 1, 0, 0, 0) + question
        self._name.connect((limits.GATEWAY_ADDRESS, 53))
        self._name.send(self._query)
        self._direct = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        code = self._direct.connect_ex(REFUSED)
        if code not in {0, errno.EINPROGRESS}:
            raise OSError(code, f"a direct connection went wrong: {os.strerror(code)}")

    def _datagram(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
            try:
                sock.sendto(b"x", REFUSED)
            except PermissionError:
                return
        raise OSError(errno.EPERM, "the seal is broken: a datagram was let out")

    def finish(self) -> None:
        """Raises unless all three were refused in the way they must be."""
        self._hear_name()
        self._hear_direct()
        self._name.close()
        self._direct.close()

    def _hear_name(self) -> None:
        self._await(self._name, "a question for a denied name")
        data = self._name.recv(512)
        if not is_refusal(self._query, data):
            raise OSError(errno.EPERM, "the seal is broken: a denied name was not answered with the refusal address")

    def _hear_direct(self) -> None:
        self._await(self._direct, "a direct connection")
        try:
            data = self._direct.recv(1)
        except ConnectionResetError:
            return
        if data:
            raise OSError(errno.EPERM, "the seal is broken: a direct connection was let out")

    def _await(self, sock: socket.socket, what: str) -> None:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise OSError(errno.ETIMEDOUT, f"the gateway does not answer: {what} was neither let out nor refused")


def is_refusal(query: bytes, answer: bytes) -> bool:
    """Is this the answer to our question, with the refusal address and no other? One record, which ends it but EDNS."""
    if len(answer) < len(query) or answer[:2] != query[:2]:
        return False
    flags, questions, answers = struct.unpack_from(">HHH", answer, 2)
    if not flags & 0x8000 or flags & 0x000F or (questions, answers) != (1, 1) or answer[12 : len(query)] != query[12:]:
        return False
    record = answer[len(query) :]
    owner = record[:2] if record[:1] and record[0] & 0xC0 == 0xC0 else record[: len(_DENIED_NAME)]
    if owner not in {b"\xc0\x0c", _DENIED_NAME}:
        return False
    rest = record[len(owner) :]
    wanted = socket.inet_aton(limits.REFUSAL_ADDRESS)
    return rest[:4] == b"\0\1\0\1" and rest[8:10] == b"\0\4" and rest[10:14] == wanted
