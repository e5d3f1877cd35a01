"""Reading what init wrote, which is hostile: forged, torn and missing journals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames
from paddock.engines.guest.journal import Journal
from paddock.errors import Unavailable
from paddock.runtime import journals
from paddock.runtime.journals import JournalState

RUNNING = JournalState(running=True, exit_code=None)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    return tmp_path


def _write(directory: Path, first: bytes, second: bytes = b"") -> None:
    (directory / "journal/job.0").write_bytes(first)
    (directory / "journal/job.1").write_bytes(second)


def _state(directory: Path) -> JournalState:
    return journals.state(os.fspath(directory), "job")


EXIT = frames.encode_message({"event": "exit", "code": 3, "signal": None, "timed_out": False, "id": "job"})
ANONYMOUS = frames.encode_message({"event": "exit", "code": 3, "signal": None, "timed_out": False})
SEGMENT = frames.encode_message({"event": "segment", "sequence": 0, "dropped": 0})


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        (b"", b"", RUNNING),
        (SEGMENT, b"", RUNNING),
        (SEGMENT + frames.encode(frames.STDOUT, b"x"), b"", RUNNING),
        (SEGMENT + EXIT, b"", JournalState(running=False, exit_code=3)),
        (SEGMENT, SEGMENT + EXIT, JournalState(running=False, exit_code=3)),
        (SEGMENT + frames.encode(frames.STDOUT, b"x" * 60_000) + EXIT, b"", JournalState(running=False, exit_code=3)),
        (SEGMENT + ANONYMOUS, b"", RUNNING),
        (frames.encode_message({"event": "exit", "code": 300, "id": "job"}), b"", RUNNING),
        (frames.encode_message({"event": "exit", "code": 0, "id": "another"}), b"", RUNNING),
        (SEGMENT + EXIT[:-1], b"", RUNNING),
        (SEGMENT + EXIT + b"x", b"", RUNNING),
        (
            frames.encode_message({"event": "error", "code": "not-found", "id": "job"}),
            b"",
            JournalState(running=False, exit_code=127),
        ),
        (
            frames.encode_message({"event": "error", "code": "bad-cwd", "id": "job"}),
            b"",
            JournalState(running=False, exit_code=126),
        ),
        (frames.encode_message({"event": "exit", "code": "0", "id": "job"}), b"", RUNNING),
        (frames.encode_message({"event": "exit", "id": "job"}), b"", RUNNING),
    ],
)
def test_a_journal_tells_whether_its_command_ended(
    directory: Path, first: bytes, second: bytes, state: JournalState
) -> None:
    _write(directory, first, second)
    assert _state(directory) == state


def test_output_that_looks_like_an_end_is_none(directory: Path) -> None:
    """The command's own bytes do not know the job's name, or lie inside a frame that ends later than they do."""
    for output in (frames.encode(frames.STDOUT, ANONYMOUS), frames.encode(frames.STDOUT, EXIT) + SEGMENT):
        _write(directory, SEGMENT + output)
        assert _state(directory) == RUNNING


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_some_state(first: bytes, second: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "journal").mkdir()
        _write(Path(name), first, second)
        state = _state(Path(name))
        assert state.running == (state.exit_code is None)


def test_a_journal_as_init_writes_it_is_understood(directory: Path) -> None:
    paths = [os.fspath(directory / f"journal/job.{half}") for half in (0, 1)]
    journal = Journal([os.open(path, os.O_RDWR | os.O_CREAT) for path in paths], 2048)
    for number in range(100):
        journal.write(frames.encode(frames.STDOUT, b"%d" % number * 20))
    assert _state(directory) == RUNNING
    journal.write(EXIT)
    journal.close()
    assert _state(directory) == JournalState(running=False, exit_code=3)


def test_a_journal_that_is_a_link_is_not_followed(directory: Path) -> None:
    (directory / "elsewhere").write_bytes(SEGMENT + EXIT)
    for half in (0, 1):
        (directory / f"journal/job.{half}").symlink_to(directory / "elsewhere")
    assert _state(directory) == RUNNING
    with pytest.raises(Unavailable, match="cannot be read"):
        journals.open_files(os.fspath(directory), "job")


def test_a_missing_half_leaves_no_descriptor_open(directory: Path) -> None:
    (directory / "journal/job.0").touch()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unavailable):
        journals.open_files(os.fspath(directory), "job")
    assert len(os.listdir("/proc/self/fd")) == before


def test_both_halves_are_opened_for_reading_only(directory: Path) -> None:
    _write(directory, b"a", b"b")
    fds = journals.open_files(os.fspath(directory), "job")
    assert [os.read(fd, 10) for fd in fds] == [b"a", b"b"]
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(fd, b"x")
        os.close(fd)


def test_removing_a_journal_twice_is_no_error(directory: Path) -> None:
    _write(directory, b"a", b"b")
    for _ in range(2):
        journals.remove(os.fspath(directory), "job")
    assert list((directory / "journal").iterdir()) == []


def test_an_end_says_how_and_a_command_that_never_began_says_why(directory: Path) -> None:
    end = {"event": "exit", "code": 124, "signal": 9, "timed_out": True, "id": "job"}
    _write(directory, SEGMENT + frames.encode_message(end))
    assert _state(directory) == JournalState(running=False, exit_code=124, signal=9, timed_out=True)
    words: frames.Message = {"event": "error", "code": "not-found", "message": "x\x1b[2J: not found", "id": "job"}
    _write(directory, SEGMENT + frames.encode_message(words))
    assert _state(directory) == JournalState(running=False, exit_code=127, refused=r"x\x1b[2J: not found")
    for code in ("1", True, 256, None):
        assert journals.ended({"code": code}) is None
    assert journals.ended({"code": 1, "signal": "9", "timed_out": 1}) == JournalState(running=False, exit_code=1)
