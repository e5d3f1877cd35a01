from __future__ import annotations

from paddock.workspace.changes import Change, Kind, fold
from paddock.workspace.danger import classify
from paddock.workspace.danger_table import LOCKFILES, RULES
from paddock.workspace.entries import Entry, Seen
from paddock.workspace.guarded import TRUSTED


def test_a_pattern_stands_in_one_rule_only() -> None:
    patterns = [fold(pattern) for rule in RULES for pattern in rule.patterns]
    assert sorted(patterns) == sorted(set(patterns))


def test_every_rule_says_what_the_host_would_do() -> None:
    assert all(rule.kind and " " in rule.why for rule in RULES)


def test_no_pattern_matches_everything() -> None:
    assert not [pattern for rule in RULES for pattern in rule.patterns if not pattern.strip("*/.")]


def test_lock_files_are_compared_folded_and_flagged_by_content_only() -> None:
    assert {fold(name) for name in LOCKFILES} == LOCKFILES
    assert not LOCKFILES & {fold(pattern) for rule in RULES for pattern in rule.patterns}


def test_what_is_closed_in_live_mode_needs_a_yes_in_review() -> None:
    names = [name.replace("*", "x") for name, _ in TRUSTED]
    found = [Change(path=name, kind=Kind.ADDED, new=Seen(entry=Entry.FILE, mode=0o644)) for name in names]
    assert [change.path for change in found if not classify(change, None, b"")] == []
