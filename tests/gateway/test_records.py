"""Records survive writing and reading whatever they hold; readers survive whatever is in the files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.errors import Unavailable
from paddock.gateway import records
from paddock.gateway.audit import Audit, open_log
from paddock.gateway.records import Decided, Decision, Event, Reader, Record, aggregate, parse_line, read, write_header

if TYPE_CHECKING:
    from pathlib import Path

TIME = "2026-01-02T03:04:05.678+00:00"
ANY_TEXT = st.text(st.characters(), max_size=600) | st.sampled_from(["\U0001f600" * 600, '"' * 600, "\x1b" * 600])


def decided(host: str = "example.com", decision: Decision = Decision.ALLOW, port: int = 443) -> Decided:
    return Decided(protocol="tls", host=host, port=port, decision=decision, rule="example.com", reason="")


def record(line: bytes) -> Record:
    parsed = parse_line(line.removesuffix(b"\n"))
    assert parsed is not None
    return parsed


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [os.fspath(tmp_path / "box.0.jsonl"), os.fspath(tmp_path / "box.1.jsonl")]


@pytest.fixture
def audit(paths: list[str]) -> Audit:
    return _audit(paths)


def _audit(paths: list[str], limit_bytes: int = 2000) -> Audit:
    first, second = map(open_log, paths)
    return Audit(first, second, limit_bytes, box="box", clock=lambda: TIME)


def hosts(found: list[Record]) -> list[str]:
    return [each.host for each in found]


# -- lines -------------------------------------------------------------------------------------------------------------
def test_a_record_survives_being_written_and_read() -> None:
    full = Record(
        time=TIME,
        event=Event.END,
        box="box",
        protocol="http",
        host="example.com",
        port=80,
        decision=Decision.OBSERVE,
        rule="*.example.com",
        reason="observed",
        sent_bytes=1,
        received_bytes=2**40,
        duration_ms=3,
        count=4,
        method="GET",
        path="/x",
        status=200,
        secrets="a,b",
    )
    assert record(full.to_line()) == full
    assert record(Record(time=TIME, event=Event.LOST, box="b").to_line()).decision is Decision.NONE


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, st.integers(-(2**80), 2**80))
def test_no_text_forges_a_line(box: str, host: str, rule: str, reason: str, number: int) -> None:
    """One line, ASCII, without controls, short, and read back as one record with what was decided."""
    written = Record(
        time=TIME, event=Event.DECISION, box=box, host=host, rule=rule, reason=reason, decision=Decision.DENY,
        port=number, sent_bytes=number, method=host, path=reason, secrets=rule, status=number,
    )  # fmt: skip
    line = written.to_line()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F for byte in line[:-1])
    assert len(line) <= limits.AUDIT_LINE_BYTES
    parsed = record(line)
    assert (parsed.event, parsed.decision) == (Event.DECISION, Decision.DENY)
    assert parsed.host.isprintable()
    if host.isascii() and host.isprintable() and len(host) <= 256:
        assert parsed.host == host


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_none(line: bytes) -> None:
    parse_line(line)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Record.__dataclass_fields__, "else"]), _JSON, max_size=5) | _JSON)
def test_any_json_is_a_record_or_none(wire: object) -> None:
    parsed = parse_line(json.dumps(wire).encode())
    if parsed is not None:
        assert parse_line(parsed.to_line()[:-1]) is not None


GOOD = {"time": TIME, "event": "decision", "box": "b", "host": "example.com", "port": 1, "decision": "deny"}


@pytest.mark.parametrize(
    "change",
    [
        {"event": "other"},
        {"decision": "maybe"},
        {"port": "1"},
        {"port": -1},
        {"port": True},
        {"port": 1.0},
        {"host": 1},
        {"host": None},
        {"host": "x" * 257},
        {"reason": "x" * 321},
        {"sent_bytes": 2**63},
        {"unknown": 1},
        {"time": None},
    ],
)
def test_a_line_that_is_not_exactly_a_record_is_none(change: dict[str, object]) -> None:
    assert parse_line(json.dumps(GOOD).encode()) is not None
    assert parse_line(json.dumps(GOOD | change).encode()) is None


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"null", b"[" * 3000, b'{"time":' * 500, b"\xff", b"x" * 5000])
def test_other_things_are_none(line: bytes) -> None:
    assert parse_line(line) is None


# -- reading -----------------------------------------------------------------------------------------------------------
def test_what_was_written_is_read_in_order(audit: Audit, paths: list[str]) -> None:
    audit.decision(decided("a.example"))
    audit.end(decided("a.example"), sent_bytes=1, received_bytes=2, duration_ms=3)
    audit.decision(decided("b.example", Decision.DENY))
    audit.policy("policy of the user", 2)
    audit.close()
    found = read(paths)
    assert [each.event for each in found] == [Event.DECISION, Event.END, Event.DECISION, Event.POLICY]
    assert hosts(found) == ["a.example", "a.example", "b.example", ""]
    assert (found[1].sent_bytes, found[1].received_bytes, found[1].duration_ms) == (1, 2, 3)
    assert (found[3].reason, found[3].count) == ("policy of the user", 2)


def test_following_misses_nothing_across_turns(audit: Audit, paths: list[str]) -> None:
    reader = Reader(paths)
    seen: list[str] = []
    written = [f"host{number}.example" for number in range(200)]
    for name in written:
        audit.decision(decided(name))
        seen += hosts(reader.poll())
    audit.close()
    assert seen == written
    assert os.path.getsize(paths[0]) + os.path.getsize(paths[1]) <= 2000


def test_who_skips_begins_with_what_comes_next(audit: Audit, paths: list[str]) -> None:
    reader = Reader(paths)
    reader.skip()
    assert reader.segment == -1, "there is nothing to skip"
    for number in range(30):
        audit.decision(decided(f"old{number}.example"))
    reader.skip()
    assert reader.poll() == []
    audit.decision(decided("new.example"))
    assert hosts(reader.poll()) == ["new.example"]
    audit.close()


@given(st.lists(st.integers(1, 9), max_size=60))
def test_a_slow_follower_loses_only_what_was_dropped(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    paths = [os.fspath(directory / "0"), os.fspath(directory / "1")]
    audit = _audit(paths)
    reader = Reader(paths)
    seen: list[int] = []
    number = 0
    for pause in pauses:
        for _ in range(pause):
            audit.decision(decided(str(number)))
            number += 1
        before = seen[-1] if seen else -1
        seen += map(int, hosts(reader.poll()))
        assert seen == sorted(set(seen))
        assert not pause or seen[-1] == number - 1
        if pause <= 5:  # less than a half holds: nothing can have been dropped
            assert seen[seen.index(before) + 1 if before >= 0 else 0 :] == list(range(before + 1, number))
    audit.close()


def test_a_reader_that_starts_late_sees_both_halves_in_order(paths: list[str]) -> None:
    audit = _audit(paths)
    for number in range(30):
        audit.decision(decided(str(number)))
    audit.close()
    found = list(map(int, hosts(read(paths))))
    assert found == list(range(found[0], 30))
    assert len(found) >= 5


@pytest.mark.parametrize("present", [[], [0], [1]])
def test_missing_files_are_empty(audit: Audit, paths: list[str], present: list[int]) -> None:
    audit.decision(decided())
    audit.close()
    for half in {0, 1} - set(present):
        os.unlink(paths[half])
    assert len(read(paths)) == (1 if 0 in present else 0)


def test_torn_and_strange_lines_are_passed_over(audit: Audit, paths: list[str]) -> None:
    audit.decision(decided("a.example"))
    with open(paths[0], "ab") as file:
        file.write(b'{"time":"x\nnot json\n\n{}\n\xff\xfe\n' + b"x" * 10_000 + b"\n")
    audit._size = os.path.getsize(paths[0])
    audit._half_bytes = 1 << 20
    audit.decision(decided("b.example"))
    with open(paths[0], "ab") as file:
        file.write(b'{"time":"torn')
    audit.close()
    assert hosts(read(paths)) == ["a.example", "b.example"]


def test_half_a_line_is_read_when_it_is_whole(paths: list[str]) -> None:
    line = Record(time=TIME, event=Event.DECISION, box="b", host="example.com").to_line()
    reader = Reader(paths)
    with open(paths[0], "wb", buffering=0) as file:
        file.write(write_header(0) + line[:20])
        assert reader.poll() == []
        file.write(line[20:])
        assert hosts(reader.poll()) == ["example.com"]
        assert reader.poll() == []
    assert repr(reader) == f"<Reader segment 0 at {len(write_header(0) + line)}>"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"segment":}\n',
        b'{"segment":01}\n',
        b'{"segment":-1}\n',
        b'{"segment":1} \n',
        b'{"segment":1',
        b'{"segment":' + b"1" * 40 + b"}\n",
        b"x" * 100,
        '{"segment":²}\n'.encode(),
    ],
)
def test_a_file_without_its_number_is_not_read(paths: list[str], text: bytes) -> None:
    line = Record(time=TIME, event=Event.DECISION, box="b", host="example.com").to_line()
    with open(paths[0], "wb") as file:
        file.write(text + line)
    with open(paths[1], "wb") as file:
        file.write(write_header(3) + line)
    fd = os.open(paths[0], os.O_RDONLY)
    assert records.header(fd) == (-1, 0)
    os.close(fd)
    assert len(read(paths)) == 1


def test_a_half_emptied_while_it_is_read_is_read_again(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer turns between the reader's first look at the number and its second."""
    audit = _audit(paths)
    for number in range(8):
        audit.decision(decided(str(number)))
    real, calls = records.header, [0]

    def turning(fd: int) -> tuple[int, int]:
        calls[0] += 1
        if calls[0] == 3:
            for number in range(8, 16):
                audit.decision(decided(str(number)))
        return real(fd)

    monkeypatch.setattr(records, "header", turning)
    found = list(map(int, hosts(read(paths))))
    audit.close()
    assert found == sorted(set(found))
    assert found[-1] == 15


