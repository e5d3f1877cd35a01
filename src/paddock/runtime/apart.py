"""Work on trees that boxes wrote, with the ids that boxes have: their users are not ours, and may have closed files.

A root caller may do all of it. For anyone else it is done by a program of its own that is root of the caller's
subordinate ids, or of the one id that there is, and of nothing else.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from paddock import codec, fs, proc
from paddock.engines.container import ids
from paddock.engines.process import kernel
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, Unavailable, from_wire
from paddock.images import layers, stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CHANNEL: Final = 3
_TASK_BYTES: Final = 1 << 20
_READY_S: Final = 10.0
_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.runtime.apart import main; main()"


def copy(source: str, target: str) -> None:
    """As fs.copy_tree. May take long."""
    _do("copy", [source], [target])


def move(source: str, target: str) -> None:
    """As images.layers.rename_tree; a box may have given the directory to another of its users."""
    try:
        layers.rename_tree(source, target)
    except PermissionError:
        _do("move", [source], [target])


def discard(path: str, trash: str) -> str:
    """As fs.discard_tree."""
    place = f"{trash}/{os.urandom(16).hex()}"
    if not fs.is_missing(path):
        move(path, place)
    return place


def differences(one: Sequence[str], other: Sequence[str], most: int) -> tuple[list[stacks.Difference], bool]:
    """As images.stacks has it. May take long."""
    answer = _do("differ", [*one], [*other], most)
    assert isinstance(answer, list)
    *found, whole = answer
    return [codec.from_wire(stacks.Difference, item) for item in found], bool(whole)


def _copy(source: list[str], target: list[str], _most: int) -> list[object]:
    fs.copy_tree(source[0], target[0])
    return []


def _move(source: list[str], target: list[str], _most: int) -> list[object]:
    layers.rename_tree(source[0], target[0])
    return []


def _differ(one: list[str], other: list[str], most: int) -> list[object]:
    found, whole = stacks.differences(one, other, most)
    return [*map(codec.to_wire, found), whole]


_TASKS: Final[dict[str, Callable[[list[str], list[str], int], list[object]]]] = {
    "copy": _copy,
    "move": _move,
    "differ": _differ,
}


def _do(task: str, one: list[str], other: list[str], most: int = 0) -> object:
    if os.getuid() == 0:
        return _TASKS[task](one, other, most)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, package_root()]
        with proc.spawn_child(argv, env={"LC_ALL": "C.UTF-8"}, pass_fds={_CHANNEL: theirs.fileno()}) as child:
            theirs.close()
            ours.settimeout(_READY_S)
            if not ours.recv(1):  # it is in its namespace, and has no ids yet
                raise Unavailable(f"no user namespace to {task} files in", hint="run `paddock doctor`", code="ids")
            _give(child.pid)
            ours.settimeout(None)
            ours.sendall(json.dumps([task, one, other, most]).encode())
            ours.shutdown(socket.SHUT_WR)
            return _answer(task, _all(ours))


def _give(pid: int) -> None:
    granted = ids.own(os.getuid(), os.getgid())
    if granted.by_tool:
        ids.give(pid, granted)
        return
    uids, gids = granted.texts()
    for name, text in (("setgroups", "deny"), ("uid_map", uids), ("gid_map", gids)):
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _all(channel: socket.socket) -> bytes:
    data = b""
    while piece := channel.recv(_TASK_BYTES):
        data += piece
    return data


def _answer(task: str, data: bytes) -> object:
    if not data:
        raise Unavailable(f"cannot {task} the files of a box: the program for it died", code="os")
    answer: dict[str, object] = json.loads(data)
    if "error" in answer:
        raise from_wire(answer["error"])
    return answer["done"]


def main() -> None:
    channel = socket.socket(fileno=_CHANNEL)
    kernel.unshare(kernel.CLONE_NEWUSER)
    channel.send(b"1")
    data = _all(channel)
    if not data:
        return
    task, one, other, most = json.loads(data)
    try:
        answer: dict[str, object] = {"done": _TASKS[task](one, other, most)}
    except PaddockError as error:
        answer = {"error": error.to_wire()}
    except OSError as error:
        answer = {"error": Unavailable(f"cannot {task} files: {error.strerror}", code="os").to_wire()}
    channel.sendall(json.dumps(answer).encode())
