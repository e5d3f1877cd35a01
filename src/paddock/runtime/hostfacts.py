"""What the jailed gateway cannot look up: name servers, /etc/hosts, the user's own proxy, the host's addresses."""

from __future__ import annotations

import ipaddress
import logging
import socket
import struct
from typing import TYPE_CHECKING

from paddock.gateway.control import HostFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

log = logging.getLogger(__name__)
RESOLV_CONF, HOSTS = "/etc/resolv.conf", "/etc/hosts"
_NAMESERVERS_MAX = 3  # as the C library
_HOSTS_MAX = 20_000
_FILE_BYTES = 4 << 20
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_ADDRESS = struct.Struct("=BBBBi")  # struct ifaddrmsg
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
_RTM_GETADDR, _NLM_DUMP, _NLMSG_ERROR, _NLMSG_DONE = 22, 0x301, 2, 3
_IFA_ADDRESS, _IFA_LOCAL = 1, 2


def read(environ: Mapping[str, str], resolv_conf: str = RESOLV_CONF, hosts: str = HOSTS) -> HostFacts:
    return HostFacts(
        nameservers=nameservers(_text(resolv_conf)),
        hosts=names(_text(hosts)),
        proxy=next((environ[key] for key in _PROXIES if environ.get(key)), ""),
        no_proxy=environ.get("no_proxy") or environ.get("NO_PROXY", ""),
        addresses=addresses(),
    )


def nameservers(text: str) -> tuple[str, ...]:
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and (address := _address(words[1])):
            found.append(address)
    return tuple(dict.fromkeys(found[:_NAMESERVERS_MAX]))


def names(text: str) -> dict[str, tuple[str, ...]]:
    """Every name of a hosts file with its addresses, in lower case."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        address = _address(words[0]) if words else ""
        for name in (word.lower().rstrip(".") for word in words[1:] if address):
            if len(found) >= _HOSTS_MAX:
                return found
            if name.isascii() and address not in found.get(name, ()):
                found[name] = (*found.get(name, ()), address)
    return found


def addresses() -> tuple[str, ...]:
    """The host's own, from the kernel; none of them may be where an allowed name leads to."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
            kernel.settimeout(1.0)
            body = _ADDRESS.pack(0, 0, 0, 0, 0)
            kernel.sendto(_HEADER.pack(_HEADER.size + len(body), _RTM_GETADDR, _NLM_DUMP, 1, 0) + body, (0, 0))
            return tuple(sorted(set(_dump(kernel))))
    except OSError as error:
        log.warning("asking for the host's addresses: %s", error)
        return ()


def _dump(kernel: socket.socket) -> Iterator[str]:
    while True:
        data = kernel.recv(1 << 16)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind in {_NLMSG_DONE, _NLMSG_ERROR} or length < _HEADER.size:
                return
            yield from _addresses_of(data[at + _HEADER.size : at + length])
            at += (length + 3) & ~3


def _addresses_of(message: bytes) -> Iterator[str]:
    at = _ADDRESS.size
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            return
        if kind in {_IFA_ADDRESS, _IFA_LOCAL} and length - _ATTRIBUTE.size in {4, 16}:
            yield str(ipaddress.ip_address(message[at + _ATTRIBUTE.size : at + length]))
        at += (length + 3) & ~3


def _address(word: str) -> str:
    try:
        return str(ipaddress.ip_address(word))  # one with a scope (fe80::1%eth0) keeps it
    except ValueError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_FILE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        log.warning("reading %s: %s", path, error)
        return ""
