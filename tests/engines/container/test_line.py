"""The keeper's end of a line: it waits for nobody, and a save that fails leaves the box as it was."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import line as lines
from paddock.engines.container import saver
from paddock.engines.container.line import Line
from paddock.engines.guest.sleep import CLIENT, QUIET
from paddock.engines.guest.wire import Loop, Refused, receive_fds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Client:
    def __init__(self) -> None:
        self.heard = b""

    def send(self, data: bytes) -> None:
        self.heard += data


class Ended(Exception):
    """Where the keeper would."""


class Scene:
    def __init__(self, place: Path) -> None:
        self.loop = Loop()
        self.path = f"{place}/init.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(512)
        ours, self.init = socket.socketpair()
        asked, self.saver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.init.settimeout(10)
        self.saver.settimeout(10)
        self.line = Line(self.loop, listener, ours, asked)
        self._opened = [listener, asked, ours, self.init, self.saver]

    def close(self) -> None:
        held = self.line
        for sock in (*self._opened, held._line, held._waits):
            if sock is not None:
                sock.close()

    def call(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        sock.connect(self.path)
        return sock

    def turn(self, until: Callable[[], bool], timeout_s: float = 10.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not until():
            assert time.monotonic() < deadline_s
            self.loop.at(time.monotonic() + 0.01, lambda: None)
            self.loop.run_once()

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.loop.at(time.monotonic() + 0.001, lambda: None)
            self.loop.run_once()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    def end(_code: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    made = Scene(tmp_path)
    yield made
    made.close()


def test_a_caller_is_handed_on(scene: Scene) -> None:
    with scene.call() as caller:
        scene.turns(2)
        word, (fd,), _ = receive_fds(scene.init, 1, 1)
        assert word == CLIENT
        with socket.socket(fileno=fd) as theirs:
            theirs.send(b"hello")
        assert caller.recv(10) == b"hello"


def test_an_init_that_takes_nobody_holds_up_nobody_else(scene: Scene) -> None:
    callers = [scene.call() for _ in range(400)]
    scene.turns(500)
    for _ in callers:  # when it takes them they are all there
        _, (fd,), _ = receive_fds(scene.init, 1, 1)
        os.close(fd)
        scene.turns(2)
    for one in callers:
        one.close()


def test_an_init_that_hangs_up_or_talks_ends_the_box(scene: Scene) -> None:
    scene.init.send(b"x")
    with pytest.raises(Ended):
        scene.turns(3)


def test_a_save_asks_init_then_the_saver_and_says_when_it_is_done(scene: Scene) -> None:
    client = Client()
    scene.line.save(client)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="is being saved"):
        scene.line.save(client)  # type: ignore[arg-type]
    assert scene.init.recv(1) == QUIET
    scene.init.send(QUIET)
    scene.turn(lambda: bool(_waiting(scene.saver)))
    assert scene.saver.recv(16) == saver.SAVE
    scene.saver.send(json.dumps({"ok": True, "error": ""}).encode())
    with pytest.raises(Ended):
        scene.turns(3)
    assert b'"done"' in client.heard


def test_an_init_that_does_not_let_go_keeps_its_box(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "QUIET_S", 0.05)
    client = Client()
    scene.line.save(client)  # type: ignore[arg-type]
    scene.turn(lambda: bool(client.heard))
    assert b"does not let go" in client.heard
    assert not scene.line.is_saving
    assert scene.init.recv(1) == QUIET
    with scene.call():
        scene.turns(2)
        word, (fd,), _ = receive_fds(scene.init, 1, 1)
        assert word == CLIENT, "it has callers again"
        os.close(fd)


def test_a_saver_that_fails_leaves_a_box_with_a_new_line(scene: Scene) -> None:
    client = Client()
    scene.line.save(client)  # type: ignore[arg-type]
    scene.init.send(QUIET)
    scene.turn(lambda: bool(_waiting(scene.saver)))
    assert scene.saver.recv(16) == saver.SAVE
    scene.saver.send(json.dumps({"ok": False, "error": "no room"}).encode())
    scene.turn(lambda: bool(_waiting(scene.saver)))
    assert b"no room" in client.heard
    word, (fd,), _ = receive_fds(scene.saver, 16, 1)
    assert word == saver.WAKE
    scene.saver.send(json.dumps({"ok": True, "error": ""}).encode())
    scene.turn(lambda: not scene.line.is_saving)
    with scene.call(), socket.socket(fileno=fd) as again:
        scene.turns(2)
        again.settimeout(10)
        word, (client_fd,), _ = receive_fds(again, 1, 1)
        assert word == CLIENT
        os.close(client_fd)


def test_one_without_a_saver_is_not_saved(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{tmp_path}/s")
    listener.listen()
    ours, theirs = socket.socketpair()
    with listener, ours, theirs, pytest.raises(Refused, match="no network of its own"):
        Line(Loop(), listener, ours, None).save(Client())  # type: ignore[arg-type]


def _waiting(sock: socket.socket) -> bytes:
    sock.setblocking(False)
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
    finally:
        sock.settimeout(10)
