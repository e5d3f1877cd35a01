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


@pytest.mark.parametrize("name", ["a.sock", "./a.sock", "/proc/self/fd/7/a.sock", "/proc/1/cwd/a.sock"])
def test_a_name_only_its_owner_understands_makes_us_look_for_ourselves(tmp_path: Path, name: str) -> None:
    with socket_at(tmp_path / "shown/a.sock"):
        assert hostsockets.beneath(f"{tmp_path}/shown", table(tmp_path, f"{tmp_path}/b.sock")) == []
        assert hostsockets.beneath(f"{tmp_path}/shown", table(tmp_path, name)) == [f"{tmp_path}/shown/a.sock"]


def test_our_own_sockets_cost_no_walk_and_a_closed_descriptor_is_no_error(tmp_path: Path) -> None:
    """fs.bind_unix binds below /proc/self/fd, and the descriptor is gone or another file's when somebody looks."""
    with socket_at(tmp_path / "shown/a.sock"), closing(fs.bind_unix(os.fspath(tmp_path), "init.sock")):
        rows = table(tmp_path, "/proc/self/fd/999999/init.sock", "/proc/self/fd/999999/daemon.sock")
        assert hostsockets.beneath(f"{tmp_path}/shown", rows) == []
        assert f"{tmp_path}/shown/a.sock" in hostsockets.beneath(f"{tmp_path}/shown")


def test_without_a_table_the_directory_is_walked(tmp_path: Path) -> None:
    with socket_at(tmp_path / "shown/a.sock"):
        assert hostsockets.beneath(f"{tmp_path}/shown", f"{tmp_path}/none") == [f"{tmp_path}/shown/a.sock"]
