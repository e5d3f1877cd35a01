"""Init as a program: it says that it is there, waits, and serves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from paddock import frames
from paddock.engines.guest.standalone import OWNER
from tests.support.installation import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_START = (
    f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from paddock.engines.guest.standalone import main; main()"
)
# As a runtime does it: descriptors 3 and 4 are the listener and the keeper's socket.
_EXEC = """
import os, sys
for number, word in enumerate(sys.argv[1:3]):
    os.dup2(int(word), 53 + number)
for number in (3, 4):
    os.dup2(50 + number, number)
os.closerange(5, 64)
os.execv(sys.argv[3], sys.argv[3:])
"""


def _started(listener: socket.socket, theirs: socket.socket) -> subprocess.Popen[bytes]:
    words = [str(listener.fileno()), str(theirs.fileno()), sys.executable, "-I", "-S", "-c", _START]
    fds = [listener.fileno(), theirs.fileno()]
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", _EXEC, *words], pass_fds=fds, env={OWNER: "0:0"})


def test_it_answers_only_when_it_is_let(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()
        process = _started(listener, theirs)
        theirs.close()
        try:
            assert ours.recv(1) == b"1"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(f"{tmp_path}/s")
                client.settimeout(10)
                client.sendall(frames.encode_message({"op": "ping"}))
                ours.sendall(b"1")
                assert b"pong" in client.recv(4096)
            assert not os.access(f"/proc/{process.pid}/mem", os.R_OK) or os.getuid() == 0
        finally:
            process.kill()
            process.wait()


def test_it_ends_with_a_keeper_that_changed_its_mind(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/s")
        listener.listen()
        process = _started(listener, theirs)
        theirs.close()
        assert ours.recv(1) == b"1"
        ours.close()
        assert process.wait(10) == 0
