"""What an agent said, out of a journal that it may have forged."""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import frames
from paddock.agents import parse
from paddock.engines.guest.journal import Journal
from paddock.limits import RUN_FINAL_CHARS
from paddock.runs import output
from paddock.runs.output import Said, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.agents import Agent

_HEAD = 'name = "mine"\ntitle = "Mine"\nprogram = "mine"\n'
_EVENTS = """
[[output.event]]
where = {type = "start"}
session = "thread.id"
[[output.event]]
where = {type = "result", sub = "ok"}
final = "message.text"
[[failure]]
reason = "auth"
match = ["Invalid API key", "not logged in"]
[[failure]]
reason = "quota"
match = ["rate limit"]
"""
LINES = parse(f'{_HEAD}[output]\nformat = "jsonl"\n{_EVENTS}')
WHOLE = parse(f'{_HEAD}[output]\nformat = "json"\n[[output.event]]\nfinal = "response"\nsession = "id"\n')
TEXT = parse(_HEAD)


@pytest.fixture
def fds(tmp_path: Path) -> Iterator[list[int]]:
    opened = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("0", "1")]
    yield opened
    for fd in opened:
        os.close(fd)


def heard(fds: list[int], agent: Agent | None, *said: bytes, half_bytes: int = 1 << 20) -> Said:
    journal = Journal([os.dup(fd) for fd in fds], half_bytes)
    for piece in said:
        kind = frames.STDERR if piece.startswith(b"!") else frames.STDOUT
        journal.write(frames.encode(kind, piece))
    journal.close()
    return output.read(fds, agent)


