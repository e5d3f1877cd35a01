"""A journal holds the newest frames, whole ones, in a bounded room; no disk can make it fail its command."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames
from paddock.engines.guest.journal import AWAY_BYTES, Journal
from paddock.engines.guest.wire import STDOUT, frame, message
from tests.fs.children import in_child

if TYPE_CHECKING:
    from paddock.frames import Message


def opened(directory: Path) -> list[int]:
    return [os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) for name in ("0", "1")]


def halves(directory: Path) -> list[list[tuple[int, bytes]]]:
    return [frames.Decoder().feed((directory / name).read_bytes()) for name in ("0", "1")]


def segment(half: list[tuple[int, bytes]]) -> Message:
    assert half[0][0] == frames.MESSAGE
    return frames.decode_message(half[0][1])


def chained(directory: Path) -> tuple[bytes, int]:
    """What a reader sees, oldest first, and how many bytes it is told are gone."""
    found = sorted((segment(half)["sequence"], half) for half in halves(directory) if half)
    newest = segment(found[-1][1])
    assert isinstance(newest["dropped"], int)
    return b"".join(payload for _, half in found for _, payload in half[1:]), newest["dropped"]


def test_what_was_written_is_there(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 4096)
    journal.write(frame(STDOUT, b"one"))
    journal.write(frame(STDOUT, b"two"))
    journal.close()
    assert halves(tmp_path)[0][1:] == [(STDOUT, b"one"), (STDOUT, b"two")]
    assert halves(tmp_path)[1] == []


def test_the_files_take_turns_and_the_older_half_goes(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 4096)
    for number in range(40):
        journal.write(frame(STDOUT, b"%03d" % number * 100))
    journal.close()
    seen, dropped = chained(tmp_path)
    assert seen.endswith(b"039" * 100)
    assert dropped > 0
    sequences = [segment(half)["sequence"] for half in halves(tmp_path)]
    assert abs(int(str(sequences[0])) - int(str(sequences[1]))) == 1


@given(st.lists(st.binary(min_size=1, max_size=900), max_size=60), st.integers(1024, 4096))
def test_any_sequence_of_frames_leaves_a_bounded_tail_of_whole_frames(payloads: list[bytes], half: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        journal = Journal(opened(directory), half)
        for payload in payloads:
            journal.write(frame(STDOUT, payload))
        journal.close()
        assert sum((directory / name).stat().st_size for name in ("0", "1")) <= 2 * half
        seen, dropped = chained(directory)
        everything = b"".join(payloads)
        assert everything.endswith(seen)
        assert bool(dropped) == (seen != everything)


def test_a_frame_larger_than_a_half_is_still_kept(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 64)
    journal.write(frame(STDOUT, b"x" * 1000))
    journal.close()
    assert chained(tmp_path)[0] == b"x" * 1000


def test_old_content_of_the_files_is_gone(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"rubbish" * 100)
    fds = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT, 0o600) for name in ("0", "1")]
    Journal(fds, 4096).close()
    assert segment(halves(tmp_path)[0])["event"] == "segment"


def test_a_full_disk_loses_frames_whole_and_says_how_much(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: the write that crosses it is torn, the next ones fail."""

    def act() -> None:
        journal = Journal(opened(tmp_path), 1 << 20)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        for _ in range(8):
            journal.write(frame(STDOUT, b"y" * 900))
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        journal.write(message({"event": "exit", "code": 0}))
        journal.close()

    in_child(act)
    half = halves(tmp_path)[0]
    assert [payload for kind, payload in half if kind == STDOUT] == [b"y" * 900] * 5
    assert frames.decode_message(half[-1][1])["event"] == "exit", "a smaller frame still fits"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_files_that_fail_while_it_runs_do_not_stop_the_command(tmp_path: Path, flags: int) -> None:
    fds = opened(tmp_path)
    journal = Journal(fds, 256)
    journal.write(frame(STDOUT, b"z" * 150))
    for fd, name in zip(fds, ("0", "1"), strict=True):
        broken = os.open(tmp_path / name, flags)
        os.dup2(broken, fd)
        os.close(broken)
    for _ in range(20):
        journal.write(frame(STDOUT, b"z" * 100))
    journal.close()
    assert chained(tmp_path) == (b"z" * 150, 0)


