"""The socket of a box's init: who answers there is asked of the kernel, and what it says is not believed."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from paddock import frames, fs
from paddock.engines.process import init_socket
from paddock.errors import Unavailable
from tests.support.engine import made, placed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.engines.base import Placement


@contextmanager
def _answering(host: Path, said: bytes) -> Iterator[None]:
    """Somebody who takes one caller at the box's socket and says this."""
    (host / "boxes/one/run").mkdir()
    listener = fs.bind_unix(f"{host}/boxes/one/run", "init.sock")
    listener.listen()

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(100)
            sock.send(said)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()


def test_a_socket_of_somebody_elses_is_not_taken_for_a_boxs(host: Path) -> None:
    """A process of this very test answers, which is the first of no pid namespace but the machine's."""
    with _answering(host, b"x"):
        assert made(host)[0].adopt(placed(host), None) is None


def test_nobody_at_the_socket_is_nobody(host: Path) -> None:
    assert init_socket.ask_identity(placed(host), os.getuid()) is None
    assert init_socket.ask_handles(placed(host)) == []


def test_a_failed_start_leaves_no_socket_and_another_leaves_it(host: Path) -> None:
    path = host / "boxes/one/run/init.sock"
    path.parent.mkdir()
    path.touch()  # no socket, so nobody runs behind it
    with pytest.raises(ConnectionError), init_socket.listening(placed(host)):
        _fail_once_called(path, placed(host))
    assert not path.exists()
    with init_socket.listening(placed(host)):
        pass
    assert path.is_socket()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (frames.encode_message({"event": "error", "message": "no"}), "no"),
        (frames.encode_message({"event": "error", "message": "x" * 5000}), "x" * 200),
        (b"", "hung up"),
    ],
    ids=["an error", "a long error", "nothing"],
)
def test_a_box_that_takes_no_new_gateway_is_named(host: Path, said: bytes, why: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, _answering(host, said):
        with pytest.raises(Unavailable, match=f"'one' takes no new gateway: .*{why}") as caught:
            init_socket.reseal(placed(host), ours.fileno())
        assert caught.value.code == "reseal"
        assert len(caught.value.message) < 300


def test_nonsense_for_an_answer_is_an_error(host: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, _answering(host, b"\xff" * 100), pytest.raises(Unavailable, match="malformed"):
        init_socket.reseal(placed(host), ours.fileno())


def test_a_box_that_says_done_has_a_new_gateway(host: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, _answering(host, frames.encode_message({"event": "done"})):
        init_socket.reseal(placed(host), ours.fileno())


def _fail_once_called(path: Path, placement: Placement) -> None:
    assert path.is_socket()
    with init_socket.connect(placement):
        raise ConnectionError
