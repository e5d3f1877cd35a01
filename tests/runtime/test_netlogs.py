"""The logs of boxes: two files each, kept for a while after the box is gone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.gateway.audit import Audit
from paddock.gateway.records import Decided, Decision
from paddock.model import BoxId
from paddock.runtime.netlogs import NetLogs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def decide(logs: NetLogs, box_id: str, name: str) -> None:
    with logs.opened(BoxId(box_id)) as halves:
        log = Audit(os.dup(halves[0]), os.dup(halves[1]), box=name)
        log.decision(Decided(protocol="tls", host="a.example", port=443, decision=Decision.DENY))
        log.close()


def test_a_log_without_a_word_goes_with_its_box(tmp_path: Path) -> None:
    logs = NetLogs(str(tmp_path))
    with logs.opened(BoxId("a")):
        assert sorted(os.listdir(tmp_path)) == ["a.0.jsonl", "a.1.jsonl"]
    logs.forget("a")
    logs.forget("a")
    assert os.listdir(tmp_path) == []


def test_what_was_decided_stays_readable_by_the_name_of_the_box(tmp_path: Path) -> None:
    logs = NetLogs(str(tmp_path))
    decide(logs, "a", "gone")
    logs.forget("a")
    assert (logs.ids(), logs.name("a"), logs.name("b")) == (["a"], "gone", "")


def test_only_the_newest_logs_of_boxes_that_are_gone_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.runtime.netlogs.NETWORK_LOGS_MAX", 2)
    logs = NetLogs(str(tmp_path))
    for number, box_id in enumerate("abcd"):
        decide(logs, box_id, box_id)
        for path in logs.paths(box_id):
            os.utime(path, ns=(number, number))
    logs.prune({"a"})
    assert sorted(logs.ids()) == ["a", "c", "d"]
    assert repr(logs) == f"<NetLogs {tmp_path}>"
