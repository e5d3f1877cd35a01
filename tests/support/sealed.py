"""A real box with a sealed network and a gateway of the test's own behind its door, without a daemon."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.engines.base import Placement
from paddock.engines.container.engine import ContainerEngine
from paddock.engines.process import cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.model import BoxId, BoxSpec, EngineName, Network, Publish
from tests.support import attack, contract
from tests.support.gateway import TestGateway
from tests.support.guest import Client, Ended
from tests.support.installation import alive, children, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


class SealedBox:
    """Starts boxes in one place, one at a time; closing it asserts that none is left."""

    def __init__(self, root: Path) -> None:
        for name in ("state", "boxes/one/net", "work"):
            (root / name).mkdir(parents=True)
        self.root = root
        self.launcher = Launcher(f"{root}/log")
        self.kind = contract.current()
        engine = ContainerEngine if self.kind.template else ProcessEngine
        self.engine = engine(f"{root}/state", self.launcher, Bounds(cgroups.Cgroups(tag="sealed")))
        self._loop = asyncio.Runner()
        self._handle: Any = None
        self.placement = self.placed()

    def __repr__(self) -> str:
        return f"<SealedBox {self._handle}>"

    def placed(self, *ports: int, published: int = 0) -> Placement:
        publish = (Publish(port=published, box_port=published),) if published else ()
        spec = BoxSpec(
            name="one",
            agent="shell",
            workspace=f"{self.root}/work",
            caller_path="/usr/bin:/bin",
            engine=EngineName.CONTAINER if self.kind.template else EngineName.PROCESS,
            layers=(self.kind.template,) if self.kind.template else (),
            runtime=self.kind.runtime,
            network=Network(publish=publish),
        )
        place = f"{self.root}/boxes/one"
        return Placement(id=BoxId("one"), spec=spec, directory=place, index=7, localhost_ports=ports)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.launcher.pid:
            until(lambda: not children(self.launcher.pid or 0), "no box is left")
        self._loop.run(self.launcher.close())
        self._loop.close()

    def start(self, door: int | None, *ports: int, published: int = 0) -> None:
        """`published` is a port that the gateway will dial; a box with a network stack of its own has to know."""
        self.placement = self.placed(*ports, published=published)
        self._handle = self._loop.run(self.engine.start(self.placement, door))

    def stop(self) -> None:
        if self._handle:
            self._handle.kill()
            until(lambda: not alive(self.pid), "it is gone")
            self._handle.close()
            self.engine.clean(self.placement)
            self._handle = None

    @property
    def pid(self) -> int:
        return int(self._handle.evidence.pid)

    @contextmanager
    def client(self) -> Iterator[Client]:
        with self.engine.connect(self.placement) as sock:
            sock.setblocking(True)
            yield Client(sock)

    def begin(self, client: Client, *argv: str, **options: Any) -> None:
        client.start(*argv, env=self.engine.environment(self.placement), **options)

    def run(self, *argv: str) -> Ended:
        with self.client() as client:
            self.begin(client, *argv)
            return client.finish()

    def sh(self, script: str) -> Ended:
        return self.run("sh", "-c", script)

    def inside(self, source: str, *args: object) -> Any:
        """What an attack (tests/support/attack.py) says in here."""
        done = self.run(*attack.program(source, *args))
        assert done.code == 0, done
        return json.loads(done.stdout)


@contextmanager
def sealed_box(
    *ports: int, published: int = 0, allowed: str = "allowed.test"
) -> Iterator[tuple[SealedBox, TestGateway]]:
    with TestGateway(allowed) as gateway, new_box() as box:
        box.start(gateway.door, *ports, published=published)
        yield box, gateway


@contextmanager
def new_box() -> Iterator[SealedBox]:
    # Not tmp_path: a socket's name has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="sealed-") as root, SealedBox(Path(root)) as box:
        yield box


def server(address: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=64)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
