"""Watching directories: changes as they happen, and a word when some were missed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.engines.guest.trees import STRANGE, deepen
from tests.support.guest import new_guest

if TYPE_CHECKING:
    from tests.support.guest import Client, Guest


def _watching(guest: Guest, path: Path, **options: Any) -> Client:
    client = guest.client()
    client.send(op="watch", path=os.fspath(path), **options)
    assert client.message()["event"] == "watching"
    return client


def _changes(client: Client, last: str) -> list[tuple[str, str]]:
    """Changes up to the first one of this path."""
    found: list[tuple[str, str]] = []
    while not found or not found[-1][1].endswith(last):
        change = client.message()
        found.append((change["kind"], change["path"]))
    return found


def test_changes_are_told_as_they_happen(shared: Guest, tmp_path: Path) -> None:
    client = _watching(shared, tmp_path)
    (tmp_path / STRANGE).write_text("x")
    (tmp_path / STRANGE).chmod(0o600)
    (tmp_path / STRANGE).rename(tmp_path / "b")
    (tmp_path / "b").unlink()
    (tmp_path / "end").touch()
    found = [(kind, os.path.basename(path)) for kind, path in _changes(client, "/end")]
    expected = [
        ("create", STRANGE),
        ("write", STRANGE),
        ("chmod", STRANGE),
        ("rename", STRANGE),
        ("rename", "b"),
        ("remove", "b"),
    ]
    assert [change for change in found if change in expected] == expected


def test_a_flat_watch_does_not_see_below(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    client = _watching(shared, tmp_path)
    (tmp_path / "sub/file").touch()
    (tmp_path / "end").touch()
    assert [path for _, path in _changes(client, "/end") if "sub/" in path] == []


def test_a_recursive_watch_sees_old_and_new_directories(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    client = _watching(shared, tmp_path, recursive=True)
    (tmp_path / "old/one").touch()
    assert ("create", f"{tmp_path}/old/one") in _changes(client, "/old/one")
    (tmp_path / "new").mkdir()
    _changes(client, "/new")
    (tmp_path / "new/two").touch()
    assert ("create", f"{tmp_path}/new/two") in _changes(client, "/new/two")


def test_a_watch_of_a_very_deep_tree_neither_fails_nor_ends_init(shared: Guest, place: Path) -> None:
    (place / "aside").mkdir()
    deepen(place / "aside", 1800)
    (place / "tree").mkdir()
    client = _watching(shared, place / "tree", recursive=True)
    (place / "aside").rename(place / "tree/aside")
    _changes(client, "/aside")
    client.close()
    with _watching(shared, place / "tree", recursive=True):
        shared.catch_up()
    shared.await_idle()


def test_a_client_that_does_not_read_is_told_that_it_missed_changes(shared: Guest, tmp_path: Path) -> None:
    client = _watching(shared, tmp_path)
    before = shared.resident_kib()
    path = tmp_path / os.fsdecode(b"\xe9" * 200)  # each byte is six in JSON
    for _ in range(1500):
        os.close(os.open(path, os.O_CREAT))
        os.unlink(path)
    shared.catch_up()
    assert shared.resident_kib() - before < 4 * 1024
    events = set()
    while "overflow" not in events:
        events.add(client.message()["event"])
    assert events == {"change", "overflow"}


def test_a_kernel_queue_that_overflows_is_told_too(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    names = [tmp_path / name for name in "ab"]
    for name in names:
        name.touch()
    with new_guest() as guest:
        client = _watching(guest, tmp_path)
        os.kill(guest.pid, signal.SIGSTOP)  # nobody empties the queue
        for number in range(limit + 100):
            os.chmod(names[number % 2], 0o600)  # in turns: the kernel joins equal events
        os.kill(guest.pid, signal.SIGCONT)
        while client.message()["event"] != "overflow":
            pass


def test_a_watch_needs_a_directory(shared: Guest, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        assert shared.ask(op="watch", path=os.fspath(tmp_path / name))["event"] == "error"
