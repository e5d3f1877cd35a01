"""Which sockets of the host a box must not see, from the kernel's table of their names."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from paddock import fs
from paddock.engines.process import hostsockets

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "Num       RefCount Protocol Flags    Type St Inode Path\n"
ROW = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 "


def table(tmp_path: Path, *names: str) -> str:
    file = tmp_path / "table"
    file.write_text(HEAD + "".join(f"{ROW}{name}\n" for name in names))
    return os.fspath(file)


def socket_at(path: Path) -> socket.socket:
    path.parent.mkdir(exist_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.fspath(path))
    return bound


def test_a_bound_socket_is_found_where_its_directory_really_is(tmp_path: Path) -> None:
    with socket_at(tmp_path / "shown/a.sock"), socket_at(tmp_path / "other/b.sock"):
        (tmp_path / "link").symlink_to(tmp_path / "shown")
        rows = table(tmp_path, f"{tmp_path}/link/a.sock", f"{tmp_path}/other/b.sock", "@abstract")
        assert hostsockets.beneath(f"{tmp_path}/shown", rows) == [f"{tmp_path}/shown/a.sock"]


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A socket below more entries than are looked at in any case."""
    monkeypatch.setattr(hostsockets, "SOCKET_LOOK_ENTRIES", 3)
    place = tmp_path / "shown/1/2/a.sock"
    place.parent.mkdir(parents=True)
    for name in ("x", "y", "z"):
        (tmp_path / "shown" / name).touch()
    return place


@pytest.mark.parametrize("name", ["a.sock", "./a.sock", "/proc/self/fd/7/a.sock", "/proc/1/cwd/a.sock", "a\nb.sock"])
def test_a_name_only_its_owner_understands_makes_us_look_everywhere(tmp_path: Path, deep: Path, name: str) -> None:
    with socket_at(deep):
        assert hostsockets.beneath(f"{tmp_path}/shown", table(tmp_path, f"{tmp_path}/b.sock")) == []
        assert hostsockets.beneath(f"{tmp_path}/shown", table(tmp_path, name)) == [str(deep)]


def test_our_own_sockets_cost_no_walk(tmp_path: Path, deep: Path) -> None:
    """Below the directory of our boxes, or at a path so long that it was bound through a descriptor."""
    with socket_at(deep), closing(fs.bind_unix(os.fspath(tmp_path), "init.sock")):
        rows = table(tmp_path, "/proc/self/fd/999999/init.sock", "/proc/self/fd/999999/daemon.sock")
        assert hostsockets.beneath(f"{tmp_path}/shown", rows) == []
        assert str(deep) in hostsockets.beneath(f"{tmp_path}/shown")
        own = hostsockets.Bound(table(tmp_path, str(deep)), ours=f"{tmp_path}/shown/")
        assert own.beneath(f"{tmp_path}/shown") == []


def test_the_upper_part_is_looked_through_in_any_case(tmp_path: Path) -> None:
    """A container may have bound it: the table has only the sockets of our own network namespace."""
    with socket_at(tmp_path / "shown/a.sock"):
        assert hostsockets.beneath(f"{tmp_path}/shown", table(tmp_path)) == [f"{tmp_path}/shown/a.sock"]
        assert hostsockets.Bound(table(tmp_path)).listed(f"{tmp_path}/shown") == set()


def test_without_a_table_the_directory_is_walked(tmp_path: Path) -> None:
    with socket_at(tmp_path / "shown/a.sock"):
        assert hostsockets.beneath(f"{tmp_path}/shown", f"{tmp_path}/none") == [f"{tmp_path}/shown/a.sock"]
