"""Names of a running box that the host replaced are covered again, from a process that joins its namespaces."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock import codec
from paddock.engines.process import confine, covering, kernel, mounting
from paddock.engines.process.operations import MountOp
from tests.engines.process.test_mounting import bind
from tests.support import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

DEV = MountOp(op="tmpfs", target="/dev", options="mode=755,size=64k", devices=True, noexec=True)


class Box:
    """A root that was built and entered, and someone in it who looks for us."""

    def __init__(self, channel: socket.socket, namespace: int) -> None:
        self._channel = channel
        self.namespace = namespace

    def read(self, path: str) -> str:
        return self._ask("read", path)

    def write(self, path: str) -> str:
        return self._ask("write", path)

    def mounts_left(self) -> str:
        """What it hears when it makes a detached tree."""
        return self._ask("clone", "/ws")

    def _ask(self, word: str, path: str) -> str:
        self._channel.send(f"{word} {path}".encode())
        return self._channel.recv(4096).decode()


def _answer(word: str, path: str) -> str:
    try:
        if word == "read":
            return ",".join(sorted(os.listdir(path))) if os.path.isdir(path) else Path(path).read_text()
        if word == "clone":
            os.close(kernel.open_tree(path))
            return "made"
        with open(path, "ab") as file:  # bytes: a codec that was not loaded before cannot be loaded here
            file.write(b"x")
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "written"


@contextlib.contextmanager
def box(*operations: MountOp) -> Iterator[Box]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def act() -> None:
        ours.close()
        namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
        limit = os.open("/proc/sys/user/max_mnt_namespaces", os.O_WRONLY)
        mounting.build([codec.to_wire(operation) for operation in (DEV, *operations)], [])  # type: ignore[misc]
        mounting.pivot()
        os.write(limit, b"0")  # as in every box
        socket.send_fds(theirs, [b"ready"], [namespace])
        while words := theirs.recv(4096).decode():
            theirs.send(_answer(*words.split()).encode() or b"\0")

    pid = namespaces.spawn(act, namespaces.MOUNTS)
    theirs.close()
    with ours:
        ours.settimeout(20)
        _, fds, _, _ = socket.recv_fds(ours, 16, 1)
        yield Box(ours, fds[0])
        os.close(fds[0])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def serve(request: dict[str, Any], fds: list[int], *, trees: bool = False) -> tuple[dict[str, Any], list[int]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    flags = namespaces.MOUNTS if trees else 0
    with ours:
        pid = namespaces.spawn(lambda: covering.serve(theirs, trees=trees), flags)
        theirs.close()
        socket.send_fds(ours, [json.dumps(request).encode()], fds)
        data, passed, _, _ = socket.recv_fds(ours, 65536, 16)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return json.loads(data), passed


def restore(found: Box, operations: list[MountOp], trees: dict[int, int] | None = None) -> dict[str, Any]:
    given = trees or {}
    mounts = []
    for operation in operations:
        wire = codec.to_wire(operation)
        assert isinstance(wire, dict)
        mounts.append({**wire, "directory": os.path.isdir(operation.source)})
    request = {"mounts": mounts, "trees": list(given)}
    answer, _ = serve(request, [found.namespace, *given.values()])
    return answer


def outcome(**lists: list[int]) -> dict[str, Any]:
    return {"ok": True, "covered": [], "gone": [], "links": [], "wanting": [], **lists}


def save(path: Path, text: str) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    fresh.replace(path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / "way").mkdir(parents=True)
    for name in ("secret", "closed", "way/secret"):
        (place / name).write_text("old")
    return place


COVERS = [
    MountOp(op="readonly", target="/ws/closed"),
    MountOp(op="cover", target="/ws/secret", optional=True),
    MountOp(op="pin", target="/ws/way"),
    MountOp(op="cover", target="/ws/way/secret", optional=True),
]


def test_what_was_replaced_is_covered_again_and_nothing_else_is_touched(work: Path) -> None:
    with box(bind(work, "/ws"), *COVERS) as found:
        assert restore(found, COVERS) == outcome()
        for _ in range(2):
            save(work / "secret", "new")
            save(work / "closed", "new")
            assert (found.read("/ws/secret"), found.write("/ws/closed")) == ("new", "written"), "the mounts are gone"
            assert restore(found, COVERS) == outcome(covered=[0, 1])
            assert (found.read("/ws/secret"), found.write("/ws/closed")) == ("\0", "EROFS")
        (work / "way/secret").unlink()
        (work / "way").rmdir()
        assert restore(found, COVERS) == outcome(gone=[2, 3])
        (work / "way").mkdir()
        (work / "way/secret").mkdir()
        (work / "way/secret/key").touch()
        assert found.read("/ws/way/secret") == "key"
        assert restore(found, COVERS) == outcome(covered=[2, 3])
        assert found.read("/ws/way/secret") == "\0"
        assert restore(found, COVERS) == outcome()


def test_the_limit_of_the_box_is_what_it_was(work: Path) -> None:
    with box(bind(work, "/ws"), *COVERS) as found:
        assert found.mounts_left() == "ENOSPC"
        save(work / "secret", "new")
        assert restore(found, COVERS)["covered"] == [1]
        assert found.mounts_left() == "ENOSPC"


def test_a_cover_that_came_with_another_file_is_not_taken_for_the_right_one(work: Path) -> None:
    with box(bind(work, "/ws"), *COVERS) as found:
        (work / "closed").replace(work / "secret")
        assert (found.read("/ws/secret"), found.write("/ws/secret")) == ("old", "EROFS")
        assert restore(found, COVERS) == outcome(covered=[1], gone=[0])
        assert found.read("/ws/secret") == "\0"


def test_a_link_is_not_followed(work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    with box(bind(work, "/ws"), bind(tmp_path, "/other"), *COVERS) as found:
        (work / "closed").unlink()
        (work / "closed").symlink_to("/other/other")
        assert restore(found, COVERS) == outcome(links=[0])
        assert found.write("/other/other") == "written"


def test_a_tree_is_asked_for_checked_and_put_back(work: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine").touch()
    (work / "git").mkdir()
    operation = bind(own, "/ws/git")
    with box(bind(work, "/ws"), operation) as found:
        assert found.read("/ws/git") == "mine"
        (work / "git").rename(work / "away")
        (work / "git").mkdir()
        assert restore(found, [operation]) == outcome(wanting=[0])
        answer, trees = serve({"paths": [str(own), str(work)]}, [], trees=True)
        assert answer == {"ok": True}
        wrong = restore(found, [operation], {0: trees[1]})
        assert wrong == {"ok": False, "error": wrong["error"]}
        assert "was replaced while the box started" in wrong["error"]
        assert restore(found, [operation], {0: trees[0]}) == outcome(covered=[0])
        assert (found.read("/ws/git"), found.read("/ws/away")) == ("mine", "mine")
        for fd in trees:
            os.close(fd)


def test_what_was_closed_while_its_source_was_gone_is_opened_again(work: Path) -> None:
    operation = bind(work / "closed", "/ws/closed")
    with box(bind(work, "/ws"), operation) as found:
        assert found.write("/ws/closed") == "written"
        save(work / "closed", "new")
        assert restore(found, [MountOp(op="readonly", target="/ws/closed")]) == outcome(covered=[0])
        assert found.write("/ws/closed") == "EROFS"
        operation = bind(work / "closed", "/ws/closed")
        _, trees = serve({"paths": [str(work / "closed")]}, [], trees=True)
        for expected in (outcome(covered=[0]), outcome()):
            assert restore(found, [operation], {0: trees[0]}) == expected
            assert found.write("/ws/closed") == "written"
        os.close(trees[0])


def test_a_file_where_a_directory_was_mounted_is_at_least_closed(work: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (work / "git").mkdir()
    operation = bind(own, "/ws/git")
    with box(bind(work, "/ws"), operation) as found:
        (work / "git").rmdir()
        (work / "git").write_text("gitdir: elsewhere")
        assert found.write("/ws/git") == "written"
        assert restore(found, [operation]) == outcome(covered=[0])
        assert found.write("/ws/git") == "EROFS"
        assert restore(found, [operation]) == outcome()


def test_what_is_no_mount_namespace_of_a_box_is_not_entered(work: Path) -> None:
    user = os.open("/proc/self/ns/user", os.O_RDONLY)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    for fd in (user, own):
        answer, _ = serve({"mounts": [codec.to_wire(replace(COVERS[0], target=str(work)))], "trees": []}, [fd])
        assert answer["ok"] is False
        os.close(fd)
    assert (work / "closed").read_text() == "old"
    confine.write_file(str(work / "closed"), "new")


def test_a_path_that_cannot_be_opened_is_told() -> None:
    answer, fds = serve({"paths": ["/nonexistent"]}, [], trees=True)
    assert (answer["ok"], fds) == (False, [])
    assert "No such file" in answer["error"]
