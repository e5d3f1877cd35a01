"""Boxes to attack, and secrets on the host that no box may ever see."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import paths
from tests.support import homes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation


@pytest.fixture
def box(paddock: Paddock, installation: Installation) -> Box:
    """One running box on the workspace."""
    target = paddock.create("target", workspace=str(installation.workspace))
    assert target.exec(["true"]).ok
    return target


@pytest.fixture
def nonce() -> str:
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture
def canaries(installation: Installation, nonce: str) -> Iterator[dict[str, Path]]:
    """Files whose content is the nonce, where people keep their secrets: the caller's own home among them."""
    home = Path(paths.home_directory())
    places = {
        "ssh": home / ".ssh",
        "aws": home / ".aws",
        "config": home / ".config" / "paddock-test",
        "home": home,
        "sibling": installation.workspace.parent / "sibling",
        "state": installation.state,
        "temporary": Path("/tmp"),
        "shared memory": Path("/dev/shm"),
    }
    files = {name: place / f".{nonce}" for name, place in places.items()}
    try:
        with homes.alone():
            for path in files.values():
                homes.make(path.parent)
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                os.write(fd, nonce.encode())
                os.close(fd)
        yield files
    finally:
        with homes.alone():
            for path in files.values():
                path.unlink(missing_ok=True)
                homes.unmake(path.parent)
