"""Saving from the host's side: who cannot be, what a start gets, and a keeper that says nothing."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import frames, fs, limits
from paddock.engines.container import ids, saving
from paddock.errors import Unavailable
from paddock.model import Network, Publish
from tests.engines.container.boxes import placed

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from paddock.engines.base import Placement

MANY = ids.block(0)
FILES = ("checkpoint.img", "pages.img", "pages_meta.img")


@pytest.fixture
def placement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Placement:
    monkeypatch.setattr(ids, "of_caller", lambda _index: MANY)
    made = placed(tmp_path, tmp_path, runtime="runsc")
    for name in ("root", "run"):
        os.mkdir(f"{made.directory}/{name}")
    return made


def kept(place: Path, origin: str = "1 a") -> str:
    place.mkdir()
    for name in FILES:
        (place / name).write_text(name)
    (place / "origin").write_text(origin)
    return os.fspath(place)


def test_it_is_said_who_cannot_be_saved(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    published = Network(publish=(Publish(port=8000, box_port=8000),))
    for changed, why in (
        (replace(placement, spec=replace(placement.spec, runtime="crun")), "only boxes of the runtime runsc"),
        (replace(placement, spec=replace(placement.spec, network=published)), "published ports"),
    ):
        with pytest.raises(Unavailable, match=why):
            saving.save(changed, lambda: "")
    monkeypatch.setattr(ids, "of_caller", lambda _index: ids.own(4_000_000, 4_000_000))
    with pytest.raises(Unavailable, match="it has one id"):
        saving.save(placement, lambda: "")


def test_a_start_gets_the_same_files_by_other_names(placement: Placement, tmp_path: Path) -> None:
    memory = kept(tmp_path / "kept")
    saving.lay_out(replace(placement, memory=memory), lambda: "1 a")
    place = f"{placement.directory}/root/memory"
    assert sorted(os.listdir(place)) == sorted(FILES)
    assert os.path.samefile(f"{place}/pages.img", f"{memory}/pages.img")
    saving.lay_out(placement, lambda: "1 a")
    assert not os.path.exists(place), "one that starts without has none"
    assert sorted(os.listdir(memory)) == sorted([*FILES, "origin"])


@pytest.mark.parametrize("origin", ["2 a", "1 b", ""])
def test_what_another_version_kept_is_not_begun_from(placement: Placement, tmp_path: Path, origin: str) -> None:
    memory = kept(tmp_path / "kept", origin)
    with pytest.raises(Unavailable, match="another version"):
        saving.lay_out(replace(placement, memory=memory), lambda: "1 a")


def served(placement: Placement, act: Callable[[socket.socket], None]) -> threading.Thread:
    """A keeper that does `act` for the first who asks."""
    listener = fs.bind_unix(f"{placement.directory}/run", "keeper.sock")
    listener.listen()

    def serve() -> None:
        with listener:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(20)
                peer.recv(100)
                act(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_it_is_saved_with_where_it_comes_from(placement: Placement) -> None:
    def save(peer: socket.socket) -> None:
        os.mkdir(f"{placement.directory}/root/memory")
        peer.sendall(frames.encode_message({"event": "done"}))

    thread = served(placement, save)
    place = saving.save(placement, lambda: "1 a")
    thread.join()
    with open(f"{place}/origin", encoding="ascii") as file:
        assert file.read() == "1 a"


@pytest.mark.parametrize("said", [b"", frames.encode_message({"event": "error", "message": "no room"}), b"\xff" * 9])
def test_a_keeper_that_hangs_up_refuses_or_lies_is_an_error(placement: Placement, said: bytes) -> None:
    thread = served(placement, lambda peer: peer.sendall(said))
    with pytest.raises(Unavailable, match="cannot be kept as it runs"):
        saving.save(placement, lambda: "1 a")
    thread.join()


def test_one_that_says_a_little_now_and_then_has_no_more_time_for_it(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SAVE_S", 0.3)
    over = threading.Event()

    def drip(peer: socket.socket) -> None:
        for byte in frames.encode_message({"event": "done"})[:-1]:
            peer.send(bytes([byte]))
            if over.wait(0.05):
                return

    thread = served(placement, drip)
    with pytest.raises(Unavailable, match=r"in time|timed out"):
        saving.save(placement, lambda: "1 a")
    over.set()
    thread.join()
