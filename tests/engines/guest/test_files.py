"""The file verbs: exact bytes and names both ways, and nothing in a tree can stop or confuse init."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import frames, limits
from paddock.engines.guest import files
from tests.engines.guest.trees import STRANGE, deepen

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.guest import Guest


def _read(guest: Guest, path: Path | str, **options: Any) -> bytes:
    with guest.client() as client:
        client.send(op="read", path=os.fspath(path), **options)
        assert client.message()["event"] == "entry"
        return client.file()


def _write(guest: Guest, path: Path | str, data: bytes, **options: Any) -> dict[str, Any]:
    with guest.client() as client:
        client.send(op="write", path=os.fspath(path), **options)
        answer = client.message()
        if answer["event"] != "ready":
            return answer
        for start in range(0, len(data), 65536):
            client.data(frames.FILE, data[start : start + 65536])
        client.data(frames.FILE, b"")
        return client.message()


def _list(guest: Guest, path: Path | str, depth: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with guest.client() as client:
        client.send(op="list_dir", path=os.fspath(path), depth=depth)
        while (answer := client.message())["event"] == "entries":
            found += answer["entries"]
    assert answer["event"] == "done", answer
    return found


# -- read and write ----------------------------------------------------------------------------------------------------


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200_000))
def test_what_is_written_is_read(shared: Guest, tmp_path: Path, data: bytes) -> None:
    assert _write(shared, tmp_path / "file", data)["event"] == "done"
    assert _read(shared, tmp_path / "file") == data


@pytest.mark.parametrize(
    ("offset", "length", "found"),
    [
        (0, None, b"0123456789"),
        (4, None, b"456789"),
        (4, 3, b"456"),
        (8, 99, b"89"),
        (10, 5, b""),
        (99, 5, b""),
        (0, 0, b""),
    ],
)
def test_a_part_of_a_file_is_read(shared: Guest, tmp_path: Path, offset: int, length: int | None, found: bytes) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert _read(shared, tmp_path / "file", offset=offset, length=length) == found


@pytest.mark.parametrize(
    "part", [{"offset": -1}, {"offset": 1 << 64}, {"offset": "x"}, {"length": "x"}, {"length": []}, {"offset": 1e400}]
)
def test_a_part_that_cannot_be_is_refused(shared: Guest, part: dict[str, Any]) -> None:
    with shared.client() as client:
        payload = json.dumps({"op": "read", "path": "/etc/passwd", **part}).encode()
        client.data(frames.MESSAGE, payload)
        events = [client.message()["event"]]
        if events == ["entry"]:
            events.append(client.message()["event"])
        assert events[-1] == "error"
    shared.catch_up()


def test_a_huge_sparse_file_is_read_from_its_end(shared: Guest, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"tail")
    assert _read(shared, path, offset=1 << 40) == b"tail"


def test_a_file_that_shrinks_while_it_is_read_ends(shared: Guest, tmp_path: Path) -> None:
    path = tmp_path / "shrinking"
    path.write_bytes(bytes(8 * limits.MIB))
    with shared.client() as client:
        client.send(op="read", path=os.fspath(path))
        client.message()
        os.truncate(path, 10)
        assert len(client.file()) < 8 * limits.MIB


@pytest.mark.parametrize(
    ("options", "before", "after", "mode"),
    [
        ({}, None, b"new", 0o644),
        ({"mode": 0o755}, None, b"new", 0o755),
        ({"mode": 0o4755}, None, b"new", 0o755),
        ({}, b"a longer old text", b"new", 0o600),
        ({"append": True}, b"old ", b"old new", 0o600),
        ({"append": True}, None, b"new", 0o644),
        ({"exclusive": True}, None, b"new", 0o644),
    ],
)
def test_writing_makes_replaces_or_appends(
    shared: Guest, tmp_path: Path, options: dict[str, Any], before: bytes | None, after: bytes, mode: int
) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
        path.chmod(0o600)
    assert _write(shared, path, b"new", **options)["event"] == "done"
    assert path.read_bytes() == after
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~_umask()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def test_an_exclusive_write_leaves_an_existing_file(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    assert _write(shared, tmp_path / "file", b"new", exclusive=True)["code"] == "exists"
    assert (tmp_path / "file").read_bytes() == b"old"


def test_parents_are_made_only_when_asked_for(shared: Guest, tmp_path: Path) -> None:
    assert _write(shared, tmp_path / "a/b/file", b"x")["code"] == "no-file"
    assert _write(shared, tmp_path / "a/b/file", b"x", parents=True)["event"] == "done"


@pytest.mark.parametrize("op", ["read", "write"])
def test_what_is_no_regular_file_is_refused_at_once(shared: Guest, tmp_path: Path, op: str) -> None:
    """A FIFO would stop init for ever, and with it the box."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for path in (tmp_path / "fifo", "/dev/null", "/dev/zero", "/dev/tty"):
        answer = shared.ask(op=op, path=os.fspath(path))
        assert answer["event"] == "error", answer
    os.close(reader)
    assert shared.ask(op=op, path=os.fspath(tmp_path / "fifo"))["event"] == "error"
    assert shared.ask(op="read", path=os.fspath(tmp_path))["code"] == "not-a-file"


