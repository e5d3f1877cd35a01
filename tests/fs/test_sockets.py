"""Unix sockets at long paths, private, never through a link."""

from __future__ import annotations

import errno
import os
import socket
import stat
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.fs import bind_unix, connect_unix, receive_fds
from tests.fs.children import in_child, open_descriptors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def far(tmp_path: Path) -> str:
    """A directory whose name alone is longer than an address may be."""
    path = tmp_path / ("d" * 120)
    path.mkdir()
    return str(path)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("by_descriptor", [False, True])
def test_both_ends_meet_at_a_path_longer_than_an_address(far: str, kind: int, by_descriptor: bool) -> None:
    with pytest.raises(OSError, match="too long"), socket.socket(socket.AF_UNIX, kind) as plain:
        plain.bind(f"{far}/s")
    before = open_descriptors()
    place: str | int = os.open(far, os.O_PATH) if by_descriptor else far
    with bind_unix(place, "s", kind=kind) as server:
        server.listen()
        with connect_unix(place, "s", kind=kind) as client, server.accept()[0] as peer:
            client.sendall(b"hello")
            assert peer.recv(10) == b"hello"
            assert client.getblocking()
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16) == bytes(16)
    if isinstance(place, int):
        os.close(place)
    assert open_descriptors() == before


def test_the_socket_is_ours_alone_whatever_the_umask(far: str) -> None:
    def act() -> None:
        os.umask(0)
        bind_unix(far, "s").close()
        assert stat.S_IMODE(os.stat(f"{far}/s").st_mode) == 0o600

    in_child(act)


def test_a_socket_of_a_dead_process_is_replaced(far: str) -> None:
    bind_unix(far, "s").close()
    with pytest.raises(ConnectionRefusedError):
        connect_unix(far, "s")
    with bind_unix(far, "s") as server:
        server.listen()
        connect_unix(far, "s").close()


@pytest.mark.parametrize("backlog", [128, 0])
def test_a_live_socket_is_not_taken_over(far: str, backlog: int) -> None:
    with bind_unix(far, "s") as server:
        server.listen(backlog)
        waiting = [connect_unix(far, "s")] if backlog == 0 else []
        with pytest.raises(Unavailable, match=r"already serves|does not answer"):
            bind_unix(far, "s")
        assert os.path.exists(f"{far}/s")
        for client in waiting:
            client.close()


@pytest.mark.parametrize("kind", ["file", "link", "dangling", "directory"])
def test_what_is_no_socket_is_neither_replaced_nor_connected_to(far: str, tmp_path: Path, kind: str) -> None:
    with bind_unix(str(tmp_path), "other") as server:
        server.listen()
        if kind == "file":
            open(f"{far}/s", "x").close()
        elif kind == "directory":
            os.mkdir(f"{far}/s")
        else:
            os.symlink(tmp_path / ("other" if kind == "link" else "nothing"), f"{far}/s")
        for act in (bind_unix, connect_unix):
            with pytest.raises(Unavailable, match="is not a socket"):
                act(far, "s")
        assert os.path.lexists(f"{far}/s")


def test_a_plain_connect_does_follow_the_link_we_refuse(tmp_path: Path) -> None:
    with bind_unix(str(tmp_path), "other") as server, socket.socket(socket.AF_UNIX) as client:
        server.listen()
        os.symlink("other", tmp_path / "s")
        at = os.open(tmp_path, os.O_PATH)
        client.connect(f"/proc/self/fd/{at}/s")
        os.close(at)
        with pytest.raises(Unavailable):
            connect_unix(str(tmp_path), "s")


def test_nobody_there_is_told_apart(far: str) -> None:
    with pytest.raises(FileNotFoundError):
        connect_unix(far, "s")
    with pytest.raises(FileNotFoundError):
        connect_unix(f"{far}/missing", "s")


def test_a_full_queue_is_waited_for_no_longer_than_asked(far: str) -> None:
    with bind_unix(far, "s") as server:
        server.listen(0)
        with connect_unix(far, "s"):
            began = time.monotonic()
            with pytest.raises(Unavailable, match="does not answer"):
                connect_unix(far, "s", timeout_s=0.2)
            assert 0.1 < time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/s", "a\0b"])
def test_a_name_is_one_component(far: str, name: str) -> None:
    for act in (bind_unix, connect_unix):
        with pytest.raises(OSError, match="not the name") as caught:
            act(far, name)
        assert caught.value.errno == errno.EINVAL


def test_received_descriptors_are_not_inherited(far: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(f"{far}/file", "wb") as file:
        socket.send_fds(ours, [b"two"], [file.fileno(), file.fileno()])
        data, fds = receive_fds(theirs, 100, 4)
        assert (data, len(fds)) == (b"two", 2)
        assert [os.get_inheritable(fd) for fd in fds] == [False, False]
        for fd in fds:
            os.close(fd)
