"""A record comes back as it was written, or is refused; it never has a value."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from paddock.errors import Unavailable, UserError
from paddock.secrets.binding import Words, bind
from paddock.secrets.record import Backend, Kind, Record, Source, decode, encode

RECORD = Record(
    name="github",
    binding=bind("github", Words(repos=["me/a:ro"])),
    source=Source(kind=Kind.STORED, words=("0" * 32,), backend=Backend.FILE),
    created="2026-01-01T00:00:00+00:00",
    changed="2026-01-02T00:00:00+00:00",
)


def test_it_comes_back_as_it_was_written() -> None:
    assert decode(encode(RECORD), "here") == RECORD


def test_it_has_no_place_for_a_value() -> None:
    names = {field.name for cls in (Record, Source, type(RECORD.binding)) for field in fields(cls)}
    assert not names & {"value", "secret", "token"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        b"[" * 100_000,
        json.dumps({**json.loads(encode(RECORD)), "value": "x"}).encode(),
        json.dumps({**json.loads(encode(RECORD)), "name": "other"}).encode(),
        json.dumps({**json.loads(encode(RECORD)), "source": {"kind": "stored", "words": ["a"]}}).encode(),
        encode(RECORD)[:-5],
    ],
)
def test_a_damaged_one_is_named(data: bytes) -> None:
    with pytest.raises(Unavailable, match=r"/there/github\.json is damaged"):
        decode(data, "/there/github.json")


@pytest.mark.parametrize(
    ("kind", "words", "backend"),
    [
        (Kind.ENV, (), None),
        (Kind.ENV, ("A", "B"), None),
        (Kind.FILE, ("/a", "/b"), None),
        (Kind.FILE, ("/a",), Backend.FILE),
        (Kind.STORED, ("a",), None),
    ],
)
def test_a_source_says_neither_less_nor_more_than_it_needs(
    kind: Kind, words: tuple[str, ...], backend: Backend | None
) -> None:
    with pytest.raises(UserError):
        Source(kind=kind, words=words, backend=backend)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (Source(kind=Kind.STORED, words=("a",), backend=Backend.KEYRING), "keyring"),
        (Source(kind=Kind.STORED, words=("a",), backend=Backend.FILE), "stored file"),
        (Source(kind=Kind.ENV, words=("MY_KEY",)), "env MY_KEY"),
        (Source(kind=Kind.FILE, words=("/a/b",)), "file /a/b"),
        (Source(kind=Kind.COMMAND, words=("/bin/get", "--password", "hunter2")), "command /bin/get"),
    ],
)
def test_people_see_where_a_value_comes_from_but_no_arguments(source: Source, shown: str) -> None:
    assert source.shown() == shown
