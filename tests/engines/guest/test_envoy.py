"""The envoy: hands over the descriptor it was given, and fails unless it was taken."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from paddock.engines.guest import envoy
from paddock.engines.process import kernel
from tests.support import namespaces

NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET


@pytest.mark.parametrize("taken", [True, False])
def test_it_hands_over_its_line(taken: bool) -> None:
    def act() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(envoy.PLACE)
            listener.listen()
            got: list[int] = []

            def init() -> None:
                peer, _ = listener.accept()
                with peer:
                    if taken:
                        got.extend(socket.recv_fds(peer, 1, 1)[1])
                        peer.send(b"1")

            thread = threading.Thread(target=init)
            thread.start()
            read, write = os.pipe()
            os.dup2(write, envoy.LINE)
            if taken:
                envoy.main()
            else:
                with pytest.raises(OSError, match=r".*"):
                    envoy.main()
            thread.join()
            if taken:
                os.write(got[0], b"here")
                assert os.read(read, 10) == b"here"

    namespaces.inside(act, NET)
