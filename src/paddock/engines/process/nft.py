"""The rules of a sealed network as the bytes the kernel takes over netlink: no nft program at run time.

`rules.nft` beside this file says the same for people, and a test compares what the kernel makes of the two. An
expression below stands for what `nft --debug=netlink` prints of it; register 1 carries values, register 0 verdicts.
"""

from __future__ import annotations

import os
import socket
import struct

from paddock import limits
from paddock.engines.process import netlink
from paddock.engines.process.netlink import attribute, nested, number, text

TABLE, DIVERT, FENCE = "paddock", "divert", "fence"
_INET = 1  # the family of tables for IPv4 and IPv6
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_SUBSYSTEM << 8 | kind for kind in (0, 3, 6))
_OUTPUT = 3
_DROP, _ACCEPT = 0, 1
_EQUAL, _DIFFERENT = 0, 1
_NETWORK, _TRANSPORT = 1, 2
_NFPROTO, _L4PROTO = 15, 16
_ESTABLISHED_RELATED = 6
_TCP_RESET, _ICMPX, _ADMIN_PROHIBITED = 1, 2, 3
_PROTO_SPECIFIED = 2


def _expression(name: str, *data: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *data))


def _meta(key: int) -> bytes:
    return _expression("meta", number(2, key), number(1, 1))


def _compare(how: int, value: bytes) -> bytes:
    return _expression("cmp", number(1, 1), number(2, how), nested(3, attribute(1, value)))


def _payload(base: int, offset: int, size: int) -> bytes:
    return _expression("payload", number(1, 1), number(2, base), number(3, offset), number(4, size))


def _is(key: int, value: int) -> bytes:
    return _meta(key) + _compare(_EQUAL, bytes([value]))


def _redirect(port: int) -> bytes:
    value = _expression("immediate", number(1, 1), nested(2, attribute(1, struct.pack(">H", port))))
    return value + _expression("redir", number(1, 1), number(3, _PROTO_SPECIFIED))


def _reject(kind: int, code: int) -> bytes:
    return _expression("reject", number(1, kind), attribute(2, bytes([code])))


_IPV4, _IPV6 = _is(_NFPROTO, socket.AF_INET), _is(_NFPROTO, socket.AF_INET6)
_TCP, _UDP = _is(_L4PROTO, socket.IPPROTO_TCP), _is(_L4PROTO, socket.IPPROTO_UDP)
_LOOPBACK4 = _payload(_NETWORK, 16, 1), b"\x7f"
_LOOPBACK6 = _payload(_NETWORK, 24, 16) + _compare(_EQUAL, socket.inet_pton(socket.AF_INET6, "::1"))
_PORT_53 = _payload(_TRANSPORT, 2, 2) + _compare(_EQUAL, struct.pack(">H", 53))
_KNOWN = (
    _expression("ct", number(2, 0), number(1, 1))
    + _expression(
        "bitwise",
        *(number(1, 1), number(2, 1), number(3, 4)),
        nested(4, attribute(1, struct.pack("=I", _ESTABLISHED_RELATED))),
        nested(5, attribute(1, bytes(4))),
    )
    + _compare(_DIFFERENT, bytes(4))
)
_TAKE = _expression("immediate", number(1, 0), nested(2, nested(2, number(1, _ACCEPT))))

_RULES = (
    (DIVERT, _IPV4 + _UDP + _PORT_53 + _redirect(limits.SEAL_DNS_PORT)),
    (DIVERT, _IPV4 + _LOOPBACK4[0] + _compare(_DIFFERENT, _LOOPBACK4[1]) + _TCP + _redirect(limits.SEAL_TCP_PORT)),
    (FENCE, _KNOWN + _TAKE),
    (FENCE, _IPV4 + _LOOPBACK4[0] + _compare(_EQUAL, _LOOPBACK4[1]) + _TAKE),
    (FENCE, _IPV6 + _LOOPBACK6 + _TAKE),
    (FENCE, _TCP + _reject(_TCP_RESET, 0)),
    (FENCE, _reject(_ICMPX, _ADMIN_PROHIBITED)),
)


def _chain(name: str, kind: str, priority: int, policy: int) -> bytes:
    hook = nested(4, number(1, _OUTPUT), number(2, priority))
    return text(1, TABLE) + text(3, name) + text(7, kind) + number(5, policy) + hook


def _batch() -> tuple[bytes, int]:
    """All messages, which take effect together or not at all, and the number of the last that is answered."""
    parts = [(_NEW_TABLE, netlink.CREATE | netlink.EXCL, text(1, TABLE) + number(2, 0))]
    parts.append((_NEW_CHAIN, netlink.CREATE, _chain(DIVERT, "nat", -100, _ACCEPT)))
    parts.append((_NEW_CHAIN, netlink.CREATE, _chain(FENCE, "filter", 0, _DROP)))
    for chain, expressions in _RULES:
        body = text(1, TABLE) + text(2, chain) + nested(4, expressions)
        parts.append((_NEW_RULE, netlink.CREATE | netlink.APPEND, body))
    edge = struct.pack(">BBH", 0, 0, _SUBSYSTEM)
    head = struct.pack(">BBH", _INET, 0, 0)
    last = len(parts)
    messages = [netlink.message(_BATCH_BEGIN, 0, 0, edge)]
    for place, (kind, flags, body) in enumerate(parts, 1):
        messages.append(netlink.message(kind, flags | (netlink.ACK if place == last else 0), place, head + body))
    messages.append(netlink.message(_BATCH_END, 0, last + 1, edge))
    return b"".join(messages), last


BATCH, _LAST = _batch()


def readable() -> list[str]:
    """The rules as a person writes them, line by line."""
    with open(os.path.join(os.path.dirname(__file__), "rules.nft"), encoding="ascii") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line.strip("}") and not line.startswith("#")]


def load() -> None:
    """Put the rules into the network namespace of the caller, who needs CAP_NET_ADMIN in its owner."""
    netlink.exchange(netlink.NETFILTER, BATCH, _LAST)