def test_files_that_cannot_be_written_are_refused_at_the_start(tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / name).touch()
    fds = [os.open(tmp_path / name, os.O_RDONLY) for name in ("0", "1")]
    with pytest.raises(OSError, match="Invalid argument"):
        Journal(fds, 4096)
    for fd in fds:
        os.close(fd)


def again(directory: Path) -> list[int]:
    return [os.open(directory / name, os.O_RDWR) for name in ("0", "1")]


def said(directory: Path) -> list[bytes]:
    found = sorted((segment(half)["sequence"], half) for half in halves(directory) if half)
    return [payload for _, half in found for kind, payload in half if kind == STDOUT]


def test_what_is_written_while_its_files_are_away_is_in_them_when_they_are_back(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 4096)
    journal.write(frame(STDOUT, b"one"))
    journal.let_go()
    assert journal.is_away
    journal.write(frame(STDOUT, b"two"))
    assert said(tmp_path) == [b"one"]
    journal.take(again(tmp_path))
    journal.write(frame(STDOUT, b"three"))
    assert said(tmp_path) == [b"one", b"two", b"three"]
    journal.let_go()
    journal.write(frame(STDOUT, b"four"))
    journal.close()
    journal.take(again(tmp_path))
    assert said(tmp_path)[-1] == b"four", "its end, too"
    assert journal.is_away, "and it is over"


def test_what_is_kept_without_files_is_bounded_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 1 << 20)
    journal.let_go()
    for _ in range(40):
        journal.write(frame(STDOUT, b"x" * 10_000))
    assert sum(map(len, journal._waiting)) <= AWAY_BYTES
    journal.take(again(tmp_path))
    assert len(said(tmp_path)) == AWAY_BYTES // len(frame(STDOUT, b"x" * 10_000))
    assert journal._dropped == (40 - len(said(tmp_path))) * len(frame(STDOUT, b"x" * 10_000))


def test_files_that_went_on_without_it_are_put_back_to_where_it_was(tmp_path: Path) -> None:
    """A box was put back: what its command said since, its end too, was not said."""
    journal = Journal(opened(tmp_path), 4096)
    journal.write(frame(STDOUT, b"then"))
    journal.let_go()
    with (tmp_path / "0").open("ab") as file:
        file.write(frame(STDOUT, b"later") + message({"event": "exit"}))
    (tmp_path / "1").write_bytes(message({"event": "segment", "sequence": 1, "dropped": 0}))
    journal.take(again(tmp_path))
    journal.write(frame(STDOUT, b"otherwise"))
    assert said(tmp_path) == [b"then", b"otherwise"]
    assert (tmp_path / "1").read_bytes() == b""


@pytest.mark.parametrize("data", [b"", b"x" * 5000, message({"event": "segment", "sequence": 8, "dropped": 5})])
def test_files_of_other_turns_are_begun_anew(tmp_path: Path, data: bytes) -> None:
    journal = Journal(opened(tmp_path), 4096)
    journal.write(frame(STDOUT, b"then"))
    journal.let_go()
    (tmp_path / "0").write_bytes(data)
    journal.take(again(tmp_path))
    journal.write(frame(STDOUT, b"new"))
    assert said(tmp_path) == [b"new"]
    assert segment(halves(tmp_path)[0])["dropped"] == len(frame(STDOUT, b"then")) + len(
        message({"event": "segment", "sequence": 0, "dropped": 0})
    )


def test_files_that_cannot_be_written_end_it_and_not_the_command(tmp_path: Path) -> None:
    journal = Journal(opened(tmp_path), 4096)
    journal.let_go()
    journal.take([os.open(tmp_path / name, os.O_RDONLY) for name in ("0", "1")])
    assert journal.is_away
    journal.write(frame(STDOUT, b"lost"))
