"""What a COPY takes of the build directory."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images.context import Context, Target
from paddock.images.dockerignore import Dockerignore
from paddock.images.instructions import Copy
from paddock.images.pack import Dress

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    here = tmp_path / "context"
    for name in ("src/deep", "empty"):
        (here / name).mkdir(parents=True)
    for name, text in (("a.txt", "a"), ("b.txt", "b"), ("src/main.py", "main"), ("src/deep/x.log", "log")):
        (here / name).write_text(text)
        (here / name).chmod(0o640)
    os.symlink("../../secret", here / "src/link")
    (tmp_path / "secret").write_text("of the host")
    return here


def _archive(place: Path, copy: Copy, target: Target, ignore: bytes = b"") -> dict[str, tarfile.TarInfo]:
    root = os.open(place, os.O_RDONLY)
    sink = io.BytesIO()
    try:
        Context(root, Dockerignore(ignore)).write(copy, target, sink)
    finally:
        os.close(root)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as archive:
        return {member.name: member for member in archive.getmembers()}


def _digest(place: Path, copy: Copy, target: Target) -> str:
    root = os.open(place, os.O_RDONLY)
    try:
        return Context(root, Dockerignore()).digest(copy, target)
    finally:
        os.close(root)


def _copy(*sources: str, **rest: object) -> Copy:
    return Copy(line=7, sources=sources, target="/t/", **rest)  # type: ignore[arg-type]


INTO = Target(path="t", is_directory=True)


@pytest.mark.parametrize(
    ("sources", "target", "names"),
    [
        (("a.txt",), INTO, {"t/a.txt"}),
        (("a.txt",), Target(path="t", is_directory=False), {"t"}),
        (("/a.txt",), Target(path="", is_directory=True), {"a.txt"}),
        (("*.txt",), INTO, {"t/a.txt", "t/b.txt"}),
        (("[^a].txt",), INTO, {"t/b.txt"}),
        (("src",), INTO, {"t", "t/main.py", "t/link", "t/deep", "t/deep/x.log"}),
        (("src/", "b.txt"), INTO, {"t", "t/main.py", "t/link", "t/deep", "t/deep/x.log", "t/b.txt"}),
        (("src/d*p",), Target(path="t", is_directory=False), {"t", "t/x.log"}),
        (("empty",), INTO, {"t"}),
    ],
)
def test_sources_go_where_a_dockerfile_says(
    place: Path, sources: tuple[str, ...], target: Target, names: set[str]
) -> None:
    found = _archive(place, _copy(*sources), target)
    assert set(found) == names
    for member in found.values():
        assert (member.uid, member.gid) == (0, 0)


def test_owner_and_mode_are_those_that_are_said_and_parents_stay_as_they_are(place: Path) -> None:
    parents = (("home", Dress(mode=0o755)), ("home/agent", Dress(mode=0o700, owner=(1000, 1000))))
    target = Target(path="home/agent/f", is_directory=False, parents=parents, owner=(5, 6), mode=0o4755)
    found = _archive(place, _copy("a.txt"), target)
    assert list(found) == ["home", "home/agent", "home/agent/f"]
    assert (found["home/agent"].uid, found["home/agent"].mode) == (1000, 0o700)
    one = found["home/agent/f"]
    assert (one.uid, one.gid, one.mode) == (5, 6, 0o4755)
    assert _archive(place, _copy("a.txt"), INTO)["t/a.txt"].mode == 0o640
    everything = Target(path="home/agent", is_directory=True, parents=parents)
    assert _archive(place, _copy("src"), everything)["home/agent"].mode == 0o700, "it was there before"


def test_what_is_ignored_is_not_there(place: Path) -> None:
    assert set(_archive(place, _copy("."), INTO, b"src\n*.txt\n")) == {"t", "t/empty"}
    back = set(_archive(place, _copy("."), INTO, b"src\n!src/main.py\n*.txt\n"))
    assert back == {"t", "t/empty", "t/src/main.py"}
    with pytest.raises(UserError, match=r"no .a\.txt. to copy") as caught:
        _archive(place, _copy("a.txt"), INTO, b"*.txt\n")
    assert "dockerignore" in caught.value.hint


def test_no_link_leads_out(place: Path) -> None:
    """The oracle: the host reads through the same link."""
    assert (place / "src/link").resolve() == (place.parent / "secret").resolve()
    assert (place.parent / "secret").read_text() == "of the host"
    assert _archive(place, _copy("src"), INTO)["t/link"].issym()
    os.symlink("..", place / "up")
    os.symlink("a.txt", place / "alias")
    for source in ("src/link", "alias", "up", "up/secret", "up/*", "../secret", "src/../../secret"):
        with pytest.raises(UserError, match="line 7"):
            _archive(place, _copy(source), INTO)


def test_its_sum_changes_with_content_and_looks_and_not_with_times(place: Path) -> None:
    first = _digest(place, _copy("src"), INTO)
    os.utime(place / "src/main.py", (1, 1))
    assert _digest(place, _copy("src"), INTO) == first
    others = {first, _digest(place, _copy("src"), Target(path="t", is_directory=True, owner=(1, 1)))}
    (place / "src/main.py").chmod(0o755)
    others.add(_digest(place, _copy("src"), INTO))
    (place / "src/main.py").write_text("MAIN")
    others.add(_digest(place, _copy("src"), INTO))
    assert len(others) == 4


def test_what_cannot_be_is_refused_with_its_line(place: Path) -> None:
    (place / ".wh.x").write_text("")
    os.mkfifo(place / "fifo")
    with tarfile.open(place / "in.tar", "w") as archive:
        archive.add(place / "a.txt", "a.txt")
    one = Target(path="t", is_directory=False)
    for copy, target in (
        (_copy("none"), INTO),
        (_copy("*.none"), INTO),
        (_copy("a.txt/b"), INTO),
        (_copy("*.txt"), one),
        (_copy(".wh.x"), INTO),
        (_copy("fifo"), INTO),
        (_copy("in.tar", is_add=True), INTO),
    ):
        with pytest.raises(UserError, match="line 7"):
            _archive(place, copy, target)
    assert set(_archive(place, _copy("in.tar"), INTO)) == {"t/in.tar"}
