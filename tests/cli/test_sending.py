"""Into a box: what is read is what lies below the named directory, never what a link leads to."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.cli.copying import Skipped
from paddock.cli.sending import send
from paddock.errors import UserError
from tests.cli.liar import Liar, entry, says

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Receiver(Liar):
    """A box that takes everything, and has the directories it is said to have."""

    def __init__(self, *directories: str, existing: tuple[str, ...] = ()) -> None:
        self._existing = set(existing)
        super().__init__(
            stat=lambda request: (
                [says(event="entry", entry=entry(str(request["path"]), "directory"))]
                if request["path"] in directories
                else [says(event="error", code="no-file", message="No such file or directory")]
            ),
            write=lambda _request: [says(event="ready")],
            make_dir=lambda _request: [says(event="entry")],
            symlink=self._symlink,
            remove=self._remove,
        )

    def _symlink(self, request: dict[str, object]) -> Iterable[bytes]:
        if request["path"] in self._existing:
            return [says(event="error", code="exists", message="File exists")]
        return [says(event="done")]

    def _remove(self, request: dict[str, object]) -> Iterable[bytes]:
        self._existing.discard(str(request["path"]))
        return [says(event="done")]

    @property
    def got(self) -> list[tuple[object, ...]]:
        keys = ("op", "path", "mode", "to")
        return [tuple(row[key] for key in keys if key in row) for row in self.asked if row["op"] != "stat"]


def sent(box: Receiver, source: str, target: str = "/in", *, into: bool = False, trees: tuple[str, ...] = ()) -> int:
    skipped = Skipped()
    with box, box.files as files:
        send(files, source, (target, into), trees, skipped)
    return skipped.count


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    top = tmp_path / "top"
    (top / "d/e").mkdir(parents=True)
    (top / "d").chmod(0o550)
    (top / "a").write_text("a")
    (top / "a").chmod(0o4755)
    (top / "l").symlink_to("../secret")
    (tmp_path / "secret").write_text("secret")
    return top


def test_a_tree_arrives_with_its_modes_and_links(source: Path) -> None:
    box = Receiver()
    (source / "d").chmod(0o750)
    (source / "d/b\n\x1b[31m").write_text("b")
    (source / "d").chmod(0o550)
    assert sent(box, "top") == 0
    assert box.got == [
        ("make_dir", "/in", 0o755),
        ("write", "/in/a", 0o755),
        ("make_dir", "/in/d", 0o750),
        ("symlink", "/in/l", "../secret"),
        ("write", "/in/d/b\n\x1b[31m", 0o644),
        ("make_dir", "/in/d/e", 0o755),
    ]


def test_names_that_are_no_text_arrive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "top").mkdir()
    os.close(os.open(b"top/\xff\xfe", os.O_CREAT | os.O_WRONLY, 0o600))
    box = Receiver()
    assert sent(box, "top") == 0
    assert box.got[1] == ("write", "/in/\udcff\udcfe", 0o600)


@pytest.mark.parametrize(
    ("directories", "into", "place"),
    [((), False, "/in"), (("/in",), False, "/in/a"), ((), True, "/in/a"), (("/in", "/in/a"), False, "/in/a")],
)
def test_a_file_lands_in_a_directory_or_under_a_new_name(
    source: Path, directories: tuple[str, ...], into: bool, place: str
) -> None:
    box = Receiver(*directories)
    assert sent(box, "top/a", into=into) == 0
    assert box.got == [("write", place, 0o755)]


def test_special_files_are_left_out_and_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("top/socket")
        assert sent(Receiver(), "top") == 2
    warnings = capsys.readouterr().err
    assert "not copied: fifo: " in warnings
    assert "not copied: socket: " in warnings


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_left_out_and_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "a").chmod(0)
    (source / "d/e").chmod(0)
    assert sent(Receiver(), "top") == 2
    assert capsys.readouterr().err.count("Permission denied") == 2
    (source / "d/e").chmod(0o755)


def test_a_link_that_is_there_already_is_replaced(source: Path) -> None:
    box = Receiver(existing=("/in/l",))
    assert sent(box, "top") == 0
    assert [row for row in box.got if row[1] == "/in/l"] == [
        ("symlink", "/in/l", "../secret"),
        ("remove", "/in/l"),
        ("symlink", "/in/l", "../secret"),
    ]


@pytest.mark.parametrize("swapped", ["a", "d"])
def test_a_file_swapped_for_a_link_while_we_walk_is_not_read(
    source: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """The box wins the race between the look and the open."""
    real = os.stat

    def stat_then_swap(path: object, **options: object) -> os.stat_result:
        found: object = real(path, **options)  # type: ignore[arg-type]
        if path == swapped and not (source / swapped).is_symlink():
            (source / swapped).chmod(0o755)  # a directory must be writable to get another parent
            (source / swapped).rename(source.parent / f"aside-{swapped}")
            (source / swapped).symlink_to(source.parent / ("secret" if swapped == "a" else "."))
        assert isinstance(found, os.stat_result)
        return found

    monkeypatch.setattr(os, "stat", stat_then_swap)
    box = Receiver()
    assert sent(box, "top") >= 1
    monkeypatch.undo()
    assert (source / swapped).is_symlink()
    assert (source / swapped).exists(), "the oracle: a plain open would follow it"
    assert not any("secret" in str(row[1]) for row in box.got)
    assert ("write", "/in/a", 0o755) not in box.got or swapped != "a" or box.got.count(("write", "/in/a", 0o755)) == 1


def test_a_link_of_a_box_is_refused_as_a_source(source: Path) -> None:
    with pytest.raises(UserError, match="is a symbolic link"):
        sent(Receiver(), "top/l", trees=(str(source),))
    box = Receiver()
    assert sent(box, "top/l") == 0, "the oracle: elsewhere the person's own links are followed"
    assert box.got == [("write", "/in", 0o644)]


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", "cannot read nowhere: No such file"), ("fifo", "no file and no directory")]
)
def test_a_source_that_is_none_is_named(source: Path, name: str, message: str) -> None:
    os.mkfifo("fifo")
    with pytest.raises(UserError, match=message):
        sent(Receiver(), name)


def test_a_full_box_ends_the_copy(source: Path) -> None:
    full = [says(event="error", code="no-space", message="No space left on device")]
    box = Receiver()
    box._answers["write"] = lambda _request: full
    with pytest.raises(UserError, match="No space left"):
        sent(box, "top")


def test_one_refused_file_does_not_keep_the_rest(source: Path) -> None:
    box = Receiver()
    refused = [says(event="error", code="io", message="Is a directory")]
    box._answers["write"] = lambda _request: refused
    assert sent(box, "top") == 1
    assert ("make_dir", "/in/d/e", 0o755) in box.got
