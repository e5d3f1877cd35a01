"""An init that is handed its clients: it lets go of all that is the host's when it is told, and takes a new line."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import termios
import time
import tty
from typing import TYPE_CHECKING

from paddock.engines.guest import envoy, sleep
from paddock.engines.guest.wire import HEADER, message, receive_fds
from paddock.engines.process import kernel
from tests.support import namespaces
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET  # the envoy's place is one of the network


class Sleeping:
    """The keeper's side of an init in a child."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair()
        self.line.settimeout(20)
        self.pid = os.fork()
        if not self.pid:
            try:
                self.line.close()
                sleep.serve(theirs.detach(), None)
            finally:
                os._exit(1)
        theirs.close()

    def client(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(20)
        with theirs:
            socket.send_fds(self.line, [sleep.CLIENT], [theirs.fileno()])
        return ours

    def ask(self, **request: Any) -> dict[str, Any]:
        with self.client() as sock:
            sock.sendall(message(request))
            return answer(sock)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def answer(sock: socket.socket) -> dict[str, Any]:
    raw = b""
    while len(raw) < HEADER.size or len(raw) < HEADER.size + HEADER.unpack_from(raw)[0]:
        data = sock.recv(4096)
        assert data
        raw += data
    said: dict[str, Any] = json.loads(raw[HEADER.size : HEADER.size + HEADER.unpack_from(raw)[0]])
    return said


def sleeping(act: Callable[[Sleeping], None]) -> None:
    def inside() -> None:
        scene = Sleeping()
        try:
            act(scene)
        finally:
            scene.end()

    namespaces.inside(inside, NET)


def _command(argv: list[str]) -> dict[str, Any]:
    return {"op": "start", "id": "a", "argv": argv, "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "detached": True}


def test_it_serves_whom_it_is_handed_and_says_whether_it_is_alone() -> None:
    def act(scene: Sleeping) -> None:
        assert scene.ask(op="ping")["event"] == "pong"
        assert scene.ask(op="alone")["alone"] is False, "here it sees the machine's"

    sleeping(act)


def test_told_to_be_quiet_it_lets_go_and_its_commands_run_on() -> None:
    def act(scene: Sleeping) -> None:
        held = scene.client()
        held.sendall(message({"op": "ping"}))
        assert answer(held)["event"] == "pong"
        pid = scene.ask(**_command(["sleep", "600"]))["pid"]
        scene.line.send(sleep.QUIET)
        assert scene.line.recv(1) == sleep.QUIET
        assert scene.line.recv(1) == b"", "the line is let go of"
        assert held.recv(1) == b"", "and so are clients"
        os.kill(pid, 0)
        _hand_over(scene)
        assert scene.ask(op="list")["processes"][0]["pid"] == pid
        os.kill(pid, signal.SIGKILL)

    sleeping(act)


def test_commands_get_their_journals_again_and_what_they_said_meanwhile_is_in_them(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("0", "1")]
    for path in paths:
        path.touch()

    def given(scene: Sleeping, request: dict[str, Any]) -> dict[str, Any]:
        fds = [os.open(path, os.O_RDWR) for path in paths]
        with scene.client() as sock:
            socket.send_fds(sock, [message(request)], fds)
            for fd in fds:
                os.close(fd)
            return answer(sock)

    def act(scene: Sleeping) -> None:
        gate = tmp_path / "gate"
        say = "echo one; until [ -e $0 ]; do sleep 0.01; done; echo two"
        started = given(scene, {**_command(["sh", "-c", say, str(gate)]), "journal_bytes": 1 << 16})
        assert started["event"] == "started"
        until(lambda: b"one" in paths[0].read_bytes(), "it has said the first")
        scene.line.send(sleep.QUIET)
        assert scene.line.recv(1) == sleep.QUIET
        gate.touch()
        until(lambda: not os.path.exists(f"/proc/{started['pid']}"), "it has ended")
        _hand_over(scene)
        assert b"two" not in paths[0].read_bytes()
        assert given(scene, {"op": "journal", "id": "nobody"})["code"] == "no-process"
        assert given(scene, {"op": "journal", "id": "a"}) == {"event": "done"}
        data = paths[0].read_bytes()
        assert data.index(b"one") < data.index(b"two") < data.index(b'"exit"')
        assert given(scene, {"op": "journal", "id": "a"})["code"] == "exists"

    sleeping(act)


def test_a_journal_that_nobody_will_read_is_dropped(tmp_path: Path) -> None:
    def act(scene: Sleeping) -> None:
        fds = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("0", "1")]
        with scene.client() as sock:
            socket.send_fds(sock, [message({**_command(["sleep", "600"]), "journal_bytes": 4096})], fds)
            pid = answer(sock)["pid"]
        scene.line.send(sleep.QUIET)
        assert scene.line.recv(1) == sleep.QUIET
        _hand_over(scene)
        assert scene.ask(op="journal", id="a") == {"event": "done"}
        assert scene.ask(op="journal", id="a")["code"] == "exists"
        os.kill(pid, signal.SIGKILL)

    sleeping(act)


def test_only_root_hands_it_a_line_and_only_when_it_has_none() -> None:
    def act(scene: Sleeping) -> None:
        assert scene.ask(op="ping")["event"] == "pong", "it listens for offers"
        assert not _offer(), "it has one"
        scene.line.send(sleep.QUIET)
        assert scene.line.recv(1) == sleep.QUIET
        _hand_over(scene)
        assert scene.ask(op="ping")["event"] == "pong"

    sleeping(act)


def test_who_is_not_root_hands_it_none() -> None:
    """The peer's uid is the kernel's word; the oracle is the test above, where it is 0."""
    real = sleep._PEER

    class Other:
        size = real.size

        @staticmethod
        def unpack(raw: bytes) -> tuple[int, int, int]:
            pid, _, gid = struct.unpack("3i", raw)
            return pid, 1000, gid

    def inside() -> None:
        sleep._PEER = Other  # type: ignore[assignment]
        scene = Sleeping()
        try:
            assert scene.ask(op="ping")["event"] == "pong"
            scene.line.send(sleep.QUIET)
            assert scene.line.recv(1) == sleep.QUIET
            assert not _offer()
        finally:
            scene.end()

    namespaces.inside(inside, NET)


def test_it_ends_with_its_keeper() -> None:
    def inside() -> None:
        scene = Sleeping()
        assert scene.ask(op="ping")["event"] == "pong"
        scene.line.close()
        os.waitpid(scene.pid, 0)

    namespaces.inside(inside, NET)


def _offer() -> bool:
    """What the envoy does, and whether init took it."""
    _, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as sock, theirs:
        sock.settimeout(20)
        sock.connect(envoy.PLACE)
        try:
            socket.send_fds(sock, [b"1"], [theirs.fileno()])
            return sock.recv(1) == b"1"
        except OSError:
            return False


def _hand_over(scene: Sleeping) -> None:
    scene.line, theirs = socket.socketpair()
    scene.line.settimeout(20)
    deadline_s = time.monotonic() + 20
    while True:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(envoy.PLACE)
            socket.send_fds(sock, [b"1"], [theirs.fileno()])
            if sock.recv(1) == b"1":
                break
        assert time.monotonic() < deadline_s
    theirs.close()


def test_keys_have_signals_where_a_terminal_says_so_and_nowhere_else() -> None:
    """In Linux the mode alone decides; that gVisor heeds the keys, too, a box shows (boxes/test_terminal.py)."""
    ours, theirs = os.openpty()
    init = sleep.Sleeper.__new__(sleep.Sleeper)

    def keys() -> list[bytes]:
        return [termios.tcgetattr(theirs)[6][key] for key in (termios.VINTR, termios.VQUIT, termios.VSUSP)]

    usual = keys()
    init.typed(theirs)
    assert keys() == usual == [b"\x03", b"\x1c", b"\x1a"]
    tty.setraw(theirs)
    init.typed(theirs)
    assert keys() == [b"\xff"] * 3
    mode = termios.tcgetattr(theirs)
    mode[3] |= termios.ISIG
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    init.typed(theirs)
    assert keys() == usual, "for a program that left its mode by halves"
    os.close(theirs)
    os.close(ours)
    init.typed(ours)


def test_receiving_keeps_the_descriptor_from_commands() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"c"], [ours.fileno()])
        _, (fd,), _ = receive_fds(theirs, 1, 1)
        assert not os.get_inheritable(fd)
        os.close(fd)
