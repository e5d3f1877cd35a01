"""Have an image unpacked by a process that can do nothing else (layerjail.py), with the ids that boxes have."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import proc, text
from paddock.engines.container import ids
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images.documents import ImageConfig
from paddock.images.layers import LayerId, Layers
from paddock.runtime.layerjail import CHANNEL

if TYPE_CHECKING:
    from paddock.engines.container.ids import Ids

_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.runtime.layerjail import main; main()"
_READY_S: Final = 30.0
_ANSWER_BYTES: Final = 1 << 24
_CODE: Final = re.compile(r"[a-z-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    layers: tuple[LayerId, ...]
    config: ImageConfig


def unpack(fd: int, place: str, owner: tuple[int, int] = (0, 0)) -> Unpacked:
    """The image of an open file, in the store at `place`; `owner` is whom the caller's id stands for. May take long."""
    answer = _answer(fd, place, owner, "image")
    config = answer.get("config")
    if not isinstance(config, str):
        raise _unanswered()
    return Unpacked(layers=_layers(answer, Layers(place)), config=ImageConfig.read(config.encode()))


def add(fd: int, place: str, owner: tuple[int, int] = (0, 0)) -> LayerId:
    """One layer of the store, from its archive in an open file."""
    found = _layers(_answer(fd, place, owner, "layer"), Layers(place))
    if len(found) != 1:
        raise _unanswered()
    return found[0]


def _answer(fd: int, place: str, owner: tuple[int, int], what: str) -> dict[str, object]:
    granted = ids.to_unpack(owner)
    whole = granted.count >= ids.IDS
    # A root caller's files have the ids of the image itself, whoever the box's user is.
    uid, gid = owner if whole and granted.by_tool else (0, 0)
    request = {"what": what, "store": place, "ids": ids.IDS if whole else 0, "uid": uid, "gid": gid}
    Layers(place)  # so that there is one to show
    return _read(_ask(granted, json.dumps(request).encode(), fd))


def _ask(granted: Ids, request: bytes, fd: int) -> bytes:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, package_root()]
        with proc.spawn_child(argv, env={"LC_ALL": "C.UTF-8"}, pass_fds={CHANNEL: theirs.fileno()}) as child:
            theirs.close()
            ours.settimeout(_READY_S)
            if not ours.recv(1):
                return b""
            ids.give(child.pid, granted)
            ours.settimeout(None)  # as long as it takes: it is bounded by the space there is
            socket.send_fds(ours, [request], [fd])
            return _whole(ours)


def _whole(channel: socket.socket) -> bytes:
    parts = bytearray()
    while len(parts) <= _ANSWER_BYTES and (data := channel.recv(1 << 16)):
        parts += data
    return bytes(parts)


def _read(data: bytes) -> dict[str, object]:
    """It may be what an image made of the process: every word of it is looked at as such."""
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _unanswered()
    if "error" in answer:
        raise _refusal(answer)
    return answer


def _layers(answer: dict[str, object], layers: Layers) -> tuple[LayerId, ...]:
    words = answer.get("layers")
    if not isinstance(words, list):
        raise _unanswered()
    found = tuple(LayerId(str(word)) for word in words)
    for layer in found:
        layers.tree(layer)
    return found


def _unanswered() -> Unavailable:
    return Unavailable("an image could not be unpacked: its process went away", code="unpack")


def _refusal(answer: dict[str, object]) -> PaddockError:
    message, hint = (text.neutralise(str(answer.get(key, "")), 400) for key in ("error", "hint"))
    code = str(answer.get("code", ""))
    kind = UserError if answer.get("by_user") is True else Unavailable
    return kind(message, hint=hint, code=code if _CODE.fullmatch(code) else "unpack")


def is_mapped() -> bool:
    """Whether the ids of layers depend on whom the caller's own id stands for."""
    return os.getuid() != 0 and ids.own(os.getuid(), os.getgid()).by_tool
