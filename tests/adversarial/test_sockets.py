"""Unix sockets are authority: none of the host's answers a box, however it was named when it was bound."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs, paths
from paddock._version import VERSION
from paddock.engines.process import landlock
from paddock.model import ExecSpec, Mount
from tests.support import attack, contract
from tests.support.attack import PYTHON, inside, outside
from tests.support.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.client import Box, Paddock

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

COVERED = {"EACCES", "ECONNREFUSED"}  # what the empty file over a socket answers

CONNECT = """
import socket
def connect(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as peer:
        peer.connect(path)
        peer.send(b"hello")
say([attempt(connect, path, getattr(socket, kind)) for path, kind in ARGS])
"""


@contextmanager
def bound(directory: Path, name: str, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    """A listening socket bound by a name relative to its directory, as many servers do."""
    listener = socket.socket(socket.AF_UNIX, kind)
    with listener:
        # Another process changes directory: the test run's own must stay where it is.
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{fd}/{name}")
        finally:
            os.close(fd)
        if kind != socket.SOCK_DGRAM:
            listener.listen()
        yield listener


SERVER = """
import os, socket, sys
os.chdir(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[2])
listener.listen()
print("listening", flush=True)
sys.stdin.read()
"""


@contextmanager
def server(directory: Path, name: str) -> Iterator[None]:
    """A process that binds `name`, relative or absolute, in `directory` and listens until the block ends."""
    process = subprocess.Popen(
        [PYTHON, "-I", "-c", SERVER, str(directory), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"listening\n"
        yield
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def test_sockets_in_the_workspace_at_start_are_covered(box: Box, installation: Installation) -> None:
    workspace = installation.workspace
    box.stop()
    deep = workspace / "a" / "b"
    deep.mkdir(parents=True)
    with ExitStack() as stack:
        stack.enter_context(server(workspace, str(workspace / "absolute.sock")))
        stack.enter_context(server(workspace, "relative.sock"))
        stack.enter_context(server(deep, "deep.sock"))
        stack.enter_context(server(deep, f"{workspace}/./a/../dotted.sock"))
        stack.enter_context(bound(workspace, "descriptor.sock"))
        stack.enter_context(bound(workspace, "datagram.sock", socket.SOCK_DGRAM))
        stack.enter_context(bound(workspace, "packets.sock", socket.SOCK_SEQPACKET))
        stack.enter_context(server(workspace, str(workspace / "new\nline.sock")))
        rows = [
            (str(workspace / "absolute.sock"), "SOCK_STREAM"),
            (str(workspace / "relative.sock"), "SOCK_STREAM"),
            (str(deep / "deep.sock"), "SOCK_STREAM"),
            (str(workspace / "dotted.sock"), "SOCK_STREAM"),
            (str(workspace / "descriptor.sock"), "SOCK_STREAM"),
            (str(workspace / "datagram.sock"), "SOCK_DGRAM"),
            (str(workspace / "packets.sock"), "SOCK_SEQPACKET"),
            (str(workspace / "new\nline.sock"), "SOCK_STREAM"),
        ]
        assert set(outside(CONNECT, *rows)) == {"ok"}
        assert set(inside(box, CONNECT, *rows)) <= COVERED
        # neither by a hard link, a renamed parent, a removed cover, nor through a read-only mount
        program = f"""
os.chdir({str(workspace)!r})
say([attempt(os.link, "absolute.sock", "linked.sock"), attempt(os.unlink, "absolute.sock"),
     attempt(os.rename, "absolute.sock", "moved.sock"), attempt(os.rename, "a", "renamed")])
"""
        assert inside(box, program) == ["EXDEV", "EBUSY", "EBUSY", "ok"]
        assert inside(box, CONNECT, (str(workspace / "renamed" / "b" / "deep.sock"), "SOCK_STREAM"))[0] in COVERED
        (workspace / "renamed").rename(workspace / "a")


def test_sockets_behind_a_read_only_mount_are_covered(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    with server(tmp_path, str(tmp_path / "absolute.sock")), server(tmp_path, "relative.sock"):
        mount = Mount(source=str(tmp_path), target="/mnt/x", read_only=True)
        box = paddock.create("mounted", workspace=str(installation.workspace), mounts=[mount])
        assert box.exec(["true"]).ok
        names = ("absolute.sock", "relative.sock")
        assert outside(CONNECT, *((str(tmp_path / name), "SOCK_STREAM") for name in names)) == ["ok", "ok"]
        refusal = "ECONNREFUSED" if contract.current().template else "EACCES"  # root may open it, and it is none
        assert inside(box, CONNECT, *((f"/mnt/x/{name}", "SOCK_STREAM") for name in names)) == [refusal] * 2


def test_sockets_among_the_callers_toolchains_are_covered(installation: Installation, nonce: str) -> None:
    home = Path(paths.home_directory()) / f".{nonce[:20]}"
    tools = home / "bin"
    tools.mkdir(parents=True)
    try:
        (tools / "tool").write_text("#!/bin/sh\necho works\n")
        (tools / "tool").chmod(0o755)
        place = str(tools / "agent.sock")
        with server(tools, place):
            assert outside(CONNECT, (place, "SOCK_STREAM")) == ["ok"]
            command = attack.program(CONNECT, (place, "SOCK_STREAM"))
            env = {"PATH": f"{tools}:/usr/bin:/bin"}
            assert installation.cli("run", "--", "tool", env=env).stdout == b"works\n"
            done = installation.cli("run", "--", *command, env=env)
            assert json.loads(done.stdout)[0] in COVERED
    finally:
        fs.remove_tree(str(home))


def test_abstract_sockets_of_the_host_are_elsewhere(box: Box, nonce: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{nonce}")
        listener.listen()
        assert outside(CONNECT, (f"\0{nonce}", "SOCK_STREAM")) == ["ok"]
        assert inside(box, CONNECT, (f"\0{nonce}", "SOCK_STREAM")) == ["ECONNREFUSED"]
    assert nonce not in box.exec(["cat", "/proc/net/unix"]).stdout.decode()


def test_no_socket_of_the_host_is_listed_or_reachable_by_its_path(box: Box) -> None:
    listed = box.exec(["sh", "-c", "tail -n +2 /proc/net/unix; find / -xdev -type s 2>/dev/null"]).stdout
    own = [line for line in listed.splitlines() if contract.own_kernel() and line.endswith((b" 03", b"@paddock-line"))]
    assert listed.splitlines() == own
    table = Path("/proc/net/unix").read_text().splitlines()
    candidates = [line.split(None, 7)[7] for line in table[1:] if len(line.split(None, 7)) == 8]
    names = [
        (name, kind)
        for name in candidates
        for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET")
        if "@" not in name
    ]
    assert names
    assert set(inside(box, CONNECT, *names)) <= {"ENOENT", "ECONNREFUSED", "EACCES"}


def test_a_daemon_does_not_obey_a_box_even_if_its_socket_lies_in_a_workspace(
    paddock: Paddock, installation: Installation
) -> None:
    """Another installation keeps its state in the project, and is started while the box already runs."""
    box = paddock.create("target", workspace=str(installation.workspace))
    assert box.exec(["true"]).ok
    nested_root = installation.workspace / "nested"
    nested_root.mkdir(mode=0o700)
    nested = Installation(nested_root)
    try:
        assert nested.cli("ls").returncode == 0
        program = """
import socket, struct
def ask(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        try:
            peer.connect(path)
            body = json.dumps({"version": ARGS[1], "verb": "status", "args": {}}).encode()
            peer.sendall(struct.pack("!IB", len(body), 0) + body)
            return peer.recv(65536).decode(errors="replace")
        except OSError as error:
            return word(error.errno)
say(ask(ARGS[0]))
"""
        place = str(nested.state / "run" / "daemon.sock")
        assert '"ok":true' in outside(program, place, VERSION)
        answer = inside(box, program, place, VERSION)
        assert '"ok":true' not in answer
    finally:
        nested.close()
        fs.remove_tree(str(nested_root))


def test_two_boxes_on_one_workspace_share_no_socket_made_before_the_second(
    paddock: Paddock, installation: Installation
) -> None:
    first = paddock.create("first", workspace=str(installation.workspace))
    serve = "import socket; s = socket.socket(socket.AF_UNIX); s.bind(ARGS[0]); s.listen(); say(1); sys.stdin.read()"
    place = str(installation.workspace / "first.sock")
    command = first.start(ExecSpec(argv=tuple(attack.program(serve, place)), stdin=True))
    lines = command.output()
    assert next(iter(lines))[1] == b"1\n"
    assert inside(first, CONNECT, (place, "SOCK_STREAM")) == ["ok"]
    second = paddock.create("second", workspace=str(installation.workspace))
    try:
        known = {"ENOENT"} if contract.own_kernel() else COVERED  # its name is in the first one's kernel alone
        assert inside(second, CONNECT, (place, "SOCK_STREAM"))[0] in known
    finally:
        command.close()


def test_a_late_socket_is_the_documented_exception(box: Box, installation: Installation) -> None:
    """Until the kernel can refuse it (Landlock ABI 9), a socket bound after the start answers: docs/limitations.md."""
    place = str(installation.workspace / "late.sock")
    with server(installation.workspace, place):
        refusal = "ECONNREFUSED" if contract.own_kernel() else "EACCES"
        expected = refusal if contract.own_kernel() or landlock.abi() >= 9 else "ok"
        assert inside(box, CONNECT, (place, "SOCK_STREAM")) == [expected]
