"""The connector by each interpreter that is here: bytes both ways, an end of each, and what it says without one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import connector

if TYPE_CHECKING:
    from pathlib import Path

USUAL = ("sh", "ls", "tr")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/paddock-mcp"
    script.write_text(connector.script(str(tmp_path / "mcp")))
    script.chmod(0o755)
    return tmp_path


def call(place: Path, name: str, data: bytes, programs: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """With these programs and no others."""
    for program in (*USUAL, *programs):
        found = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
        assert found
        (place / "bin" / program).symlink_to(os.path.realpath(found))
    words = ["/bin/sh", str(place / "bin/paddock-mcp"), name]
    env = {"PATH": str(place / "bin")}
    return subprocess.run(words, input=data, capture_output=True, env=env, timeout=30, check=False)


@pytest.mark.parametrize("program", ["python3", "perl", "node", "socat"])
def test_bytes_go_both_ways_until_each_side_is_done(place: Path, program: str) -> None:
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip(f"{program} is not here")
    data = os.urandom(300_000)
    heard = bytearray()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "mcp/one"))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                while part := peer.recv(65536):
                    heard.extend(part)
                peer.sendall(bytes(heard)[::-1])

        serving = threading.Thread(target=answer)
        serving.start()
        done = call(place, "one", data, (program,))
        serving.join()
    assert (done.returncode, done.stderr) == (0, b"")
    assert bytes(heard) == data
    assert done.stdout == data[::-1]


def test_a_server_that_was_not_named_is_told_of_with_those_that_were(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "mcp/one"))
        done = call(place, "two", b"", ())
    assert done.returncode == 1
    assert b"no MCP server two" in done.stderr
    assert b"it has: one" in done.stderr


def test_without_an_interpreter_it_says_what_it_needs(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "mcp/one"))
        done = call(place, "one", b"", ())
    assert done.returncode == 1
    assert b"python3, perl, node or socat" in done.stderr
