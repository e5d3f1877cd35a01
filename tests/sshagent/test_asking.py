"""The user's agent is asked for its keys, and may not be there."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError
from paddock.sshagent import asking
from tests.support import sshkeys

if TYPE_CHECKING:
    from pathlib import Path


def test_an_agent_says_its_keys(tmp_path: Path) -> None:
    key = sshkeys.make(tmp_path, "mine")
    with sshkeys.agent(tmp_path, "mine") as path:
        assert asking.keys(path) == [(key, "mine")]


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0\0\x01\x05", b"\xff\xff\xff\xff", b"\0\0\0\x05\x0c\0\0\0\x09", b"\0\0\0\0"]
)
def test_what_is_no_answer_is_an_error(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(100)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(PaddockError):
            asking.keys(str(path))
        thread.join()
    with pytest.raises(PaddockError):
        asking.keys(str(path))
