from __future__ import annotations

import pytest

from paddock.workspace.merge import merge

BASE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (BASE, BASE, BASE),
        ("ONE\ntwo\nthree\nfour\nfive\n", BASE, "ONE\ntwo\nthree\nfour\nfive\n"),
        (BASE, "one\ntwo\nthree\nfour\nFIVE\n", "one\ntwo\nthree\nfour\nFIVE\n"),
        ("ONE\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nFIVE\n", "ONE\ntwo\nthree\nfour\nFIVE\n"),
        ("zero\n" + BASE, BASE + "six\n", "zero\n" + BASE + "six\n"),
        ("two\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\n", "two\nthree\nfour\n"),
        ("one\nX\nthree\nfour\nfive\n", "one\nX\nthree\nfour\nfive\n", "one\nX\nthree\nfour\nfive\n"),
        ("one\nX\nthree\nfour\nfive\n", "one\nX\nthree\nfour\nY\n", "one\nX\nthree\nfour\nY\n"),
        ("one\nX\nthree\nfour\nfive\n", "one\nY\nthree\nfour\nfive\n", None),
        ("one\nX\nthree\nfour\nfive\n", "one\ntwo\nY\nfour\nfive\n", None),  # they meet
        (BASE + "mine\n", BASE + "yours\n", None),
        ("one\n\0\n", BASE + "yours\n", None),
    ],
)
def test_both_changes_are_kept_or_none_is_guessed(ours: str, theirs: str, expected: str | None) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        found = merge(BASE.encode(), one.encode(), other.encode())
        assert found == (None if expected is None else expected.encode())