def line(**value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_events_tell_the_last_message_and_the_conversation_however_they_are_cut(fds: list[int]) -> None:
    data = line(type="start", thread={"id": "s-1"}) + b"not json\n[1]\n" + line(type="result", sub="no")
    data += line(type="result", sub="ok", message={"text": "first"})
    data += line(type="result", sub="ok", message={"text": "last\nwords"}).rstrip()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert heard(fds, LINES, *pieces) == Said(final="last\nwords", session="s-1")


def test_what_was_said_before_the_journal_took_its_turn_is_lost_and_the_end_is_not(fds: list[int]) -> None:
    many = [line(type="noise", text="x" * 200)] * 100
    end = line(type="result", sub="ok", message={"text": "done"})
    said = heard(fds, LINES, line(type="start", thread={"id": "s-1"}), *many, end, half_bytes=4096)
    assert said == Said(final="done")


def test_one_document_is_read_after_what_a_program_prints_before_it(fds: list[int]) -> None:
    said = heard(fds, WHOLE, b"warning: old\n", json.dumps({"response": "done", "id": "7"}, indent=2).encode())
    assert said == Said(final="done", session="7")


def test_without_machine_output_the_end_of_the_text_is_the_message(fds: list[int]) -> None:
    assert heard(fds, TEXT, b"\x1b[1mbold\x1b[0m\r\n", b"and\x1b]0;title\x07 done\n").final == "bold\nand done"
    assert heard(fds, LINES, b"plain words\n").final == "plain words"
    assert heard(fds, None, b"of nobody known\n").final == "of nobody known"


def test_words_of_a_failure_are_found_in_either_stream_and_in_any_case(fds: list[int]) -> None:
    assert heard(fds, LINES, b"!fatal: INVALID api KEY\n").words == "auth"
    assert heard(fds, LINES, b"429 Rate Limit\n").words == "quota"
    assert heard(fds, LINES, b"all is well\n").words == ""
    assert heard(fds, LINES, b"not logged in\n", b"x" * 60_000).words == "", "that was long ago"


def test_nothing_that_a_terminal_obeys_or_that_is_endless_comes_out(fds: list[int]) -> None:
    evil = "\x1b[2J\x1b]52;c;eA==\x07a\u202eb\x00c\r" + "z" * 10_000
    said = heard(fds, LINES, line(type="result", sub="ok", message={"text": evil}))
    assert len(said.final) <= RUN_FINAL_CHARS
    assert said.final.replace("\n", "").isprintable()
    assert "\x1b" not in said.final
    for session in ("../x", "a b", "", "x" * 200, "-rf", 7, None, ["a"]):
        assert heard(fds, LINES, line(type="start", thread={"id": session})).session == ""


@pytest.mark.parametrize(
    "evil",
    [
        b"[" * 900 + b"]" * 900,
        b'{"type":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"type": ' + b"9" * 50_000 + b"}",
        b'{"type": "result", "sub": "ok", "message": {"text": {"text": 7}}}',
        b'{"type": "result", "sub": "ok", "message": "text"}',
        b'{"type": "start", "thread": {"id": NaN}}',
        b"\xff\xfe{}",
    ],
)
def test_an_event_that_is_none_is_passed_over(fds: list[int], evil: bytes) -> None:
    good = line(type="result", sub="ok", message={"text": "good"})
    assert heard(fds, LINES, evil + b"\n", good, evil + b"\n") == Said(final="good")


def test_plain_values_of_events_are_compared_as_a_definition_writes_them(fds: list[int]) -> None:
    words = 'format = "jsonl"\n[[output.event]]\nwhere = {ok = "true", "n.m" = "3"}\nfinal = "text"\n'
    agent = parse(f"{_HEAD}[output]\n{words}")
    assert (
        heard(fds, agent, line(ok=True, n={"m": 3}, text="yes"), line(ok="True", n={"m": 3}, text="no")).final == "yes"
    )


def test_output_a_byte_at_a_time_is_read_to_its_end(fds: list[int]) -> None:
    assert heard(fds, TEXT, *[b"x"] * 100_000, b"\n", *[b"y"] * 10, half_bytes=8 << 20).final.endswith("y" * 10)


def test_an_event_of_any_length_costs_no_more_than_the_bound(fds: list[int]) -> None:
    huge = b'{"type": "result", "sub": "ok", "message": {"text": "' + b"x" * (2 << 20) + b'"}}\n'
    pieces = [huge[at : at + 60_000] for at in range(0, len(huge), 60_000)]
    end = line(type="result", sub="ok", message={"text": "after it"})
    assert heard(fds, LINES, *pieces, end, half_bytes=16 << 20).final == "after it"


def test_reading_ends_when_its_time_is_over(fds: list[int]) -> None:
    """What was said early is not taken for the end."""
    begin = line(type="start", thread={"id": "s-1"})
    heard(fds, LINES, begin, b"invalid api key\n", *[b"x\n"] * 100)
    ticks = itertools.count(step=1.0)
    assert output.read(fds, LINES, clock=lambda: next(ticks)) == Said(session="s-1")


@given(data=st.binary(max_size=400))
def test_bytes_that_are_no_journal_say_nothing(data: bytes) -> None:
    fd = os.memfd_create("journal")
    try:
        os.write(fd, frames.encode_message({"event": "segment", "sequence": 0}) + data)
        said = output.read([fd, fd], LINES)
        assert "\x1b" not in said.final
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)
        output.read([fd], LINES)
    finally:
        os.close(fd)


def test_text_for_people_keeps_its_end() -> None:
    assert plain("one\ntwo\n") == "one\ntwo"
    long = plain("\n".join(f"line {number}" for number in range(5000)))
    assert long.endswith("line 4999")
    assert len(long) <= RUN_FINAL_CHARS


def test_a_control_sequence_without_an_end_costs_little() -> None:
    """It held the daemon for more than a second at the end of each run."""
    before_s = time.process_time()
    assert plain("\x1b[" + "!" * 15_000).startswith("\\x1b[!!!")
    assert time.process_time() - before_s < 0.5
    assert plain("\x1b[1;31!mred\x1b[0m") == "red", "the oracle: one with an end is taken out"
