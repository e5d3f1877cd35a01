"""Messages carry what they say and the descriptors beside it; what is no message is refused, and none stays open."""

from __future__ import annotations

import os
import socket

import pytest

from paddock.errors import UserError
from paddock.gateway import control
from paddock.limits import GATEWAY_DOCUMENT_BYTES


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_message_arrives_with_its_descriptors() -> None:
    a, b = pair()
    with a, b:
        fd = control.document("policy", b"content")
        control.send(a, {"op": "policy", "id": "x"}, [fd])
        os.close(fd)
        message = control.receive(b)
        assert message is not None
        assert message.body == {"op": "policy", "id": "x"}
        assert [control.read_document(fd) for fd in message.fds] == [b"content"]
        control.close_all(message.fds)


def test_the_end_is_no_message() -> None:
    a, b = pair()
    with b:
        a.close()
        assert control.receive(b) is None


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b'"text"', b"1", b"{", b"[" * 5000, b"\xff\xfe", b"{}" * 40000])
def test_what_is_no_message_is_refused_and_its_descriptors_are_closed(data: bytes) -> None:
    a, b = pair()
    with a, b:
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        before = open_fds()
        socket.send_fds(a, [data], [0, 1])
        with pytest.raises(ValueError, match="not a message"):
            control.receive(b)
        assert open_fds() == before


def test_of_more_descriptors_than_there_is_room_for_none_is_kept() -> None:
    a, b = pair()
    with a, b:
        before = open_fds()
        socket.send_fds(a, [b'{"op":"box"}'], [0] * 20)
        message = control.receive(b, 100, 4)
        assert message is not None
        assert (message.body, message.fds, message.cut) == ({"op": "box"}, [], True)
        assert open_fds() == before


def test_receiving_never_waits_even_where_the_socket_would() -> None:
    a, b = pair()
    with a, b, pytest.raises(BlockingIOError):
        control.receive(b)


def test_what_does_not_fit_is_refused_before_it_is_sent() -> None:
    a, b = pair()
    with a, b, pytest.raises(UserError, match="too long"):
        control.send(a, {"text": "x" * control.MESSAGE_BYTES})
    with pytest.raises(UserError):
        control.document("large", bytes(GATEWAY_DOCUMENT_BYTES + 1))


def test_a_document_that_is_too_large_is_not_read() -> None:
    fd = os.memfd_create("large")
    try:
        os.ftruncate(fd, GATEWAY_DOCUMENT_BYTES + 1)
        with pytest.raises(UserError):
            control.read_document(fd)
    finally:
        os.close(fd)
