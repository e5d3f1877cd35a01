"""The socket that a box's init listens on, from the host's side: made, called at, asked who answers, taken away."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
import struct
import time
from typing import TYPE_CHECKING

from paddock import frames, fs
from paddock.engines.process import handle
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.engines.base import Placement
    from paddock.model import Evidence

log = logging.getLogger(__name__)
SOCKET = "init.sock"
KEEPER = "keeper.sock"  # of a container box: what holds its seal and its mounts is not its init
HANDLES_MAX = 5  # of overlays, and one of its mounts
_CONNECT_S = 0.1  # an init that takes nobody must not hold up the daemon, which waits here with all its boxes
_ANSWER_S = 1.0
_RESEAL_S = 5.0
_REPLY_BYTES = 4096
_BACKLOG = 512  # connections init has not taken yet: commands that start in one box at the same moment


@contextlib.contextmanager
def listening(placement: Placement, name: str = SOCKET) -> Iterator[socket.socket]:
    """The listener that init gets; when its start fails there is nothing left to call at."""
    _clear_place(_path(placement, name))
    with fs.bind_unix(_directory(placement), name) as listener:
        listener.listen(_BACKLOG)
        try:
            yield listener
        except BaseException:
            remove(placement, name)
            raise


def remove(placement: Placement, name: str = SOCKET) -> None:
    try:
        os.unlink(_path(placement, name))
    except FileNotFoundError:
        pass


def connect(placement: Placement, name: str = SOCKET) -> socket.socket:
    return fs.connect_unix(_directory(placement), name, timeout_s=_CONNECT_S)


def reseal(placement: Placement, door: int, name: str = SOCKET) -> None:
    try:
        with connect(placement, name) as channel:
            channel.settimeout(_RESEAL_S)
            socket.send_fds(channel, [frames.encode_message({"op": "seal"})], [door])
            answer = first_message(channel, _RESEAL_S)
    except (OSError, ValueError) as error:
        raise _not_resealed(placement, str(error) or "no answer") from error
    if answer.get("event") != "done":
        raise _not_resealed(placement, str(answer.get("message"))[:200])


def ask_handles(placement: Placement, name: str = SOCKET) -> list[int]:
    """What init keeps for the host: handles of its overlays and, last, of its mount namespace.

    # TRUST: init's word; a descriptor that is none of these is of no use for what we do with it.
    """
    try:
        with connect(placement, name) as channel:
            channel.settimeout(_ANSWER_S)
            channel.sendall(frames.encode_message({"op": "handles"}))
            return fs.receive_fds(channel, _REPLY_BYTES, HANDLES_MAX)[1]
    except (OSError, Unavailable) as error:
        log.warning("%s gives no handles: %s", placement.spec.name, error)
        return []


def ask_alone(placement: Placement) -> bool:
    """Whether nothing but init is in a box of whose processes the host sees nothing. Its word: a lie ends its own."""
    try:
        with connect(placement) as channel:
            channel.sendall(frames.encode_message({"op": "alone"}))
            return first_message(channel, _ANSWER_S).get("alone") is True
    except (OSError, ValueError, Unavailable):
        return False


def ask_identity(placement: Placement, kernel_uid: int, name: str = SOCKET) -> Evidence | None:
    """A box started just before its daemon died has no record: the kernel says who answers on its socket."""
    try:
        channel = connect(placement, name)
    except (OSError, Unavailable):  # nobody, or no socket, or one who takes nobody
        return None
    with channel:
        channel.settimeout(_ANSWER_S)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            channel.send(frames.encode_message({"op": "ping"}))
            _, ancillary, _, _ = channel.recvmsg(_REPLY_BYTES, socket.CMSG_SPACE(12))
        except OSError:
            return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _ = struct.unpack("iii", data[:12])
            if uid == kernel_uid and _is_first(pid):
                return handle.evidence_of(pid)
    return None


def _directory(placement: Placement) -> str:
    return f"{placement.directory}/run"


def _path(placement: Placement, name: str) -> str:
    return f"{_directory(placement)}/{name}"


def _clear_place(path: str) -> None:
    """What is no socket cannot be a box that still runs."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass


def first_message(channel: socket.socket, timeout_s: float) -> dict[str, object]:
    """What init says; it is a box's word, and comes whole in this time or not at all."""
    decoder = frames.Decoder()
    deadline_s = time.monotonic() + timeout_s
    while data := _received(channel, deadline_s):
        for kind, payload in decoder.feed(data):
            if kind == frames.MESSAGE:
                return frames.decode_message(payload)
    raise ConnectionResetError(errno.ECONNRESET, "it hung up")


def _received(channel: socket.socket, deadline_s: float) -> bytes:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("it did not answer in time")
    channel.settimeout(left_s)
    return channel.recv(_REPLY_BYTES)


def _not_resealed(placement: Placement, why: str) -> Unavailable:
    return Unavailable(f"the box {placement.spec.name!r} takes no new gateway: {why}", code="reseal")


def _is_first(pid: int) -> bool:
    """Is it the first process of a namespace of its own? Only then does its end end the box."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # its name is in there: only a newline ends a line
            numbers = next((line.split()[1:] for line in file if line.startswith(b"NSpid:")), [])
    except OSError:
        return False
    return len(numbers) > 1 and numbers[-1] == b"1"
