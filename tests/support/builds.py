"""Dockerfiles that are built by the command line, and what must hold of the store whatever happened."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from paddock.images.layers import LayerId, Layers
from paddock.store import Store

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.installation import Installation


class Context:
    """A build directory with a small root in it."""

    def __init__(self, place: Path, small: Path) -> None:
        self.place = place
        shutil.copytree(small, place / "root", symlinks=True)

    def write(self, text: str) -> Context:
        (self.place / "Dockerfile").write_text(text)
        return self

    def start(self, one: Installation, *words: str, name: str = "mine:1") -> subprocess.Popen[bytes]:
        return one.spawn("template", "build", "-t", name, *words, str(self.place))

    def build(self, one: Installation, *words: str, name: str = "mine:1") -> subprocess.CompletedProcess[bytes]:
        return one.cli("template", "build", "-t", name, *words, str(self.place), timeout_s=120)

    def built(self, one: Installation, *words: str, name: str = "mine:1") -> str:
        """What was said of it."""
        done = self.build(one, *words, name=name)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().strip() == name
        return done.stderr.decode()


def steps(said: str) -> list[bool]:
    """Of each step whether it came from the cache."""
    return [line.endswith("(cached)") for line in said.splitlines() if line.startswith("[")]


def check_store(one: Installation) -> None:
    """No daemon runs. Every layer that a row names is there, whole; boxes and templates can be read."""
    store = Store(str(one.state / "paddock.db"), is_first=False)
    try:
        layers = Layers(str(one.state / "layers"))
        for layer in store.layers():
            assert layer.startswith("/") or layers.has(LayerId(layer)), layer
        assert store.load()[1] == []
        for row in store.templates():
            assert row.chain
    finally:
        store.close()


def check_clean(one: Installation) -> None:
    """Nothing is left of builds but their layers."""
    assert os.listdir(one.state / "layers/staging") == []
    assert os.listdir(one.state / "layers/leases") == []
    assert one.cli("ls", "-q").stdout == b""
