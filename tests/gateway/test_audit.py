"""The log of a box is bounded, goes on after a crash, survives a full disk and counts what it lost."""

from __future__ import annotations

import contextlib
import json
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.audit import Audit, Denials, now, open_log
from paddock.gateway.records import Decided, Decision, Event, read, write_header

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = "2026-01-02T03:04:05.678+00:00"


@contextlib.contextmanager
def full_disk(room_bytes: int) -> Iterator[None]:
    """Files of this process cannot grow over `room_bytes`: writes end in the middle, then fail."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def decided(host: str = "example.com") -> Decided:
    return Decided(protocol="tls", host=host, port=443, decision=Decision.DENY, rule="default", reason="no rule")


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [os.fspath(tmp_path / "0"), os.fspath(tmp_path / "1")]


def audit_of(paths: list[str], limit_bytes: int = 1 << 20) -> Audit:
    first, second = map(open_log, paths)
    return Audit(first, second, limit_bytes, box="box", clock=lambda: TIME)


def hosts(paths: list[str]) -> list[str]:
    return [record.host for record in read(paths)]


def test_times_are_utc_to_the_millisecond() -> None:
    assert len(now()) == len(TIME)
    assert now().endswith("+00:00")


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_log_has_its_mode_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    old = os.umask(0o077)
    try:
        os.close(open_log(os.fspath(tmp_path / "log"), mode))
    finally:
        os.umask(old)
    assert (tmp_path / "log").stat().st_mode & 0o777 == mode


def test_a_link_in_place_of_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        open_log(os.fspath(tmp_path / "log"))


def test_nothing_is_written_before_the_first_record(paths: list[str]) -> None:
    audit_of(paths).close()
    assert [os.path.getsize(path) for path in paths] == [0, 0]


@given(st.lists(st.integers(0, 300), max_size=80))
def test_the_files_never_hold_more_than_the_limit(tmp_path_factory: pytest.TempPathFactory, lengths: list[int]) -> None:
    directory = tmp_path_factory.mktemp("log")
    paths = [os.fspath(directory / "0"), os.fspath(directory / "1")]
    audit = audit_of(paths, 4000)
    for length in lengths:
        audit.decision(decided("x" * length))
        assert os.path.getsize(paths[0]) + os.path.getsize(paths[1]) <= 4000
    audit.close()
    assert audit.lost == 0


def test_a_new_writer_goes_on_where_the_last_ended(paths: list[str]) -> None:
    for number in range(60):
        audit = audit_of(paths, 4000)
        audit.decision(decided(str(number)))
        audit.close()
    found = list(map(int, hosts(paths)))
    assert found == list(range(found[0], 60))
    assert len(found) > 10


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_writer_that_died_in_the_middle_of_a_line_costs_that_line(paths: list[str], cut: int) -> None:
    audit = audit_of(paths)
    for name in ("a", "b"):
        audit.decision(decided(name))
    audit.close()
    os.truncate(paths[0], os.path.getsize(paths[0]) - cut)
    assert hosts(paths) == ["a"]
    audit = audit_of(paths)
    audit.decision(decided("c"))
    audit.close()
    assert hosts(paths) == ["a", "c"]


@pytest.mark.parametrize("half", [b"", b'{"seg', b"garbage\n" * 3, b"x" * 9000])
def test_a_half_without_its_number_is_begun_anew(paths: list[str], half: bytes) -> None:
    with open(paths[0], "wb") as file:
        file.write(half)
    audit = audit_of(paths)
    audit.decision(decided("a"))
    audit.close()
    assert hosts(paths) == ["a"]


def test_a_half_of_one_endless_line_is_cut(paths: list[str]) -> None:
    with open(paths[0], "wb") as file:
        file.write(write_header(0) + b"x" * 20_000)
    audit = audit_of(paths)
    audit.decision(decided("a"))
    audit.close()
    assert len(hosts(paths)) <= 1  # that line may be lost to it, the next not
    audit = audit_of(paths)
    audit.decision(decided("b"))
    audit.close()
    assert hosts(paths)[-1] == "b"


@pytest.mark.parametrize("room_bytes", range(200, 520, 13))
def test_a_full_disk_is_survived_and_what_was_lost_is_counted(paths: list[str], room_bytes: int) -> None:
    audit = audit_of(paths)
    with full_disk(room_bytes):
        for number in range(10):
            audit.decision(decided(str(number)))
    kept = sum(1 for record in read(paths) if record.host)
    assert 0 < audit.lost <= 10 - kept
    assert f"{audit.lost} lost" in repr(audit)
    audit.decision(decided("after"))
    audit.close()
    found = read(paths)
    assert [record.event for record in found[-2:]] == [Event.LOST, Event.DECISION]
    assert sum(record.count for record in found) == 10 - kept
    assert audit.lost == 0
    for path in paths:
        with open(path, "rb") as file:
            assert all(line.endswith(b"\n") for line in file)


@pytest.mark.parametrize("before", range(12))
@pytest.mark.parametrize("room_bytes", [0, 5, 20])
def test_a_full_disk_when_the_halves_turn_loses_no_count(paths: list[str], before: int, room_bytes: int) -> None:
    audit = audit_of(paths, 1000)
    for number in range(before):
        audit.decision(decided(str(number)))
    with full_disk(room_bytes):
        for number in range(9):
            audit.decision(decided(str(number)))
    audit.decision(decided("after"))
    audit.close()
    *_, note, last = read(paths)
    assert (note.event, note.count) == (Event.LOST, 9)
    assert last.host == "after"


def test_descriptors_that_are_broken_lose_records_and_nothing_else(tmp_path: Path) -> None:
    full = [os.open("/dev/full", os.O_RDWR) for _ in range(2)]
    audit = Audit(*full, box="box")
    audit.decision(decided())
    audit.end(decided(), sent_bytes=0, received_bytes=0, duration_ms=0)
    assert audit.lost == 2
    audit.close()
    read_end, write_end = os.pipe()
    audit = Audit(read_end, write_end, box="box")
    audit.decision(decided())
    assert audit.lost == 1
    audit.close()


# -- denials -----------------------------------------------------------------------------------------------------------
def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_denial_says_what_why_and_how_to_allow_it(tmp_path: Path) -> None:
    denials = Denials(open_log(os.fspath(tmp_path / "d"), 0o644), clock=lambda: TIME)
    denials.add(decided(), allow="paddock policy allow --box box example.com:443")
    denials.close()
    assert lines(tmp_path / "d") == [
        {
            "time": TIME,
            "protocol": "tls",
            "host": "example.com",
            "port": 443,
            "rule": "default",
            "reason": "no rule",
            "allow": "paddock policy allow --box box example.com:443",
        }
    ]


def test_the_box_keeps_one_file_that_holds_the_newest_denials(tmp_path: Path) -> None:
    path = tmp_path / "d"
    denials = Denials(open_log(os.fspath(path), 0o644), 4000, clock=lambda: TIME)
    inode = path.stat().st_ino
    for number in range(200):
        denials.add(decided(f"{number}.example"), allow="")
        assert path.stat().st_size <= 4000
        assert lines(path)[-1]["host"] == f"{number}.example"
    denials.close()
    found = [int(str(line["host"]).partition(".")[0]) for line in lines(path)]
    assert found == list(range(found[0], 200))
    assert len(found) > 10
    assert path.stat().st_ino == inode


@given(st.text(max_size=600), st.text(max_size=600))
def test_no_text_forges_a_denial(tmp_path_factory: pytest.TempPathFactory, host: str, allow: str) -> None:
    path = tmp_path_factory.mktemp("d") / "d"
    denials = Denials(open_log(os.fspath(path)))
    denials.add(decided(host), allow=allow)
    denials.close()
    data = path.read_bytes()
    assert data.count(b"\n") == 1
    assert data.isascii()
    assert len(data) < 4096


def test_a_denial_torn_by_a_crash_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "d"
    denials = Denials(open_log(os.fspath(path)))
    for host in ("a", "b"):
        denials.add(decided(host), allow="")
    denials.close()
    os.truncate(path, path.stat().st_size - 5)
    denials = Denials(open_log(os.fspath(path)))
    denials.add(decided("c"), allow="")
    denials.close()
    assert [line["host"] for line in lines(path)] == ["a", "c"]


@pytest.mark.parametrize("room_bytes", [0, 100, 150, 1000])
def test_denials_survive_a_full_disk(tmp_path: Path, room_bytes: int) -> None:
    path = tmp_path / "d"
    denials = Denials(open_log(os.fspath(path)), 3000)
    with full_disk(room_bytes):
        for number in range(50):
            denials.add(decided(str(number)), allow="")
            lines(path)
    denials.add(decided("after"), allow="")
    assert lines(path)[-1]["host"] == "after"
    assert repr(denials).startswith("<Denials fd ")
    denials.close()


def test_what_a_box_chose_is_cleaned_before_it_is_cut(paths: list[str], tmp_path: Path) -> None:
    audit, denials = audit_of(paths), Denials(open_log(os.fspath(tmp_path / "denials")))
    decided = Decided(protocol="https", host="value.test", port=443, decision=Decision.DENY, reason="for value")
    files = [*map(Path, paths), tmp_path / "denials"]
    for cleaned in (False, True):
        if cleaned:
            audit.clean = denials.clean = lambda text: text.replace("value", "***")
        audit.decision(decided)
        audit.end(decided, sent_bytes=0, received_bytes=0, duration_ms=0, reason="value")
        audit.request(decided, method="value", path="/" * 317 + "value", status=403)
        denials.add(decided, allow="paddock policy allow value.test")
        written = b"".join(path.read_bytes() for path in files)
        if not cleaned:
            assert written.count(b"val") == 10
            for path in files:
                os.truncate(path, 0)
        else:
            assert b"val" not in written
            assert written.count(b"***") >= 9
    audit.close()
    denials.close()
