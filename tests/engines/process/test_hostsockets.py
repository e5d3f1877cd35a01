"""Sockets of the host in a directory a box will see are found, however they were bound."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.engines.process import hostsockets
from paddock.engines.process.hostsockets import Bound
from tests.support.scarcity import no_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = "Num       RefCount Protocol Flags    Type St Inode Path\n"
ROW = "0000000000000000: 00000002 00000000 00010000 0001 01 12345"


@pytest.fixture
def place() -> Iterator[Path]:
    """Not tmp_path: the name of a socket has 107 bytes."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        (path / "sub").mkdir()
        yield path


@pytest.fixture
def opened() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for one in sockets:
        one.close()


@pytest.fixture
def by_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at the upper part of every directory, so that only the table can have told."""
    monkeypatch.setattr(hostsockets, "SOCKET_LOOK_ENTRIES", 0)
    monkeypatch.setattr(hostsockets, "_look", lambda place, most: _LOOK(place, most) if most else set())


_LOOK = hostsockets._look


def _bind(opened: list[socket.socket], address: str, kind: int = socket.SOCK_STREAM) -> None:
    opened.append(socket.socket(socket.AF_UNIX, kind))
    opened[-1].bind(address)


def _table(place: Path, text: str) -> str:
    path = place / "table"
    path.write_text(HEAD + text, encoding="latin-1")
    return os.fspath(path)


@pytest.mark.usefixtures("by_table")
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_a_bound_socket_is_found_by_its_path(place: Path, opened: list[socket.socket], kind: int) -> None:
    _bind(opened, f"{place}/sub/agent.sock", kind)
    assert Bound().beneath(os.fspath(place)) == [f"{place}/sub/agent.sock"]
    assert Bound().beneath(os.fspath(place / "sub")) == [f"{place}/sub/agent.sock"]


@pytest.mark.usefixtures("by_table")
def test_a_socket_bound_through_a_link_is_found_where_it_is(place: Path, opened: list[socket.socket]) -> None:
    (place / "link").symlink_to("sub")
    _bind(opened, f"{place}/link/agent.sock")
    assert Bound().beneath(os.fspath(place)) == [f"{place}/sub/agent.sock"]


@pytest.mark.usefixtures("by_table")
def test_a_socket_elsewhere_is_not_named(place: Path, opened: list[socket.socket]) -> None:
    (place / "subway").mkdir()
    _bind(opened, f"{place}/subway/agent.sock")
    _bind(opened, f"\0{place}/sub/abstract")
    rows = _table(place, f"{ROW} {place}/subway/agent.sock\n{ROW} @{place}/sub/abstract\n")
    assert Bound(rows).beneath(os.fspath(place / "sub")) == []
    assert Bound(rows).beneath(os.fspath(place / "subway")) == [f"{place}/subway/agent.sock"]


def test_what_took_a_sockets_place_is_left_alone(place: Path, opened: list[socket.socket]) -> None:
    _bind(opened, f"{place}/agent.sock")
    (place / "agent.sock").unlink()
    (place / "agent.sock").write_text("a file")
    assert Bound().beneath(os.fspath(place)) == []


@pytest.mark.usefixtures("by_table")
@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        (None, True),
        ("garbage\n", True),
        ("\xff\n", True),
        (f"{ROW} relative.sock\n", True),
        (f"{ROW} ./relative.sock\n", True),
        (f"{ROW} /proc/self/fd/7/agent.sock\n", True),
        (f"{ROW} /proc/1/cwd/agent.sock\n", True),
        (f"{ROW} /somewhere/a\nbreak.sock\n", True),
        ("", False),
        (f"{ROW}\n", False),
        (f"{ROW} @abstract\n", False),
        (f"{ROW} /somewhere/else.sock\n", False),
        (f"{ROW} /proc/self/fd/999999/init.sock\n{ROW} /proc/self/fd/999999/daemon.sock\n", False),
    ],
)
def test_a_table_that_leaves_doubt_makes_us_look_everywhere(
    place: Path, opened: list[socket.socket], rows: str | None, looks: bool
) -> None:
    _bind(opened, f"{place}/sub/agent.sock")
    table = os.fspath(place / "none") if rows is None else _table(place, rows)
    assert Bound(table).beneath(os.fspath(place)) == ([f"{place}/sub/agent.sock"] if looks else [])


def test_the_upper_part_of_a_directory_is_looked_through_whatever_the_table_says(
    place: Path, opened: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has only sockets of our own network namespace."""
    _bind(opened, f"{place}/sub/agent.sock")
    for number in range(20):
        (place / f"sub/{number}").touch()
    empty = _table(place, "")
    assert Bound(empty).beneath(os.fspath(place)) == [f"{place}/sub/agent.sock"]
    monkeypatch.setattr(hostsockets, "SOCKET_LOOK_ENTRIES", 1)
    assert Bound(empty).beneath(os.fspath(place)) == []


@pytest.mark.parametrize("raw", [b"a b \xff.sock", b"line\nbreak.sock", b"end\n", b"\x0b\x1c\xc2\x85.sock"])
def test_names_with_blanks_and_strange_bytes_are_found(place: Path, opened: list[socket.socket], raw: bytes) -> None:
    name = os.fsdecode(raw)
    _bind(opened, f"{place}/{name}")
    assert Bound().beneath(os.fspath(place)) == [f"{place}/{name}"]


def test_links_are_not_followed(place: Path, opened: list[socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "sub/up").symlink_to("..")
    monkeypatch.chdir(place)
    _bind(opened, "here.sock")
    assert Bound().beneath(os.fspath(place)) == [f"{place}/here.sock"]


@pytest.mark.usefixtures("by_table")
def test_sockets_of_our_own_boxes_are_not_looked_at(place: Path, opened: list[socket.socket]) -> None:
    _bind(opened, f"{place}/sub/agent.sock")
    rows = _table(place, f"{ROW} {place}/sub/agent.sock\n")
    assert hostsockets.Bound(rows, ours=f"{place}/sub/").beneath(os.fspath(place)) == []
    assert hostsockets.Bound(rows, ours=f"{place}/other/").beneath(os.fspath(place)) == [f"{place}/sub/agent.sock"]


def test_a_socket_bound_below_a_descriptor_is_no_error(place: Path) -> None:
    """fs.bind_unix binds below /proc/self/fd, and the descriptor is gone when somebody looks."""
    with closing(fs.bind_unix(os.fspath(place), "init.sock")):
        assert Bound().beneath(os.fspath(place)) == [f"{place}/init.sock"]


def test_its_repr_counts(place: Path) -> None:
    assert repr(hostsockets.Bound(_table(place, f"{ROW} /a\n"))) == "<Bound 1 names>"
    assert repr(hostsockets.Bound(_table(place, f"{ROW} a\n"))) == "<Bound 0 names, and some without a place>"


def test_without_descriptors_nothing_is_taken_for_harmless(place: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(place / "sub/s"))
        with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
            Bound().beneath(str(place))
        assert Bound().beneath(str(place)) == [str(place / "sub/s")]
