"""Records on disk: written whole, read strictly, the newest kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.metering.ledger import Line
from paddock.reports import ChangedInfo, HostCount, ModelUse, RunInfo, TrafficInfo
from paddock.runs.store import Began, Kept, Store

if TYPE_CHECKING:
    from pathlib import Path

INFO = RunInfo(
    id="00c0ffee",
    box="mine",
    box_id="aabbccddeeff",
    agent="claude",
    mode="headless",
    started="2030-01-01T10:00:00.000+00:00",
    changed=ChangedInfo(count=1, names=("a.py",)),
    network=TrafficInfo(refused=(HostCount(host="x.test", count=2),)),
    usage=(ModelUse(provider="anthropic", model="m", requests=1),),
)


def kept(run: str = INFO.id, started: str = INFO.started) -> Kept:
    line = Line(provider="anthropic", model="m", requests=3)
    info = replace(INFO, id=run, started=started)
    return Kept(info=info, began=Began(since_ns=5, lines=(line,), stuck_after_s=1.5))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(os.fspath(tmp_path / "runs"))


def test_a_record_comes_back_as_it_was_written_and_only_its_user_can_read_it(store: Store, tmp_path: Path) -> None:
    store.write(kept())
    assert store.find("00c0ffee") == kept()
    assert store.find("00c") == kept()
    assert store.all().kept == (kept(),)
    assert os.stat(tmp_path / "runs").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "runs/00c0ffee.json").st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "runs") == ["00c0ffee.json"], "no half-written file stays"


def test_the_newest_comes_first(store: Store) -> None:
    for run, second in (("0000000a", 3), ("0000000b", 1), ("0000000c", 2)):
        store.write(kept(run, f"2030-01-01T10:00:0{second}.000+00:00"))
    assert [one.info.id for one in store.all().kept] == ["0000000a", "0000000c", "0000000b"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"info": {}, "began": {}}',
        json.dumps({"info": {"id": "0badbad0"}}).encode(),
        b" " * 300_000,
    ],
    ids=["empty", "torn", "list", "deep", "keys", "part", "long"],
)
def test_what_cannot_be_read_is_left_out_and_named(store: Store, tmp_path: Path, data: bytes) -> None:
    store.write(kept())
    (tmp_path / "runs/0badbad0.json").write_bytes(data)
    found = store.all()
    assert (found.kept, found.damaged) == ((kept(),), ("0badbad0.json",))
    with pytest.raises(UserError, match="the record of run 0badbad0 cannot be read"):
        store.find("0bad")


def test_a_record_under_another_name_a_link_and_a_stray_file_are_not_taken_for_one(
    store: Store, tmp_path: Path
) -> None:
    store.write(kept())
    place = tmp_path / "runs"
    (place / "11111111.json").write_bytes((place / "00c0ffee.json").read_bytes())
    (place / "22222222.json").symlink_to(place / "00c0ffee.json")
    (place / "notes.txt").write_text("mine")
    found = store.all()
    assert [one.info.id for one in found.kept] == ["00c0ffee"]
    assert sorted(found.damaged) == ["11111111.json", "22222222.json"]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("", "is not the id of a run"),
        ("../00c0ffee", "is not the id of a run"),
        ("00C0", "is not the id of a run"),
        ("00c0ffee0", "is not the id of a run"),
        ("0", "2 runs begin with '0'"),
        ("f", "no run 'f'"),
    ],
)
def test_an_id_that_names_no_run_or_several_is_refused(store: Store, word: str, why: str) -> None:
    store.write(kept())
    store.write(kept("0aaaaaaa"))
    with pytest.raises(UserError, match=why):
        store.find(word)


def test_the_oldest_go_but_none_that_runs(store: Store, tmp_path: Path) -> None:
    for number in range(6):
        store.write(kept(f"0000000{number}"))
        os.utime(tmp_path / f"runs/0000000{number}.json", ns=(number, number))
    store.prune({"00000000"}, most=3)
    assert sorted(one.info.id for one in store.all().kept) == ["00000000", "00000003", "00000004", "00000005"]
    assert store.is_taken("00000003")
    store.remove("00000003")
    store.remove("00000003")
    assert not store.is_taken("00000003")