def test_a_client_that_leaves_in_the_middle_leaves_no_descriptor(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(limits.MIB))
    for op, name in (("read", "large"), ("write", "half"), ("watch", "")):
        with shared.client() as client:
            client.send(op=op, path=os.fspath(tmp_path / name))
            client.message()
    shared.await_idle()


def test_a_client_that_leaves_at_once_leaves_no_descriptor(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(limits.MIB))
    for _ in range(50):
        with shared.client() as client:
            client.send(op="read", path=os.fspath(tmp_path / "large"))
    shared.await_idle()


def test_a_full_disk_is_an_error_and_the_connection_goes_on(shared: Guest) -> None:
    with shared.client() as client:
        client.send(op="write", path="/dev/full")
        assert client.message()["event"] == "error", "/dev/full is no regular file"
        client.send(op="ping")
        assert client.message()["event"] == "pong"


# -- names -------------------------------------------------------------------------------------------------------------


def test_any_name_survives_both_ways(shared: Guest, tmp_path: Path) -> None:
    path = tmp_path / STRANGE
    assert _write(shared, path, b"x")["event"] == "done"
    assert [entry["path"] for entry in _list(shared, tmp_path)] == [os.fspath(path)]
    assert _read(shared, path) == b"x"
    assert shared.ask(op="remove", path=os.fspath(path))["event"] == "done"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "relative", "./x", "a\0b", "/a\0b"])
@pytest.mark.parametrize("op", [word for word in files.VERBS if word not in {"symlink", "move"}])
def test_a_path_that_is_none_is_refused(shared: Guest, op: str, path: str) -> None:
    assert shared.ask(op=op, path=path)["code"] == "bad-path"


@pytest.mark.parametrize("op", sorted(files.VERBS))
def test_a_path_that_does_not_exist_is_said_to(shared: Guest, tmp_path: Path, op: str) -> None:
    request = {"op": op, "path": os.fspath(tmp_path / "no/such"), "to": os.fspath(tmp_path / "other/place")}
    assert shared.ask(**request)["code"] == "no-file"


# -- stat, make, move, remove ------------------------------------------------------------------------------------------


