"""The question at the terminal: shown once, answered by a letter and Enter, never by what was being typed."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.cli.prompting import Prompts
from paddock.client.transport import Channel
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Daemon:
    """The other end, and a clock by hand."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.answers: list[tuple[str, str]] = []
        self.now = 100.0
        self.refuse = False
        self.prompts = Prompts(Channel(ours.detach()), self._answer, lambda: self.now)

    def _answer(self, ask: str, decision: str) -> None:
        self.answers.append((ask, decision))
        if self.refuse:
            raise UserError("no question is open", code="no-ask")

    def says(self, **message: object) -> bytes | None:
        self.socket.sendall(frames.encode_message(message))
        return self.prompts.read()

    def asks(self, name: str, host: str = "a.example") -> bytes:
        shown = self.says(ask={"ask": name, "host": host, "port": 443, "protocol": "tls"})
        assert shown is not None
        return shown


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    yield made
    made.prompts.close()
    made.socket.close()


@pytest.mark.parametrize(
    ("keys", "decision"),
    [(b"o\r", "once"), (b"b\r", "box"), (b"A\n", "always"), (b"n\r", "no"), (b"\r", "no"), (b"\x03", "no")],
)
def test_a_letter_and_enter_decide(daemon: Daemon, keys: bytes, decision: str) -> None:
    assert b"a.example:443 (tls)" in daemon.asks("one")
    assert daemon.prompts.asking
    daemon.now += 1
    assert daemon.prompts.takes_keys()
    assert decision.encode() in daemon.prompts.keys(keys)
    assert daemon.answers == [("one", decision)]
    assert not daemon.prompts.asking


@pytest.mark.parametrize("keys", [b"always", b"yes\r", b"x\r", b"oo\r", b"\xff\xfe", b"\x1b[A"])
def test_nothing_else_decides(daemon: Daemon, keys: bytes) -> None:
    daemon.asks("one")
    daemon.now += 1
    daemon.prompts.keys(keys)
    assert (daemon.answers, daemon.prompts.asking) == ([], True)


def test_a_slip_can_be_taken_back(daemon: Daemon) -> None:
    daemon.asks("one")
    daemon.now += 1
    assert daemon.prompts.keys(b"a\x7fo\r").startswith(b"a\b \bo")
    assert daemon.answers == [("one", "once")]


def test_what_was_being_typed_when_the_question_came_is_no_answer(daemon: Daemon) -> None:
    daemon.asks("one")
    assert not daemon.prompts.takes_keys()
    daemon.now += 0.6
    assert daemon.prompts.takes_keys()


def test_questions_come_one_after_the_other(daemon: Daemon) -> None:
    daemon.asks("one")
    assert daemon.asks("two", "b.example") == b""
    daemon.now += 1
    assert b"b.example:443" in daemon.prompts.keys(b"o\r")
    assert not daemon.prompts.takes_keys()  # the next one gets its moment too
    daemon.now += 1
    daemon.prompts.keys(b"n\r")
    assert daemon.answers == [("one", "once"), ("two", "no")]


def test_a_question_that_was_settled_elsewhere_goes_away(daemon: Daemon) -> None:
    daemon.asks("one")
    assert daemon.says(settled="one") == b"\r\n"
    assert not daemon.prompts.asking


def test_a_host_name_cannot_play_with_the_terminal(daemon: Daemon) -> None:
    shown = daemon.asks("one", "a\x1b]52;c;aGk=\x07\r\nb.example" + "x" * 300)
    assert b"\x1b" not in shown
    assert shown.count(b"\n") == 2
    assert len(shown) < 400


def test_an_answer_that_came_too_late_is_said(daemon: Daemon) -> None:
    daemon.asks("one")
    daemon.now += 1
    daemon.refuse = True
    assert b"no question is open" in daemon.prompts.keys(b"o\r")
    assert not daemon.prompts.asking


def test_a_daemon_that_is_gone_asks_nothing_more(daemon: Daemon) -> None:
    daemon.asks("one")
    daemon.socket.shutdown(socket.SHUT_WR)
    assert daemon.prompts.read() is None
    assert repr(daemon.prompts) == "<Prompts 0 waiting>"
