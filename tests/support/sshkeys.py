"""Real keys and a real ssh-agent, and what an ssh client would ask of it."""

from __future__ import annotations

import base64
import os
import pwd
import socket
import struct
import subprocess
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paddock.sshagent import wire
from paddock.sshagent.wire import string
from tests.support.installation import until
from tests.support.internet import accounts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = (("ed25519", "256"), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048"))


def somebody(place: Path) -> list[str]:
    """Words before a program of OpenSSH, which wants an account: the user of the tests may have none."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        (place / "passwd").write_text(accounts())
        script = 'mount --bind "$1" /etc/passwd; shift; exec "$@"'
        names = ["--user", "--map-current-user", "--keep-caps", "--mount", "--propagation", "private"]
        return ["unshare", *names, "sh", "-c", script, "sh", str(place / "passwd")]
    return []


def make(place: Path, name: str, kind: str = "ed25519", bits: str = "256") -> bytes:
    """A key pair in files; returns the public one."""
    words = ["ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", "", "-C", name, "-f", str(place / name)]
    subprocess.run([*somebody(place), *words], check=True, stdin=subprocess.DEVNULL)
    return public(place / f"{name}.pub")


def public(path: Path) -> bytes:
    return base64.b64decode(path.read_text().split()[1])


@contextmanager
def agent(place: Path, *keys: str) -> Iterator[str]:
    """An agent that holds the keys of these files; its socket."""
    # A name of its own: that of a test may be too long for a socket.
    with (
        tempfile.TemporaryDirectory() as own,
        subprocess.Popen(
            [*somebody(place), "ssh-agent", "-D", "-a", path := f"{own}/agent"], stdout=subprocess.DEVNULL
        ) as process,
    ):
        try:
            until(lambda: _listens(path), "the agent listens")
            for key in keys:
                add = [*somebody(place), "ssh-add", "-q", str(place / key)]
                subprocess.run(add, env={**os.environ, "SSH_AUTH_SOCK": path}, check=True, stderr=subprocess.DEVNULL)
            yield path
        finally:
            process.terminate()


def _listens(path: str) -> bool:
    """Its socket has a name before anybody is let in."""
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(path) == 0


def asked(path: str, payload: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        return ask(peer, payload)


def ask(peer: socket.socket, payload: bytes) -> bytes:
    peer.sendall(wire.framed(payload))
    stream = peer.makefile("rb")
    return stream.read(struct.unpack(">I", stream.read(4))[0])


def signed_by(path: str, key: bytes, data: bytes, flags: int = 0) -> bytes:
    """A signature of the agent's."""
    answer = asked(path, bytes([wire.SIGN]) + string(key) + string(data) + struct.pack(">I", flags))
    assert answer[0] == wire.SIGNED, answer
    reader = wire.Reader(answer[1:])
    return reader.string()


def login(session: bytes, key: bytes, host_key: bytes = b"", service: bytes = b"ssh-connection") -> bytes:
    """The data of a login, as RFC 4252 and OpenSSH's host-bound form of it say."""
    method = b"publickey-hostbound-v00@openssh.com" if host_key else b"publickey"
    fields = string(b"me") + string(service) + string(method)
    return (
        string(session)
        + b"\x32"
        + fields
        + b"\x01"
        + string(b"ssh-ed25519")
        + string(key)
        + (string(host_key) if host_key else b"")
    )


def bind(host_key: bytes, session: bytes, signature: bytes, forwarding: int = 0) -> bytes:
    body = string(host_key) + string(session) + string(signature) + bytes([forwarding])
    return bytes([wire.EXTENSION]) + string(wire.SESSION_BIND) + body


def sign(key: bytes, data: bytes, flags: int = 0) -> bytes:
    return bytes([wire.SIGN]) + string(key) + string(data) + struct.pack(">I", flags)
