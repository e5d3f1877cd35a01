"""Work on trees that boxes wrote, with the ids that boxes have: their users are not ours, and may have closed files.

A root caller may do all of it. For anyone else it is done by a program of its own that is root of the caller's
subordinate ids, or of the one id that there is, and of nothing else.
"""

from __future__ import annotations

import contextlib
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
from paddock.fs import resolving
from paddock.images import layers, marks, merging, stacks
from paddock.runtime import steptargets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paddock.images.context import Target

_CHANNEL: Final = 3
_TASK_BYTES: Final = 1 << 20
_READY_S: Final = 10.0
_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.runtime.apart import main; main()"


def copy(source: str, target: str) -> None:
    """As fs.copy_tree. May take long."""
    _do("copy", [source], [target])


def take_in(directory: str, target: str) -> None:
    """A copy of a directory of the user's at its own place, and not behind a link of some box. May take long."""
    _do("take in", [directory], [target])


def bring(source: str, place: str, trees: Sequence[str]) -> None:
    """A copy at a new place of the user's, whole or not at all; `place` and `trees` as fs/resolving.py has them.

    May take long, in which a box may do what it can to the directory around.
    """
    _do("bring", [source], [place, *trees])


def make_like(model: str, target: str) -> None:
    """An empty directory with the owner, permissions and marks of another, but for what only an overlay says."""
    try:
        _make_like([model], [target], 0)
    except PermissionError:
        fs.remove_tree(target)
        _do("make", [model], [target])


def flatten(trees: Sequence[str], paths: Sequence[str], target: str) -> None:
    """As merging.copy has it. May take long."""
    _do("flatten", [*trees], [target, *paths])


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


def tree_bytes(
    path: str, entries_max: int, seconds_max: float, *, least_bytes: int = 0, passing: Sequence[str] = ()
) -> tuple[int, bool]:
    """As fs.tree_bytes, and where a box has closed a directory to us: what lies there would count for nothing."""
    found = fs.tree_bytes(path, entries_max, seconds_max, least_bytes=least_bytes, passing=passing)
    if found[1] or os.getuid() == 0:
        return found
    words = [str(entries_max), str(seconds_max), str(least_bytes), *passing]
    try:
        answer = _do("measure", [path], words)
    except (OSError, PaddockError):
        return found  # at least that
    assert isinstance(answer, list)
    return int(answer[0]), bool(answer[1])


def target(trees: Sequence[str], path: str, chown: str = "") -> Target:
    """As steptargets.find."""
    answer = _do("look in", [*trees], [path, chown])
    assert isinstance(answer, list)
    return steptargets.read_target(str(answer[0]))


def write_copy(trees: Sequence[str], copy: str, target: Target, place: str) -> None:
    """As steptargets has it. May take long."""
    _do("take", [*trees], [copy, steptargets.target_text(target), place])


def pack(tree: str, place: str, owner: tuple[int, int] = (0, 0)) -> None:
    """The archive of a layer, as a new file; `owner` is whom the caller's own id stands for in it. May take long."""
    _do("pack", [tree, place], [*map(str, owner)])


def tidy(upper: str, places: Sequence[str] = ()) -> None:
    """As steptargets has it; done by halves it can be done again."""
    try:
        steptargets.tidy(upper, places)
    except PermissionError:
        _do("tidy", [upper], [*places])


def _copy(source: list[str], target: list[str], _most: int) -> list[object]:
    fs.copy_tree(source[0], target[0])
    return []


def _take_in(source: list[str], target: list[str], _most: int) -> list[object]:
    fs.copy_tree(source[0], target[0], strictly=True)
    return []


def _bring(source: list[str], target: list[str], _most: int) -> list[object]:
    place, *trees = target
    parent, name = os.path.split(place)
    staged = f".{name[:200]}.{os.urandom(4).hex()}"
    around = resolving.open_resolved(parent, trees, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fs.copy_tree(source[0], f"/proc/self/fd/{around}/{staged}")
        fs.rename_new(around, staged, around, name)  # it gets its name last
    finally:
        fs.remove_tree(f"/proc/self/fd/{around}/{staged}")
        os.close(around)
    return []


def _make_like(model: list[str], target: list[str], _most: int) -> list[object]:
    with contextlib.ExitStack() as opened:
        source = os.open(model[0], fs.LISTABLE)
        opened.callback(os.close, source)
        os.mkdir(target[0], 0o700)
        made = os.open(target[0], fs.LISTABLE)
        opened.callback(os.close, made)
        fs.copy_facts(source, made, os.fstat(source), without=marks.OURS)
    return []


def _flatten(trees: list[str], target: list[str], _most: int) -> list[object]:
    merging.copy(trees, target[1:], target[0])
    return []


def _move(source: list[str], target: list[str], _most: int) -> list[object]:
    layers.rename_tree(source[0], target[0])
    return []


def _differ(one: list[str], other: list[str], most: int) -> list[object]:
    found, whole = stacks.differences(one, other, most)
    return [*map(codec.to_wire, found), whole]


def _measure(path: list[str], words: list[str], _most: int) -> list[object]:
    entries, seconds, least, *passing = words
    size, whole = fs.tree_bytes(path[0], int(entries), float(seconds), least_bytes=int(least), passing=passing)
    return [size, whole]


def _find(trees: list[str], words: list[str], _most: int) -> list[object]:
    return [steptargets.target_text(steptargets.find(trees, *words))]


def _take(trees: list[str], words: list[str], _most: int) -> list[object]:
    steptargets.write_copy(trees, *words)
    return []


def _pack(paths: list[str], owner: list[str], _most: int) -> list[object]:
    tree, place = paths
    steptargets.write_layer(tree, place, int(owner[0]), int(owner[1]))
    return []


def _tidy(upper: list[str], places: list[str], _most: int) -> list[object]:
    steptargets.tidy(upper[0], places)
    return []


_TASKS: Final[dict[str, Callable[[list[str], list[str], int], list[object]]]] = {
    "copy": _copy,
    "take in": _take_in,
    "bring": _bring,
    "flatten": _flatten,
    "make": _make_like,
    "move": _move,
    "differ": _differ,
    "measure": _measure,
    "look in": _find,
    "take": _take,
    "pack": _pack,
    "tidy": _tidy,
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
            ids.give(child.pid, ids.own(os.getuid(), os.getgid()))
            ours.settimeout(None)
            ours.sendall(json.dumps([task, one, other, most]).encode())
            ours.shutdown(socket.SHUT_WR)
            return _answer(task, _all(ours))


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
