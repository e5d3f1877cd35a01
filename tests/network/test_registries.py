"""The password of a registry: skopeo has a placeholder in its box, and the registry gets what it wants."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.network.test_secrets import files_with
from tests.runtime.test_pulling import offer
from tests.support.images import Registry, kept
from tests.support.installation import ROOT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.internet import Internet, Online

pytestmark = [
    pytest.mark.box,
    pytest.mark.skipif(shutil.which("skopeo") is None, reason="no skopeo on this machine"),
]
HOST, PASSWORD = "packages.example:5443", "dckr-5f0c2a7741d94e6b9f"
IMAGE = f"{HOST}/team/tool:v1"
LOGIN = ("--user", "me", "--secret", "registry")


@pytest.fixture
def shelf(internet: Internet, tmp_path: Path) -> Iterator[Path]:
    """A registry of the tests' internet, with TLS, that lets nobody in without the password; what it was asked for."""
    there = Registry()
    offer(there)
    file = tmp_path / "images.json"
    kept(there, file)
    certificate = [str(internet.root / name) for name in ("origin.pem", "origin.key")]
    argv = [sys.executable, "-m", "tests.support.images", str(file), f"me:{PASSWORD}", "5443", *certificate]
    pipe = subprocess.PIPE
    with subprocess.Popen([*internet.enter, f"--wd={ROOT}", *argv], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield tmp_path / "images.json.log"
        process.communicate()


def test_a_password_opens_its_registry_and_is_in_no_box(online: Online, shelf: Path) -> None:
    words = ("secret", "set", "registry", "--host", HOST)
    done = online.cli(*words, stdin=PASSWORD.encode())
    assert done.returncode == 0, done.stderr
    try:
        refused = online.cli("template", "pull", IMAGE)
        assert refused.returncode == 2, "the oracle: without it nobody is let in"
        assert "GET /v2/" in shelf.read_text()
        pulled = online.cli("template", "pull", *LOGIN, IMAGE)
        assert pulled.returncode == 0, pulled.stderr
        pushed = online.cli("template", "push", *LOGIN, IMAGE, f"{HOST}/team/other:v2")
        assert pushed.returncode == 0, pushed.stderr
        assert "PUT /v2/team/other/manifests/v2" in shelf.read_text()
        for name in ("boxes", "trash", "layers/staging"):
            until(lambda name=name: not os.listdir(online.state / name), f"{name} is empty")  # type: ignore[misc]
        assert files_with(online.state, PASSWORD.encode()) == []
        wrong = online.cli("template", "pull", "--user", "somebody", "--secret", "registry", IMAGE)
        assert wrong.returncode == 2
        assert PASSWORD.encode() not in wrong.stderr
    finally:
        online.cli("template", "rm", IMAGE)
        assert online.cli("secret", "rm", "registry").returncode == 0
