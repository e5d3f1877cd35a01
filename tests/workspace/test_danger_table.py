from __future__ import annotations

from paddock.workspace.changes import fold
from paddock.workspace.danger_table import LOCKFILES, RULES


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
