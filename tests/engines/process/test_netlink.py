"""Netlink's few bytes, and that a refusal of the kernel is never taken for its consent."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.process import kernel, netlink
from tests.support import namespaces


def reply(code: int, sequence: int, kind: int = 2) -> bytes:
    return struct.pack("=IHHIIi", 36, kind, 0, sequence, 0, code) + bytes(16)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (netlink.attribute(3, b"abc"), "07000300 61626300"),
        (netlink.attribute(3, b"abcd"), "08000300 61626364"),
        (netlink.attribute(3, b""), "04000300"),
        (netlink.text(1, "nat"), "08000100 6e617400"),
        (netlink.number(2, 61053), "08000200 0000ee7d"),
        (netlink.number(2, -100), "08000200 ffffff9c"),
        (netlink.nested(4, netlink.text(1, "x")), "0c000480 06000100 78000000"),
        (netlink.message(24, netlink.ACK, 7, b"body"), "14000000 1800 0500 07000000 00000000 626f6479"),
    ],
)
def test_bytes_are_as_the_kernel_reads_them(made: bytes, wanted: str) -> None:
    assert made == bytes.fromhex(wanted)


def test_only_the_last_message_ends_an_exchange() -> None:
    assert not netlink.answered(b"", 3)
    assert not netlink.answered(reply(0, 2), 3)
    assert netlink.answered(reply(0, 2) + reply(0, 3), 3)
    assert not netlink.answered(reply(0, 3, kind=3), 3), "that was no answer but the end of a dump"


@pytest.mark.parametrize("before", [b"", reply(0, 1), reply(0, 3)])
def test_a_refusal_of_any_message_is_an_error(before: bytes) -> None:
    with pytest.raises(OSError, match="netlink message 2") as caught:
        netlink.answered(before + reply(-errno.EOPNOTSUPP, 2), 3)
    assert caught.value.errno == errno.EOPNOTSUPP


@given(st.binary(max_size=100))
def test_no_bytes_are_taken_for_consent_unless_they_are(data: bytes) -> None:
    try:
        done = netlink.answered(data, 0x01020304)
    except OSError:
        return
    assert not done or struct.pack("=I", 0x01020304) in data


def test_an_answer_that_ends_too_early_is_an_error() -> None:
    for length in (4, 16, 19, 37, 1 << 31):
        with pytest.raises(OSError, match="too early"):
            netlink.answered(struct.pack("=I", length) + reply(0, 3)[4:], 3)


def test_the_kernel_refuses_and_grants() -> None:
    body = struct.pack("=BxHiII", 0, 0, 1, 1, 1)  # lo up
    data = netlink.message(16, netlink.ACK, 5, body)

    def refused() -> None:
        kernel.drop_all_capabilities()
        with pytest.raises(PermissionError):
            netlink.exchange(netlink.ROUTE, data, 5)

    def granted() -> None:
        netlink.exchange(netlink.ROUTE, data, 5)
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), 5).close()

    for act in (refused, granted):
        namespaces.inside(act, kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
