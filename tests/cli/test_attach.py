"""The relay between a person and a command, with a peer that speaks frames by hand: good, broken and hostile ones.

What a real terminal and a real box do together is in tests/boxes/test_terminal.py.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.cli.attach import End, Lost, Running, Screens, attach
from paddock.client.transport import Channel
from paddock.errors import PaddockError, Unavailable, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTED = frames.encode_message({"event": "started", "pid": 2, "id": "x", "tty": False})
EXIT = frames.encode_message({"event": "exit", "code": 3, "signal": None, "timed_out": False})


class Peer:
    """The other end of a command's channel."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.socket = theirs
        self.running = Running(lambda _verb, _args: None, ("id", "box"), Channel(ours.detach()))

    def attach(self, data: bytes, *, hang_up: bool = True) -> End:
        self.socket.sendall(data)
        if hang_up:
            self.socket.shutdown(socket.SHUT_WR)
        return attach(self.running, stdin=False, detachable=False)


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.socket.close()
    made.running.channel.close()


def test_output_goes_to_its_own_descriptor_byte_for_byte(peer: Peer, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out, err = bytes(range(256)) * 300, b"\x1b]52;c;aGk=\x07\xff"
    pieces = [frames.encode(frames.STDOUT, out[at : at + 60000]) for at in range(0, len(out), 60000)]
    end = peer.attach(b"".join([STARTED, *pieces, frames.encode(frames.STDERR, err), EXIT]))
    assert (end.exit_code, end.timed_out, repr(end)) == (3, False, "<End 3>")
    assert capfdbinary.readouterr() == (out, err)


def test_what_came_together_with_the_first_frame_is_shown_at_once(peer: Peer) -> None:
    """Nothing more arrives until it was seen: waiting for the socket would wait for ever."""
    read, write = os.pipe()
    kept = os.dup(1)
    os.dup2(write, 1)
    os.close(write)

    def answer() -> None:
        assert os.read(read, 100) == b"at once"
        peer.socket.sendall(EXIT)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert peer.attach(STARTED + frames.encode(frames.STDOUT, b"at once"), hang_up=False).exit_code == 3
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        thread.join()
        os.close(read)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"event": "exit", "code": 0, "signal": None}, 0),
        ({"event": "exit", "code": 255}, 255),
        ({"event": "exit", "code": 137, "signal": 9, "timed_out": "yes"}, 137),
    ],
)
def test_the_exit_code_is_the_commands(peer: Peer, message: dict[str, object], code: int) -> None:
    end = peer.attach(STARTED + frames.encode_message(message))
    assert (end.exit_code, end.timed_out) == (code, False)


def test_a_timeout_is_told(peer: Peer) -> None:
    end = peer.attach(STARTED + frames.encode_message({"event": "exit", "code": 124, "timed_out": True}))
    assert (end.exit_code, end.timed_out, repr(end)) == (124, True, "<End 124 timed out>")


def test_a_refused_signal_does_not_end_the_relay(peer: Peer) -> None:
    refused = frames.encode_message({"event": "error", "code": "ended", "message": "the command has ended"})
    assert peer.attach(STARTED + refused + EXIT).exit_code == 3


@pytest.mark.parametrize("data", [b"", STARTED, STARTED + EXIT[:-1], STARTED + frames.encode(frames.STDOUT, b"")])
def test_a_channel_that_breaks_is_lost(peer: Peer, data: bytes) -> None:
    with pytest.raises(Lost):
        peer.attach(data)


@pytest.mark.parametrize(
    "message",
    [
        {"event": "exit"},
        {"event": "exit", "code": "0"},
        {"event": "exit", "code": True},
        {"event": "exit", "code": -1},
        {"event": "exit", "code": 256},
        {"event": "exit", "code": 1 << 70},
        {"event": "exit", "code": 1.5},
        {"event": "started", "code": 0},
        {"code": 0},
    ],
)
def test_an_end_that_makes_no_sense_is_refused(peer: Peer, message: dict[str, object]) -> None:
    with pytest.raises(Unavailable, match="out of turn"):
        peer.attach(STARTED + frames.encode_message(message))


@pytest.mark.parametrize(
    "data",
    [
        frames.encode(frames.STDOUT, b"too early"),
        EXIT,
        frames.encode(frames.MESSAGE, b"[]"),
        frames.encode(frames.MESSAGE, b"{"),
        frames.encode(frames.MESSAGE, json.dumps({"event": ["started"]}).encode()),
        b"\xff" * 100,
        STARTED + frames.encode(frames.MESSAGE, b"\xff"),
    ],
)
def test_bytes_out_of_turn_are_refused(peer: Peer, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unavailable):
        peer.attach(data)
    assert capfd.readouterr() == ("", "")


def test_a_command_that_could_not_be_started_is_the_users_error(peer: Peer) -> None:
    refusal = frames.encode_message({"event": "error", "code": "not-found", "message": "x: command not found"})
    with pytest.raises(UserError, match="x: command not found") as caught:
        peer.attach(refusal)
    assert caught.value.exit_code == 127


def test_a_stream_nobody_asked_for_is_ignored(peer: Peer, capfd: pytest.CaptureFixture[str]) -> None:
    odd = frames.encode(frames.FILE, b"x") + frames.encode(frames.STDIN, b"y")
    assert peer.attach(STARTED + odd + EXIT).exit_code == 3
    assert capfd.readouterr() == ("", "")


def test_nothing_of_the_relay_stays_behind(peer: Peer) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGWINCH, signal.SIGTERM)]
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PaddockError):
        peer.attach(STARTED + frames.encode(frames.MESSAGE, b"\xff"))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGWINCH, signal.SIGTERM)] == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert signal.set_wakeup_fd(-1) == -1


def test_a_peer_that_ignores_everything_is_left_at_the_fourth_interrupt(peer: Peer) -> None:
    sent: list[object] = []

    def interrupt() -> None:
        decoder = frames.Decoder()
        while len(sent) < 4:  # the size comes first, and says that the relay listens
            for _, payload in decoder.feed(peer.socket.recv(4096)):
                sent.append(json.loads(payload).get("signal"))
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            peer.attach(frames.encode_message({"event": "started", "tty": True}), hang_up=False)
    finally:
        peer.running.channel.close()
        thread.join()
    assert sent == [None, signal.SIGINT, signal.SIGINT, signal.SIGKILL]


def test_a_pipe_is_never_filtered_or_restored(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with Screens() as screens:
        screens.show(1, b"\x1b[?1049h\x1b]52;c;aGk=\x07")
        screens.flush()
    assert capfdbinary.readouterr() == (b"\x1b[?1049h\x1b]52;c;aGk=\x07", b"")


def test_a_relay_is_described_in_one_line(peer: Peer) -> None:
    assert repr(peer.running) == "<Running in box>"
