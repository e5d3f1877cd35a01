"""A box's ways in: ports of its localhost follow its policy, published ports lead into it, and end with it."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from paddock.errors import Unavailable
from paddock.gateway.entrances import Entrances
from tests.support.installation import until
from tests.support.origins_plain import banner
from tests.support.scene import Scene, play, policy, talk

box = pytest.mark.box


def test_without_a_door_nothing_is_sealed_and_nothing_can_be_reached() -> None:
    class Unmade:
        """As much of a box as is looked at before it has a door."""

        poller: Any = None

    entrances = Entrances(Unmade(), lambda: True, lambda _sock, _serve: None)  # type: ignore[arg-type]
    assert (entrances.is_sealed, entrances.is_alive, entrances.udp) == (False, False, None)
    with pytest.raises(Unavailable, match="no door"):
        asyncio.run(entrances.dial(80))
    entrances.close()


@box
def test_ports_of_localhost_come_and_go_with_the_policy() -> None:
    def act(scene: Scene) -> None:
        scene.origin(5432, banner)
        box = scene.box(policy())

        def tried() -> str:
            try:
                return talk(socket.create_connection(("127.0.0.1", 5432), 5), b"x")
            except ConnectionRefusedError:
                return "refused"

        assert box.inside(tried) == "refused"
        scene.run(scene.gateway.set_policy(box.name, policy("localhost:5432")))
        until(lambda: "hello" in box.inside(tried), "the port opens")
        scene.run(scene.gateway.set_policy(box.name, policy()))
        until(lambda: box.inside(tried) == "refused", "the port closes")

    play(act)


@box
def test_a_published_port_leads_into_the_box() -> None:
    def act(scene: Scene) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        box = scene.box(policy(), publish=[(listener, 8000)])
        at = listener.getsockname()
        with pytest.raises(ConnectionResetError), socket.create_connection(at, 5) as sock:
            sock.recv(1)  # nobody listens in the box yet; under load the reset comes while we connect
        ready, told = os.pipe()

        def serve() -> str:
            with socket.create_server(("127.0.0.1", 8000)) as inside:
                os.write(told, b"x")
                sock, _ = inside.accept()
                with sock:
                    sock.sendall(b"from the box")
                    return sock.recv(100).decode()

        serving = box.begin(serve)
        os.read(ready, 1)
        with socket.create_connection(at, 5) as sock:
            assert sock.recv(100) == b"from the box"
            sock.sendall(b"from the host")
        assert serving() == "from the host"
        scene.run(scene.gateway.drop(box.name))
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(at, 5)

    play(act)
