"""One channel for a whole tree: requests in turn, and no rest of one answer in the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.errors import Unavailable, UserError
from tests.cli.liar import Liar, entry, says, tree

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_many_files_are_read_over_one_connection() -> None:
    with tree("/t") as box, box.files as files:
        for number in range(20):
            with files.read(f"/t/{number}") as chunks:
                assert b"".join(chunks) == b"content"
        assert files.stat("/t").kind == "directory"
        assert repr(files) == "<BoxFiles connected>"
    assert (box.connections, len(box.asked)) == (1, 21)


@pytest.mark.parametrize("read_one", [True, False])
def test_a_file_that_is_not_read_to_its_end_does_not_spoil_the_next(read_one: bool) -> None:
    with tree("/t") as box, box.files as files:
        with files.read("/t/a") as chunks:
            if read_one:
                assert next(chunks) == b"content"
        assert repr(files) == "<BoxFiles not connected>"
        assert files.stat("/t").kind == "directory"
    assert box.connections == 2


def test_a_refusal_is_the_users_error_and_the_channel_goes_on() -> None:
    with Liar(stat=lambda _request: [says(event="entry", entry=entry("/t"))]) as box, box.files as files:
        with pytest.raises(UserError, match="refused"), files.read("/t/a"):
            pass
        with pytest.raises(UserError, match="refused"):
            files.symlink("/l", "to")
        assert files.stat("/t").kind == "file"
    assert box.connections == 1


def test_a_listing_has_a_connection_of_its_own() -> None:
    with tree("/t", entry("/t/a"), entry("/t/b")) as box, box.files as files:
        seen = []
        for found in files.entries("/t"):
            assert not isinstance(found, tuple)
            with files.read(found.path) as chunks:
                seen.append((found.path, b"".join(chunks)))
    assert seen == [("/t/a", b"content"), ("/t/b", b"content")]


def test_files_are_written_over_one_connection() -> None:
    ready: list[bytes] = [says(event="ready")]
    with Liar(write=lambda _request: ready) as box, box.files as files:
        files.write("/t/a", 0o640, [b"x" * 65536] * 3 + [b"y"])
        files.write("/t/b", 0o644, [])
    assert [(row["path"], row["mode"], row["parents"]) for row in box.asked] == [
        ("/t/a", 0o640, True),
        ("/t/b", 0o644, True),
    ]
    assert box.connections == 1


def nonsense() -> list[list[bytes]]:
    return [
        [],
        [says(event="entry"), says(event="entry", entry=7)],
        [says(event="entry"), frames.encode(frames.STDOUT, b"x")],
        [says(event="entry"), b"\xff" * 64],
        [b"\xff" * 64],
        [frames.encode(frames.FILE, b"x")],
        [frames.encode(frames.MESSAGE, b"[]")],
    ]


@pytest.mark.parametrize("pieces", nonsense())
def test_a_box_that_talks_nonsense_is_refused(pieces: list[bytes]) -> None:
    def answer(_request: dict[str, object]) -> Iterable[bytes]:
        yield from pieces
        raise OSError  # hangs up

    with Liar(read=answer, stat=answer, list_dir=answer) as box, box.files as files:
        with pytest.raises(Unavailable), files.read("/t") as chunks:
            list(chunks)
        with pytest.raises(Unavailable):
            files.stat("/t")
    with Liar(list_dir=answer) as box, box.files as files, pytest.raises(Unavailable):
        list(files.entries("/t"))


@pytest.mark.parametrize("rows", [None, 7, [7], [{}], [{"path": "/t/a", "kind": "file", "size": "1", "mode": 1}]])
def test_a_listing_that_is_none_is_refused(rows: object) -> None:
    box = Liar(list_dir=lambda _request: [says(event="entries", entries=rows)])
    with box, box.files as files, pytest.raises(Unavailable, match="malformed"):
        list(files.entries("/t"))


def test_a_box_that_hangs_up_is_not_taken_for_a_reader_that_left() -> None:
    def answer(_request: dict[str, object]) -> Iterable[bytes]:
        yield says(event="ready")
        raise OSError  # hangs up

    def endless() -> Iterable[bytes]:
        while True:
            yield b"x" * 65536

    with Liar(write=answer) as box, box.files as files, pytest.raises(Unavailable, match="hung up"):
        files.write("/t/a", 0o644, endless())