@pytest.mark.parametrize("place", ["pipe", "link", "directory"])
def test_what_is_no_file_is_told_and_does_not_hold_the_reader(paths: list[str], place: str) -> None:
    match place:
        case "pipe":
            os.mkfifo(paths[0])
        case "link":
            os.symlink("/etc/passwd", paths[0])
        case _:
            os.mkdir(paths[0])
    with pytest.raises(Unavailable) as raised:
        read(paths)
    assert raised.value.code == "no-log"


# -- aggregating -------------------------------------------------------------------------------------------------------
def test_records_add_up_per_destination_and_outcome(paths: list[str]) -> None:
    audit = _audit(paths, 1 << 20)
    audit.decision(decided("a.example"))
    audit.decision(decided("a.example"))
    audit.end(decided("a.example"), sent_bytes=1, received_bytes=10, duration_ms=1)
    audit.decision(decided("b.example", Decision.DENY))
    audit.end(decided("a.example"), sent_bytes=2, received_bytes=20, duration_ms=1)
    audit.decision(decided("a.example", port=80))
    audit.request(decided("a.example"), method="GET", path="/", status=200, sent_bytes=5)
    for _ in range(2):
        audit.request(decided("c.example", Decision.DENY), method="GET", path="/", status=403)
    audit.policy("other", 0)
    audit.close()
    found = aggregate(read(paths))
    assert [
        (each.host, each.port, each.decision, each.count, each.sent_bytes, each.received_bytes) for each in found
    ] == [
        ("c.example", 443, Decision.DENY, 2, 0, 0),
        ("a.example", 80, Decision.ALLOW, 1, 0, 0),
        ("a.example", 443, Decision.ALLOW, 2, 3, 30),
        ("b.example", 443, Decision.DENY, 1, 0, 0),
    ]


def test_nothing_adds_up_to_nothing() -> None:
    assert aggregate([]) == ()
