"""A real init without a box around it, and a client that speaks its frames.

As in a box it is pid 1 of its own pid namespace and has no capabilities: what it starts and whom it kills stays there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock import frames
from paddock.engines.guest import init
from paddock.engines.process import kernel
from tests.support import namespaces
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

Message = dict[str, Any]

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
_NAMESPACES = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID


class Guest:
    """One init; closing it asserts that it was still there, and that it never raised."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = directory / "init.log"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(directory / "init.sock"))
        self._listener.listen(256)
        self.pid = namespaces.spawn(self._become, _NAMESPACES)
        self._listener.close()
        self._clients: list[Client] = []
        self._ended = False
        self._control = self.client()
        self.idle_descriptors = self.descriptors()

    def __repr__(self) -> str:
        return f"<Guest {self.pid}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _become(self) -> None:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.setsid()
        namespaces.own_proc()
        kernel.drop_all_capabilities()
        null = os.open("/dev/null", os.O_RDWR)
        for fd, number in ((null, 0), (null, 1), (log, 2)):
            os.dup2(fd, number)
        kernel.close_all_but({0, 1, 2, self._listener.fileno()})
        os.set_inheritable(self._listener.fileno(), True)  # as descriptors are that came over a socket
        init.serve(self._listener.fileno())

    def client(self) -> Client:
        self._clients.append(Client(socket.socket(socket.AF_UNIX)))
        self._clients[-1].socket.connect(os.fspath(self.directory / "init.sock"))
        return self._clients[-1]

    def ask(self, **request: Any) -> Message:
        """One request on a connection of its own, one message back."""
        with self.client() as client:
            client.send(**request)
            return client.message()

    def run(self, *argv: str, stdin: bytes | None = None, **options: Any) -> Ended:
        with self.client() as client:
            client.start(*argv, stdin=stdin is not None, **options)
            if stdin is not None:
                client.feed(stdin)
            return client.finish()

    def sh(self, script: str, **options: Any) -> Ended:
        return self.run("sh", "-c", script, **options)

    def catch_up(self) -> None:
        """Returns when init has handled all that happened before."""
        self._control.send(op="ping")
        assert self._control.message()["event"] == "pong"

    def hang_up(self) -> None:
        """Close every connection but our own."""
        for client in self._clients[1:]:
            client.close()
        del self._clients[1:]

    def descriptors(self) -> int:
        self.catch_up()
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def await_idle(self) -> None:
        """Returns when init holds nothing of any client or command."""
        until(lambda: self.descriptors() == self.idle_descriptors, "init holds no more than at its start")

    def resident_kib(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait_ended(self) -> int:
        """Wait until init is gone by itself; its exit code."""
        until(lambda: not alive(self.pid), "init ended")
        self._ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self._ended:
            assert self.log() == ""
            return
        running = alive(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        assert self.log() == ""
        assert running, "init ended by itself"


@contextlib.contextmanager
def new_guest() -> Iterator[Guest]:
    # Not tmp_path: a socket's name has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="guest-") as directory, Guest(Path(directory)) as found:
        yield found


class Ended:
    def __init__(self, stdout: bytes, stderr: bytes, end: Message) -> None:
        self.stdout, self.stderr, self.end = stdout, stderr, end

    def __repr__(self) -> str:
        return f"<Ended {self.end} {self.stdout[:400]!r} {self.stderr[:400]!r}>"

    @property
    def code(self) -> int:
        code = self.end["code"]
        assert isinstance(code, int), self
        return code


class Client:
    """One connection, decoded with the host's own decoder."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(20)
        self._decoder = frames.Decoder()
        self._frames: list[tuple[int, bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # -- out -----------------------------------------------------------------------------------------------------------

    def send(self, fds: Sequence[int] = (), **request: Any) -> None:
        data = frames.encode_message(request)
        sent = socket.send_fds(self.socket, [data], list(fds)) if fds else 0
        self.socket.sendall(data[sent:])

    def data(self, kind: int, payload: bytes) -> None:
        self.socket.sendall(frames.encode(kind, payload))

    def feed(self, stdin: bytes, *, end: bool = True) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the end is on its way to us
            for start in range(0, len(stdin), 65536):
                self.data(frames.STDIN, stdin[start : start + 65536])
            if end:
                self.data(frames.STDIN, b"")

    def begin(self, *argv: str, fds: Sequence[int] = (), env: Mapping[str, str] = ENVIRONMENT, **options: Any) -> None:
        request = {"op": "start", "id": os.urandom(4).hex(), "argv": argv, "cwd": "/", "env": dict(env), **options}
        self.send(fds=fds, **request)

    def start(
        self, *argv: str, fds: Sequence[int] = (), env: Mapping[str, str] = ENVIRONMENT, **options: Any
    ) -> Message:
        self.begin(*argv, fds=fds, env=env, **options)
        started = self.message()
        assert started["event"] == "started", started
        return started

    # -- in ------------------------------------------------------------------------------------------------------------

    def frame(self) -> tuple[int, bytes] | None:
        """The next frame, or None when init hung up."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    def message(self) -> Message:
        found = self.frame()
        assert found is not None, "init hung up"
        assert found[0] == frames.MESSAGE, found
        return frames.decode_message(found[1])

    def hung_up(self) -> bool:
        return self.frame() is None

    def read_until(self, text: bytes) -> bytes:
        """Output up to and with `text`."""
        seen = bytearray()
        while text not in seen:
            found = self.frame()
            assert found is not None, (text, bytes(seen))
            assert found[0] in {frames.STDOUT, frames.STDERR}, found
            seen += found[1]
        return bytes(seen)

    def finish(self) -> Ended:
        """All that comes until the command's end."""
        kept = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        while True:
            found = self.frame()
            assert found is not None, ("init hung up", kept)
            if found[0] == frames.MESSAGE:
                message = frames.decode_message(found[1])
                assert message["event"] == "exit", message
                return Ended(bytes(kept[frames.STDOUT]), bytes(kept[frames.STDERR]), message)
            kept[found[0]] += found[1]

    def file(self) -> bytes:
        """A file's frames up to its empty one."""
        seen = bytearray()
        while True:
            found = self.frame()
            assert found is not None
            assert found[0] == frames.FILE, found
            if not found[1]:
                return bytes(seen)
            seen += found[1]


def settled(read: object, seconds: float = 0.3) -> bool:
    """Does a figure stand still for so long? For what must not happen any more, which no event announces."""
    assert callable(read)
    before = read()
    time.sleep(seconds)
    return bool(read() == before)
