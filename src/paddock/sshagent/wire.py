"""The agent protocol (draft-miller-ssh-agent) and the two things in it that are judged: sessions and logins.

Everything here comes from a box or from an agent. It is one plain reading, to the last byte, or Malformed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from paddock.errors import PaddockError

FAILURE: Final = 5
SUCCESS: Final = 6
REQUEST_IDENTITIES: Final = 11
IDENTITIES: Final = 12
SIGN: Final = 13
SIGNED: Final = 14
EXTENSION: Final = 27
SESSION_BIND: Final = b"session-bind@openssh.com"

_USERAUTH_REQUEST: Final = 50  # RFC 4252
_PLAIN: Final = b"publickey"
_HOST_BOUND: Final = b"publickey-hostbound-v00@openssh.com"
_SIGN_FLAGS: Final = frozenset({0, 2, 4})  # RSA with SHA-2; one at a time
_WORD: Final = struct.Struct(">I")


class Malformed(PaddockError):
    """Not what the protocol says; no more is read from whoever sent it."""

    kind = "bad-agent"

    def __init__(self) -> None:
        super().__init__("a message of an ssh-agent is malformed")


@dataclass(frozen=True, slots=True)
class Bind:
    """A session with a host, as the host's own signature says; `forwarding` if it is for someone behind that host."""

    host_key: bytes
    session: bytes
    signature: bytes
    forwarding: bool


@dataclass(frozen=True, slots=True)
class Login:
    """What a signature would be for: a user's login in a session."""

    session: bytes
    user: bytes
    key: bytes
    host_key: bytes  # empty where the client's ssh does not say it


@dataclass(frozen=True, slots=True)
class Sign:
    key: bytes
    login: Login


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise Malformed
        piece, self._at = self._data[self._at : end], end
        return piece

    def number(self) -> int:
        found: int = _WORD.unpack(self.take(4))[0]
        return found

    def string(self) -> bytes:
        return self.take(self.number())

    def flag(self) -> bool:
        (byte,) = self.take(1)
        if byte > 1:
            raise Malformed
        return byte == 1

    def mpint(self) -> int:
        """Not negative, in the fewest octets."""
        data = self.string()
        number = int.from_bytes(data, "big")
        fewest = number.to_bytes(number.bit_length() // 8 + 1, "big") if number else b""
        if data != fewest:
            raise Malformed
        return number

    def end(self) -> None:
        if self._at != len(self._data):
            raise Malformed


def string(data: bytes) -> bytes:
    return _WORD.pack(len(data)) + data


def framed(payload: bytes) -> bytes:
    return string(payload)


def bind_of(payload: bytes) -> Bind | None:
    """Of the body of an EXTENSION; None if it is another one."""
    reader = Reader(payload)
    if reader.string() != SESSION_BIND:
        return None
    found = Bind(reader.string(), reader.string(), reader.string(), reader.flag())
    reader.end()
    return found


def sign_of(payload: bytes) -> Sign | None:
    """Of the body of a SIGN; None if what is to be signed is no login, such as a commit, a file or a certificate."""
    reader = Reader(payload)
    key, data, flags = reader.string(), reader.string(), reader.number()
    reader.end()
    try:
        login = login_of(data)
    except Malformed:
        return None
    return Sign(key, login) if flags in _SIGN_FLAGS and login.key == key else None


def login_of(data: bytes) -> Login:
    """RFC 4252 7: session identifier, request, user, service, method, TRUE, algorithm, key."""
    reader = Reader(data)
    session = reader.string()
    if reader.take(1) != bytes([_USERAUTH_REQUEST]):
        raise Malformed
    user, service, method = reader.string(), reader.string(), reader.string()
    if service != b"ssh-connection" or method not in {_PLAIN, _HOST_BOUND} or not reader.flag():
        raise Malformed
    reader.string()  # the algorithm; the agent signs by the key's own
    key = reader.string()
    host_key = reader.string() if method == _HOST_BOUND else b""
    reader.end()
    if not session or (method == _HOST_BOUND and not host_key):
        raise Malformed
    return Login(session, user, key, host_key)


def identities_of(payload: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and their comments, of the body of an IDENTITIES."""
    reader = Reader(payload)
    found = [(reader.string(), reader.string()) for _ in range(reader.number())]
    reader.end()
    return found


def identities(keys: list[tuple[bytes, bytes]]) -> bytes:
    return (
        bytes([IDENTITIES]) + _WORD.pack(len(keys)) + b"".join(string(key) + string(comment) for key, comment in keys)
    )
