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
from paddock.images.sources import Directory

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
        Context(Directory(root), Dockerignore(ignore)).write(copy, target, sink)
    finally:
        os.close(root)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as archive:
        return {member.name: member for member in archive.getmembers()}


def _digest(place: Path, copy: Copy) -> str:
    root = os.open(place, os.O_RDONLY)
    try:
        return Context(Directory(root), Dockerignore()).digest(copy)
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
    first = _digest(place, _copy("src"))
    os.utime(place / "src/main.py", (1, 1))
    assert _digest(place, _copy("src")) == first
    others = {first}
    (place / "src").chmod(0o711)
    others.add(_digest(place, _copy("src")))
    (place / "src/main.py").chmod(0o755)
    others.add(_digest(place, _copy("src")))
    (place / "src/main.py").write_text("MAIN")
    others.add(_digest(place, _copy("src")))
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


def test_a_sum_is_as_bounded_as_a_copy(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(place / "hole", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="bytes, at most"):
        _digest(place, _copy("hole"))
    assert _digest(place, _copy("src"))
    monkeypatch.setattr("paddock.images.context.BUILD_COPY_BYTES", 100)
    with pytest.raises(UserError, match="too many files, or too large"):
        _digest(place, _copy("src"))


def test_what_goes_in_has_the_sum_that_it_was_asked_by(place: Path) -> None:
    """Whatever the target: a layer is found again by the sum alone."""
    one = Target(path="t", is_directory=False, parents=(("x", Dress(mode=0o700)),), owner=(5, 6), mode=0o4755)
    for sources, target in ((("src",), INTO), (("*.txt", "src"), INTO), (("a.txt",), one), (("src",), one)):
        root = os.open(place, os.O_RDONLY)
        try:
            context = Context(Directory(root), Dockerignore(b"*.log"))
            first = context.digest(_copy(*sources))
            assert context.write(_copy(*sources), target, io.BytesIO()) == first
            os.utime(place / "a.txt", (7, 7))
            assert context.write(_copy(*sources), target, io.BytesIO()) == first
            (place / "src").chmod(0o711 if (place / "src").stat().st_mode & 0o777 != 0o711 else 0o755)
            assert (context.write(_copy(*sources), target, io.BytesIO()) == first) is (sources == ("a.txt",))
        finally:
            os.close(root)


def test_what_is_left_out_takes_its_time_and_who_waits_may_leave(place: Path) -> None:
    asked = 0

    def proceed() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise UserError("nobody waits")

    root = os.open(place, os.O_RDONLY)
    try:
        for sources, ignore in ((("*t*",) * 50, b""), ((".",), b"**\n!none\n")):
            asked = 0
            with pytest.raises(UserError, match="nobody waits"):
                Context(Directory(root), Dockerignore(ignore), proceed).digest(_copy(*sources))
    finally:
        os.close(root)


def test_names_are_looked_at_so_often_and_no_more(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.images.context.BUILD_COPY_ENTRIES", 5)
    assert _digest(place, _copy("*.txt"))
    with pytest.raises(UserError, match="too many files"):
        _digest(place, _copy(*["*.txt"] * 10))
    with pytest.raises(UserError, match="too many files"):
        _digest(place, _copy("."))
