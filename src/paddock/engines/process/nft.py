"""The rules of a sealed network as the bytes the kernel takes over netlink: no nft program at run time.

`rules.nft` beside this file says the same for people, `link.nft` what is added where a box has a network stack of its
own and comes in by a link; a test compares what the kernel makes of each. An expression below stands for what `nft
--debug=netlink` prints of it; register 1 carries values, register 0 verdicts.
"""

from __future__ import annotations

import os
import socket
import struct

from paddock import limits
from paddock.engines.process import netlink
from paddock.engines.process.netlink import attribute, nested, number, text

TABLE, DIVERT, FENCE = "paddock", "divert", "fence"
ENTER, GATE, ACROSS = "enter", "gate", "across"
_INET = 1  # the family of tables for IPv4 and IPv6
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_SUBSYSTEM << 8 | kind for kind in (0, 3, 6))
_PREROUTING, _INPUT, _FORWARD, _OUTPUT = range(4)
_DROP, _ACCEPT = 0, 1
_EQUAL, _DIFFERENT = 0, 1
_NETWORK, _TRANSPORT = 1, 2
_NFPROTO, _L4PROTO = 15, 16
_STATE, _STATUS = 0, 2  # of what is known of a connection
_ESTABLISHED_RELATED, _BENT = 6, 32
_TCP_RESET, _ICMPX, _PORT_UNREACHABLE, _ADMIN_PROHIBITED = 1, 2, 1, 3
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


def _tracked(what: int, bits: int) -> bytes:
    """Whether any of the bits is set in what is known of its connection."""
    mask = (nested(4, attribute(1, struct.pack("=I", bits))), nested(5, attribute(1, bytes(4))))
    chosen = _expression("bitwise", number(1, 1), number(2, 1), number(3, 4), *mask)
    return _expression("ct", number(2, what), number(1, 1)) + chosen + _compare(_DIFFERENT, bytes(4))


def _reject(kind: int, code: int) -> bytes:
    return _expression("reject", number(1, kind), attribute(2, bytes([code])))


_IPV4, _IPV6 = _is(_NFPROTO, socket.AF_INET), _is(_NFPROTO, socket.AF_INET6)
_TCP, _UDP = _is(_L4PROTO, socket.IPPROTO_TCP), _is(_L4PROTO, socket.IPPROTO_UDP)
_LOOPBACK4 = _payload(_NETWORK, 16, 1), b"\x7f"
_LOOPBACK6 = _payload(_NETWORK, 24, 16) + _compare(_EQUAL, socket.inet_pton(socket.AF_INET6, "::1"))
_PORT_53 = _payload(_TRANSPORT, 2, 2) + _compare(_EQUAL, struct.pack(">H", 53))
_KNOWN = _tracked(_STATE, _ESTABLISHED_RELATED)
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


_LINK_RULES = (
    (ENTER, _IPV4 + _UDP + _PORT_53 + _redirect(limits.SEAL_DNS_PORT)),
    (ENTER, _IPV4 + _TCP + _redirect(limits.SEAL_TCP_PORT)),
    (GATE, _KNOWN + _TAKE),
    (GATE, _tracked(_STATUS, _BENT) + _TAKE),
    (GATE, _TCP + _reject(_TCP_RESET, 0)),
    (GATE, _reject(_ICMPX, _PORT_UNREACHABLE)),  # what programs on gVisor's stack hear of; not so of the other
)


def _chain(name: str, kind: str, hook: int, priority: int, policy: int) -> bytes:
    place = nested(4, number(1, hook), number(2, priority))
    return text(1, TABLE) + text(3, name) + text(7, kind) + number(5, policy) + place


_CHAINS = (_chain(DIVERT, "nat", _OUTPUT, -100, _ACCEPT), _chain(FENCE, "filter", _OUTPUT, 0, _DROP))
_LINK_CHAINS = (
    _chain(ENTER, "nat", _PREROUTING, -100, _ACCEPT),
    _chain(GATE, "filter", _INPUT, 0, _DROP),
    _chain(ACROSS, "filter", _FORWARD, 0, _DROP),
)


def _batch(table: int, chains: tuple[bytes, ...], rules: tuple[tuple[str, bytes], ...]) -> tuple[bytes, int]:
    """All messages, which take effect together or not at all, and the number of the last that is answered."""
    parts = [(_NEW_TABLE, netlink.CREATE | table, text(1, TABLE) + number(2, 0))]
    parts += [(_NEW_CHAIN, netlink.CREATE, chain) for chain in chains]
    for chain, expressions in rules:
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


BATCH, _LAST = _batch(netlink.EXCL, _CHAINS, _RULES)
LINK_BATCH, _LINK_LAST = _batch(0, _LINK_CHAINS, _LINK_RULES)


def readable(*, link: bool = False) -> list[str]:
    """The rules as a person writes them, line by line."""
    lines: list[str] = []
    for name in ("rules.nft", "link.nft") if link else ("rules.nft",):
        with open(os.path.join(os.path.dirname(__file__), name), encoding="ascii") as file:
            lines += [line.strip() for line in file]
    return [line for line in lines if line.strip("}") and not line.startswith("#")]


def load() -> None:
    """Put the rules into the network namespace of the caller, who needs CAP_NET_ADMIN in its owner."""
    netlink.exchange(netlink.NETFILTER, BATCH, _LAST)


def load_link() -> None:
    """Add those for what comes in by a link, before there is one."""
    netlink.exchange(netlink.NETFILTER, LINK_BATCH, _LINK_LAST)
