"""Unix sockets at paths of any length, private from the first moment, never through a symbolic link.

An address holds 107 bytes, less than many home directories allow for, so sockets are named through a descriptor of
their directory: /proc/self/fd/N/name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct

from paddock.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_INT = struct.Struct("i")
_ADDRESS_BYTES = 108
_CONNECT_TIMEOUT_S = 5.0  # a listener that is alive but stuck has a full queue


def bind_unix(directory: str | int, name: str, *, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A socket bound at `name` in the directory (a path or a descriptor), mode 0600, not yet listening.

    A socket left behind by a dead process is replaced, one that answers is not; the caller's FileLock keeps two
    processes from doing this at once.
    """
    with _directory(directory) as at:
        address = f"/proc/self/fd/{at}/{_leaf(name)}"
        if isinstance(directory, str) and len(os.fsencode(plain := f"{directory}/{name}")) < _ADDRESS_BYTES:
            address = plain  # whoever reads the kernel's table of sockets finds it
        listener = socket.socket(socket.AF_UNIX, kind)
        try:
            # Before bind: the kernel gives the new name this mode, so there is no moment when others could connect.
            os.fchmod(listener.fileno(), 0o600)
            try:
                listener.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                _remove_dead(at, name, kind)
                listener.bind(address)
        except BaseException:
            listener.close()
            raise
    return listener


def connect_unix(
    directory: str | int, name: str, *, kind: int = socket.SOCK_STREAM, timeout_s: float = _CONNECT_TIMEOUT_S
) -> socket.socket:
    """A blocking socket connected to `name` in the directory.

    FileNotFoundError and ConnectionRefusedError pass through: they say that nobody serves. What is no socket, a link
    to one included, is Unavailable: in a directory an agent writes to it could lead to any socket of the host.
    """
    with _directory(directory) as at:
        place = os.open(_leaf(name), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if not stat.S_ISSOCK(os.fstat(place).st_mode):
            raise Unavailable(f"{name!r} is not a socket", code="not-a-socket")
        return _connect(f"/proc/self/fd/{place}", name, kind, timeout_s)
    finally:
        os.close(place)


def receive_fds(sock: socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """As socket.recv_fds, which drops its flags argument: no program we start inherits what arrives here."""
    space = socket.CMSG_SPACE(count * _INT.size)
    data, ancillary, _, _ = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += (number for (number,) in _INT.iter_unpack(raw[: len(raw) // _INT.size * _INT.size]))
    return data, fds


def _connect(address: str, name: str, kind: int, timeout_s: float) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, kind)
    try:
        # A non-blocking connect does not wait for room in the listener's queue; this is the timeout for that wait.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout_s))
        peer.connect(address)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(0))
    except BlockingIOError as error:
        peer.close()
        raise Unavailable(f"the server of {name!r} does not answer", code="busy") from error
    except BaseException:
        peer.close()
        raise
    return peer


def _timeval(seconds: float) -> bytes:
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))


def _remove_dead(at: int, name: str, kind: int) -> None:
    try:
        connect_unix(at, name, kind=kind, timeout_s=0.1).close()
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        os.unlink(name, dir_fd=at)
        return
    raise Unavailable(f"another process already serves {name!r}", code="in-use")


def _leaf(name: str) -> str:
    if not name or "/" in name or "\0" in name or name in {".", ".."}:
        raise OSError(errno.EINVAL, "not the name of a socket", name)
    return name


@contextlib.contextmanager
def _directory(directory: str | int) -> Iterator[int]:
    if isinstance(directory, int):
        yield directory
        return
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
