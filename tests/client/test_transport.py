"""How a blocking client bears what a daemon or a box does."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client.answers import stdin_frames
from paddock.client.transport import Channel, Transport
from paddock.errors import Unavailable, UserError
from tests.support import answering
from tests.support.answering import Answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# -- the daemon --------------------------------------------------------------------------------------------------------


def test_calls_share_one_connection(tmp_path: Path) -> None:
    with Answering(tmp_path, answering.echo) as daemon:
        transport = Transport(daemon.where)
        assert [transport.call("v", {"n": n})[0] for n in range(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]
        transport.close()
    assert daemon.connections == 1


def test_something_is_done_while_the_daemon_answers(tmp_path: Path) -> None:
    done: list[int] = []
    with Answering(tmp_path, answering.echo) as daemon:
        transport = Transport(daemon.where)
        assert transport.call("v", {"n": 1}, lambda: done.append(1))[0] == {"n": 1}
        assert transport.call("v", {"n": 2})[0] == {"n": 2}
        transport.close()
    assert (done, daemon.connections) == ([1], 1)


def test_threads_may_share_a_client(tmp_path: Path) -> None:
    with Answering(tmp_path, answering.echo) as daemon:
        transport = Transport(daemon.where)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: transport.call("v", {"n": n})[0], range(200)))
        transport.close()
    assert found == [{"n": n} for n in range(200)]


def test_a_refusal_is_raised_and_the_connection_kept(tmp_path: Path) -> None:
    with Answering(tmp_path, answering.refuse) as daemon:
        transport = Transport(daemon.where)
        for _ in range(3):
            with pytest.raises(UserError, match="no"):
                transport.call("v", {})
        transport.close()
    assert daemon.connections == 1


@pytest.mark.parametrize(("script", "code"), [(answering.hang_up, "daemon-lost"), (answering.babble, "protocol")])
def test_a_daemon_that_fails_is_asked_anew_the_next_time(tmp_path: Path, script: answering.Script, code: str) -> None:
    with Answering(tmp_path, script) as daemon:
        transport = Transport(daemon.where)
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                transport.call("v", {})
            assert caught.value.code == code
        transport.close()
    assert daemon.connections == 2


class Interrupted(BaseException):
    """As ctrl-c: no error of ours."""


def test_an_interrupted_call_does_not_give_its_answer_to_the_next(tmp_path: Path) -> None:
    def slow(sock: socket.socket) -> None:
        while (asked := answering.question(sock)) is not None:
            if asked["verb"] == "slow":
                os.kill(os.getpid(), signal.SIGUSR1)
                interrupted.wait(10)
            answering.answer(sock, asked["verb"])

    def interrupt(*_: object) -> None:
        raise Interrupted

    interrupted = threading.Event()
    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Answering(tmp_path, slow) as daemon:
            transport = Transport(daemon.where)
            with pytest.raises(Interrupted):
                transport.call("slow", {})
            interrupted.set()
            assert transport.call("next", {})[0] == "next"
            transport.close()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_descriptors_arrive_for_this_process_alone(tmp_path: Path) -> None:
    def give(sock: socket.socket) -> None:
        while answering.question(sock) is not None:
            answering.answer(sock, "here", [0])

    with Answering(tmp_path, give) as daemon:
        transport = Transport(daemon.where)
        result, fds = transport.call("v", {})
        transport.close()
    assert result == "here"
    assert [os.get_inheritable(fd) for fd in fds] == [False]
    os.close(fds[0])


def test_descriptors_of_an_answer_that_fails_are_closed(tmp_path: Path) -> None:
    def give(sock: socket.socket) -> None:
        answering.question(sock)
        socket.send_fds(sock, [frames.encode_message({"ok": False, "error": None})], [0, 0])

    before = len(os.listdir("/proc/self/fd"))
    with Answering(tmp_path, give) as daemon:
        transport = Transport(daemon.where)
        with pytest.raises(Unavailable):
            transport.call("v", {})
        transport.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_its_repr_says_which_daemon(tmp_path: Path) -> None:
    with Answering(tmp_path, answering.echo) as daemon:
        assert repr(Transport(daemon.where)) == f"<Transport {tmp_path}/state>"


# -- a box -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def box() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=answering.mirror, args=(theirs,))
    thread.start()
    yield ours
    thread.join()
    theirs.close()


def test_much_input_and_much_output_do_not_wait_for_each_other(box: socket.socket) -> None:
    data = os.urandom(1 << 20) * 20
    channel = Channel(box.detach())
    channel.queue(stdin_frames(data))
    found = bytearray()
    while len(found) < len(data):
        frame = channel.receive()
        assert frame is not None
        assert frame[0] == frames.STDOUT
        found += frame[1]
    assert found == data
    channel.send(frames.STDIN, b"")
    channel.close()


def test_input_that_nobody_takes_any_more_is_forgotten() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(frames.encode(frames.STDOUT, b"last words"))
    theirs.close()
    channel = Channel(ours.detach())
    channel.queue(stdin_frames(bytes(1 << 20)))
    assert channel.receive() == (frames.STDOUT, b"last words")
    assert channel.receive() is None
    channel.close()


@pytest.mark.parametrize("data", [b"", frames.encode(frames.STDOUT, b"whole")[:-1]])
def test_a_box_that_hangs_up_is_no_frame(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.close()
    channel = Channel(ours.detach())
    assert channel.receive() is None
    channel.close()


def test_bytes_that_are_no_frames_are_an_error_of_ours() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"\xff" * 64)
    channel = Channel(ours.detach())
    with pytest.raises(Unavailable):
        channel.receive()
    channel.close()
    theirs.close()
