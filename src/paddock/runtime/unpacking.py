"""Have an image unpacked or written by a process that can do nothing else (layerjail.py), with the ids of boxes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock import codec, proc, text
from paddock.engines.container import ids
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images.documents import DIGEST, ImageConfig
from paddock.images.layers import LayerId, Layers
from paddock.runtime import leaving
from paddock.runtime.layerjail import CHANNEL, HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.engines.container.ids import Ids
    from paddock.images.export import Picture
    from paddock.images.leases import Lease

_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.runtime.layerjail import main; main()"
_READY_S: Final = 30.0
_LEAVE_S: Final = 60.0
_ANSWER_BYTES: Final = 1 << 24
_CODE: Final = re.compile(r"[a-z-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    layers: tuple[LayerId, ...]
    config: ImageConfig
    tags: tuple[str, ...] = ()  # its names in the file: somebody else's words
    digest: str = ""
    beside: tuple[str, ...] = ()  # the names of other images in the file


def unpack(
    fd: int, place: str, owner: tuple[int, int] = (0, 0), lease: Lease | None = None, tags: Sequence[str] = ()
) -> Unpacked:
    """The image of an open file, in the store at `place`; `owner` is whom the caller's id stands for. May take long.

    Its layers are kept by `lease`, if there is one, before who unpacked them lets go of them. With `tags` the file has
    an image of the first of them, and may have some of the others, and nothing else.
    """
    with _asked(fd, place, owner, "image", " ".join(tags)) as answer:
        layers = _layers(answer, Layers(place), lease)
    return Unpacked(
        layers=layers,
        config=_config(answer),
        tags=_texts(answer, "tags"),
        digest=_digest(answer),
        beside=_texts(answer, "beside"),
    )


def write_out(
    fd: int,
    place: str,
    pictures: Sequence[Picture],
    owner: tuple[int, int],
    *,
    for_docker: bool = True,
    keeps_room: bool = False,
) -> tuple[ImageConfig, str]:
    """Images into an open file: of the first its configuration with its sums, and the sum of its manifest.

    One of ours keeps room for the host; what a user asks for may fill the disk that they said.
    """
    listed = [codec.to_wire(one) for one in pictures]
    words = json.dumps({"pictures": listed, "for_docker": for_docker, "keeps_room": keeps_room})
    with _asked(fd, place, owner, "export", words) as answer:
        return _config(answer), _digest(answer)


def _texts(answer: dict[str, object], key: str) -> tuple[str, ...]:
    words = answer.get(key)
    if not isinstance(words, list):
        raise _unanswered()
    return tuple(map(str, words))


def _digest(answer: dict[str, object]) -> str:
    digest = str(answer.get("digest"))
    if not DIGEST.fullmatch(digest):
        raise _unanswered()
    return digest


def _config(answer: dict[str, object]) -> ImageConfig:
    config = answer.get("config")
    if not isinstance(config, str):
        raise _unanswered()
    return ImageConfig.read(config.encode())


def add(fd: int, place: str, owner: tuple[int, int] = (0, 0), lease: Lease | None = None) -> LayerId:
    """One layer of the store, from its archive in an open file."""
    with _asked(fd, place, owner, "layer") as answer:
        return _layer(answer, place, lease)


def add_nested(fd: int, place: str, target: str, lease: Lease, *, is_owned: bool) -> LayerId:
    """One layer of what an archive holds, below a directory; `target` is steptargets' text of it."""
    words = json.dumps({"target": target, "is_owned": is_owned})
    with _asked(fd, place, (0, 0), "nested", words) as answer:
        return _layer(answer, place, lease)


def merge(place: str, chain: Sequence[str], lease: Lease) -> LayerId:
    """One layer that is what several of the store are together, lowest first. May take long."""
    fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _asked(fd, place, (0, 0), "merge", json.dumps(list(chain))) as answer:
            return _layer(answer, place, lease)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _asked(fd: int, place: str, owner: tuple[int, int], what: str, words: str = "") -> Iterator[dict[str, object]]:
    """The process is there, with what it holds, until this is left."""
    granted = ids.to_unpack(owner)
    whole = granted.count >= ids.IDS
    # A root caller's files have the ids of the image itself, whoever the box's user is.
    uid, gid = owner if whole and granted.by_tool else (0, 0)
    request = {"what": what, "store": place, "ids": ids.IDS if whole else 0, "uid": uid, "gid": gid, "words": words}
    Layers(place)  # so that there is one to show
    with _told(granted, json.dumps(request).encode(), fd) as data:
        yield _read(data)


@contextlib.contextmanager
def _told(granted: Ids, request: bytes, fd: int) -> Iterator[bytes]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, package_root()]
        with proc.spawn_child(argv, env={"LC_ALL": "C.UTF-8"}, pass_fds={CHANNEL: theirs.fileno()}) as child:
            theirs.close()
            ours.settimeout(_READY_S)
            if not ours.recv(1):
                raise _unanswered()
            ids.give(child.pid, granted)
            ours.settimeout(None)  # as long as it takes: it is bounded by the space there is
            socket.send_fds(ours, [HEADER.pack(len(request))], [fd])
            ours.sendall(request)
            try:
                yield _whole(ours, child)
            finally:
                ours.close()
                child.wait(_LEAVE_S)  # it clears away what it staged


def _whole(channel: socket.socket, child: proc.Child) -> bytes:
    parts = bytearray()
    try:
        while len(parts) <= _ANSWER_BYTES:
            leaving.readable(channel.fileno())
            if not (data := channel.recv(1 << 16)):
                break
            parts += data
    except BaseException:
        child.signal(signal.SIGTERM)
        raise
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


def _layer(answer: dict[str, object], place: str, lease: Lease | None) -> LayerId:
    found = _layers(answer, Layers(place), lease)
    if len(found) != 1:
        raise _unanswered()
    return found[0]


def _layers(answer: dict[str, object], layers: Layers, lease: Lease | None = None) -> tuple[LayerId, ...]:
    found = tuple(map(LayerId, _texts(answer, "layers")))
    for layer in found:
        if lease is None or not layers.keep(lease, layer):
            layers.tree(layer)  # says that there is none
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
