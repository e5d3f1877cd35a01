"""Denied names are recorded once in a while, and the last one is remembered for a moment."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from paddock.gateway import denied_names
from paddock.gateway.audit import Audit
from paddock.gateway.denied_names import DeniedNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[DeniedNames, Callable[[], list[str]]]]:
    paths = [tmp_path / "0", tmp_path / "1"]
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for path in paths)
    audit = Audit(first, second, box="one")
    yield DeniedNames(audit), lambda: _hosts(paths[0])
    audit.close()


def _hosts(path: Path) -> list[str]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["host"] for record in records if record.get("event") == "decision"]


Log = tuple[DeniedNames, "Callable[[], list[str]]"]


def test_a_name_is_recorded_once_in_a_minute(log: Log) -> None:
    names, recorded = log
    for now in (0.0, 1.0, 59.9, 60.0, 61.0):
        names.add("a.test", now)
    names.add("b.test", 61.0)
    assert recorded() == ["a.test", "a.test", "b.test"]


def test_another_policy_records_anew(log: Log) -> None:
    names, recorded = log
    names.add("a.test", 0.0)
    names.forget()
    names.add("a.test", 1.0)
    assert recorded() == ["a.test", "a.test"]


def test_a_flood_of_names_is_not_kept(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denied_names, "_KEPT", 3)
    names, _ = log
    for number in range(10):
        names.add(f"{number}.test", 0.0)
    assert repr(names) == "<DeniedNames 3>"


def test_the_last_one_is_known_for_a_moment(log: Log) -> None:
    names, _ = log
    assert names.last(0.0) == ""
    names.add("a.test", 10.0)
    names.add("b.test", 10.0)
    assert [names.last(now) for now in (10.0, 15.0, 15.1)] == ["b.test", "b.test", ""]
