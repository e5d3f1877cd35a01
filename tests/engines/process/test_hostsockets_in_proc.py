"""Sockets that were bound through /proc, as our own are: the name says nothing about the place."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from paddock import fs
from paddock.engines.process import hostsockets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEADER = "Num       RefCount Protocol Flags    Type St Inode Path\n"
ROW = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 "


def test_a_socket_bound_through_proc_is_found(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{at}/somebodys.sock")
        os.close(at)
        assert hostsockets.beneath(str(tmp_path)) == [str(tmp_path / "somebodys.sock")]


def test_our_own_sockets_cost_no_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(_directory: str) -> list[str]:
        raise AssertionError

    monkeypatch.setattr(hostsockets, "_walk", walked)
    table = tmp_path / "unix"
    table.write_text(
        HEADER + "".join(f"{ROW}/proc/self/fd/{n}/{s}\n" for n in range(9) for s in ("init.sock", "daemon.sock"))
    )
    assert hostsockets.beneath(str(tmp_path), str(table)) == []
    with fs.bind_unix(str(tmp_path), "init.sock"):
        assert (tmp_path / "init.sock").is_socket()


def test_a_number_in_such_a_name_is_not_taken_for_one_of_our_descriptors(tmp_path: Path) -> None:
    """It was looked up among ours, and the daemon failed when that one was closed meanwhile."""
    (tmp_path / "ws").mkdir()
    at = os.open(tmp_path / "ws", os.O_PATH)
    table = tmp_path / "unix"
    table.write_text(f"{HEADER}{ROW}/proc/self/fd/{at}/file\n")
    assert hostsockets._bound(str(table)) == ([], True)
    os.close(at)