def test_what_a_file_is(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    kinds = {os.path.basename(entry["path"]): entry for entry in _list(shared, tmp_path)}
    assert {name: entry["kind"] for name, entry in kinds.items()} == {
        "file": "file",
        "link": "symlink",
        "fifo": "other",
    }
    assert (kinds["file"]["size"], kinds["file"]["mode"]) == (5, 0o640)
    assert kinds["link"]["link"] == "file"
    followed = shared.ask(op="stat", path=os.fspath(tmp_path / "link"), follow=True)["entry"]
    assert (followed["kind"], followed["size"]) == ("file", 5)


def test_directories_are_made(shared: Guest, tmp_path: Path) -> None:
    assert shared.ask(op="make_dir", path=os.fspath(tmp_path / "a/b"))["code"] == "no-file"
    assert shared.ask(op="make_dir", path=os.fspath(tmp_path / "a/b"), parents=True)["entry"]["kind"] == "directory"
    assert shared.ask(op="make_dir", path=os.fspath(tmp_path / "a/b"))["code"] == "exists"
    assert shared.ask(op="make_dir", path=os.fspath(tmp_path / "a/b"), parents=True)["event"] == "entry"


def test_files_are_moved_and_linked(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert shared.ask(op="move", path=f"{tmp_path}/a", to=f"{tmp_path}/b")["event"] == "done"
    assert shared.ask(op="symlink", path=f"{tmp_path}/c", to=f"{tmp_path}/b")["event"] == "done"
    assert (tmp_path / "c").read_text() == "x"


def test_a_tree_is_removed_without_following_links(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/file").touch()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    assert shared.ask(op="remove", path=f"{tmp_path}/tree")["event"] == "error", "not empty, and not recursive"
    assert shared.ask(op="remove", path=f"{tmp_path}/tree", recursive=True)["event"] == "done"
    assert [path.name for path in tmp_path.rglob("*")] == ["outside", "kept"]


def test_a_large_tree_is_removed_in_slices(shared: Guest, place: Path) -> None:
    tree = place / "tree"
    tree.mkdir()
    for number in range(4000):
        os.close(os.open(f"{tree}/{number:05}", os.O_CREAT))
    assert next(files._remove_frames(os.fspath(tree), recursive=True)) == b"", "others have their turn"
    assert 0 < len(os.listdir(tree)) < 4000
    with shared.client() as client:
        client.send(op="remove", path=os.fspath(tree), recursive=True)
        assert client.message()["event"] == "done"
    assert not tree.exists()


# -- large and deep trees ----------------------------------------------------------------------------------------------


def test_a_tree_is_listed_in_order_to_the_depth_asked_for(shared: Guest, tmp_path: Path) -> None:
    for name in ("b/x", "b/y/z", "a/w"):
        (tmp_path / name).mkdir(parents=True)
    names = {
        depth: [entry["path"][len(f"{tmp_path}/") :] for entry in _list(shared, tmp_path, depth)] for depth in (1, 2, 9)
    }
    assert names[1] == ["a", "b"]
    assert names[2] == ["a", "b", "a/w", "b/x", "b/y"]
    assert sorted(names[9]) == ["a", "a/w", "b", "b/x", "b/y", "b/y/z"]


def test_many_entries_come_in_many_messages(shared: Guest, tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number:04}").touch()
    assert len(_list(shared, tmp_path)) == 1000


def test_long_names_in_a_deep_place_fit_their_messages(shared: Guest, tmp_path: Path) -> None:
    """256 entries of 4 KiB, each byte six in JSON, would be six times what a message holds."""
    place = os.fspath(tmp_path)
    while len(os.fsencode(place)) < 3300:
        place += "/" + os.fsdecode(b"\xe9" * 200)
        os.mkdir(place)
    for number in range(300):
        os.close(os.open(place + os.fsdecode(b"/%03d" % number + b"\xe9" * 200), os.O_CREAT))
    assert len(_list(shared, place)) == 300


def test_a_tree_deeper_than_any_path_is_listed_as_far_as_paths_go(shared: Guest, place: Path) -> None:
    deepen(place, 3000)
    assert 1500 < len(_list(shared, place, depth=10_000)) < 3000


def test_a_tree_deeper_than_any_path_is_removed(shared: Guest, place: Path) -> None:
    (place / "tree").mkdir()
    deepen(place / "tree", 3000)
    assert shared.ask(op="remove", path=f"{place}/tree", recursive=True)["event"] == "done"
    assert list(place.iterdir()) == []


def test_an_entry_that_may_not_be_looked_at_does_not_hide_the_others(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "closed/inner").mkdir(parents=True)
    (tmp_path / "open/inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o444)
    try:
        found = [entry["path"][len(f"{tmp_path}/") :] for entry in _list(shared, tmp_path, depth=3)]
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert found == ["closed", "open", "open/inner"]
