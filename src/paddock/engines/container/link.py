"""The network of a box that has a network stack of its own (gVisor's), tied to a sealed one by a link.

Theory. Such a box takes packets from an interface of a namespace that it alone has. That interface is one end of a
pair; the other end lies in the sealed namespace, where the rules of nft.py bend what comes in to the gateway's two
sockets and refuse the rest (`link.nft`). No process of the box is in the sealed namespace, and nothing leads from one
to the other but this pair. Runs in the keeper, with the capabilities of the box's outer user namespace, which owns
both.

The three attempts to get out that every seal is proven by (seal.Check) are made from the box's end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import time

from paddock import limits
from paddock.engines.process import kernel, netlink, nft, seal
from paddock.engines.process.netlink import attribute, nested, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.engines.guest.door import Seal

OURS, THEIRS = limits.LINK_ADDRESS, limits.LINK_BOX_ADDRESS
_NAMES = ("box0", "eth0")
_NUMBERS = (3, 7)  # two, or the kernel would take its time, up to a second, to tell one that the other is there
_HARDWARE = (b"\x02\x00\x00\x00\x07\x01", b"\x02\x00\x00\x00\x07\x02")  # the same in all: a saved stack remembers them
_MASK = "255.255.255.252"
_PREFIX_BITS = 30
_SET_ADDRESS, _SET_MASK, _SET_FLAGS = 0x8916, 0x891C, 0x8914
_LOOK_S = 0.001
_UP_RUNNING = 0x41
_NEW_LINK, _GET_LINK, _NEW_ROUTE = 16, 18, 24
_STATE, _STATE_UP = 16, 6
_REPLY_BYTES, _REPLY_HEAD_BYTES = 16 * 1024, 32
_FLAGS = netlink.ACK | netlink.CREATE | netlink.EXCL
_HARDWARE_ADDRESS, _NAME, _INFO, _NAMESPACE = 1, 3, 18, 28
_KIND, _DATA, _PEER = 1, 2, 1
_TABLE_LOCAL, _TABLE_MAIN, _PROTOCOL_BOOT, _UNICAST, _SCOPE_LINK, _SCOPE_ALL = 255, 254, 3, 1, 253, 0
_TO, _OUT, _VIA = 1, 4, 5


def make(door: int) -> tuple[Seal, int, seal.Check]:
    """Seal a network that was closed off and tie a second one to it; returns the seal, that network, and its check."""
    sealed = _here()
    made = seal.make(door, [], OURS)
    nft.load_link()  # before there is anything that could come in
    kernel.unshare(kernel.CLONE_NEWNET)
    box = _here()
    kernel.join(sealed, kernel.CLONE_NEWNET)
    _pair(box)
    _bring_up(_NAMES[0], OURS)
    kernel.join(box, kernel.CLONE_NEWNET)
    seal.close_off()
    _bring_up(_NAMES[1], THEIRS)
    kernel.join(sealed, kernel.CLONE_NEWNET)
    _await_peer(_NUMBERS[0])
    # Everything is local in a sealed network; not so who asks, or no answer would find them.
    _route(_TABLE_LOCAL, _NAMES[0], to=(_network(), _PREFIX_BITS))
    kernel.join(box, kernel.CLONE_NEWNET)
    _route(_TABLE_MAIN, _NAMES[1], via=OURS)
    check = Check()
    kernel.join(sealed, kernel.CLONE_NEWNET)
    os.close(sealed)
    return made, box, check


def try_out() -> None:
    """OSError where the kernel has no such pairs. The caller is a process that is good for nothing else afterwards."""
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    _pair(_here())


class Check(seal.Check):
    """From outside of the sealed network a refusal comes as an answer, and not as an error of the call."""

    def _datagram(self) -> None:
        self._refused = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._refused.connect(seal.REFUSED)
        self._refused.send(b"x")

    def finish(self) -> None:
        super().finish()
        self._await(self._refused, "a datagram")
        code = self._refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._refused.close()
        if code != errno.ECONNREFUSED:
            raise OSError(errno.EPERM, "the seal is broken: a datagram was not refused")


def _here() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _pair(box: int) -> None:
    """EOPNOTSUPP where the kernel has none."""
    ours, theirs = (
        struct.pack("=BxHiII", socket.AF_UNSPEC, 0, number, 0, 0)
        + attribute(_HARDWARE_ADDRESS, address)
        + text(_NAME, name)
        for number, address, name in zip(_NUMBERS, _HARDWARE, _NAMES, strict=True)
    )
    peer = nested(_PEER, theirs + attribute(_NAMESPACE, struct.pack("=i", box)))
    body = ours + nested(_INFO, text(_KIND, "veth"), nested(_DATA, peer))
    netlink.exchange(netlink.ROUTE, netlink.message(_NEW_LINK, _FLAGS, 1, body), 1)


def _bring_up(name: str, address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for request, value in ((_SET_ADDRESS, address), (_SET_MASK, _MASK)):
            place = struct.pack("16sH2x4s8x", name.encode(), socket.AF_INET, socket.inet_aton(value))
            fcntl.ioctl(sock, request, place)
        fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sH14x", name.encode(), _UP_RUNNING))


def _await_peer(number: int) -> None:
    """The end that came up first hears of the other a moment later, and what it sends before that is lost. A route is
    added after what the kernel does then: both hold the same lock.
    """
    deadline_s = time.monotonic() + limits.SEAL_CHECK_S
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, netlink.ROUTE) as sock:
        sock.settimeout(limits.SEAL_CHECK_S)
        while _state(sock, number) != _STATE_UP:
            if time.monotonic() > deadline_s:
                raise OSError(errno.ETIMEDOUT, "the link does not come up")
            time.sleep(_LOOK_S)


def _state(sock: socket.socket, number: int) -> int:
    """Of an interface, as the kernel has made it known; -1 if it says nothing."""
    sock.send(netlink.message(_GET_LINK, 0, 1, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, number, 0, 0)))
    rest = sock.recv(_REPLY_BYTES)[_REPLY_HEAD_BYTES:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if kind == _STATE:
            return rest[4]
        rest = rest[max(4, length + -length % 4) :]
    return -1


def _route(table: int, name: str, *, to: tuple[bytes, int] = (b"", 0), via: str = "") -> None:
    target, bits = to
    scope = _SCOPE_ALL if via else _SCOPE_LINK
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, bits, 0, 0, table, _PROTOCOL_BOOT, scope, _UNICAST, 0)
    body = head + attribute(_OUT, struct.pack("=i", socket.if_nametoindex(name)))
    body += attribute(_TO, target) if target else b""
    body += attribute(_VIA, socket.inet_aton(via)) if via else b""
    netlink.exchange(netlink.ROUTE, netlink.message(_NEW_ROUTE, _FLAGS, 1, body), 1)


def _network() -> bytes:
    return struct.pack(">I", struct.unpack(">I", socket.inet_aton(OURS))[0] & (~0 << 32 - _PREFIX_BITS) & 0xFFFFFFFF)
