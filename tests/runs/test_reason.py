"""Why a run ended, by the strongest evidence there is."""

from __future__ import annotations

import pytest

from paddock.runs.reason import Cut, End, Evidence, of

FAILED = End(exit_code=1)


@pytest.mark.parametrize(
    ("end", "known", "reason", "why"),
    [
        (End(exit_code=0), Evidence(), "done", ""),
        (End(exit_code=0), Evidence(needed=("api.test",), key_refused="api.test", words="auth"), "done", ""),
        (FAILED, Evidence(), "failed", ""),
        (FAILED, Evidence(words="quota"), "failed", "quota or credit"),
        (FAILED, Evidence(words="flag"), "failed", "`paddock agent check`"),
        (FAILED, Evidence(words="auth"), "auth", "not logged in"),
        (FAILED, Evidence(key_refused="api.test", words="quota"), "auth", "api.test did not take its key"),
        (FAILED, Evidence(needed=("api.test",), key_refused="x", words="auth"), "denied", "it needs api.test"),
        (End(exit_code=127, refused="x: command not found"), Evidence(), "failed", "x: command not found"),
        (End(exit_code=137, signal=9), Evidence(), "killed", "signal 9"),
        (End(exit_code=137, signal=9), Evidence(box_why="memory limit: more"), "killed", "memory limit"),
        (End(exit_code=130), Evidence(needed=("api.test",)), "killed", "signal 2"),
        (End(exit_code=143), Evidence(), "killed", "signal 15"),
        (End(exit_code=0), Evidence(box_code=137), "killed", "the box was stopped"),
        (End(), Evidence(), "killed", "the box was stopped"),
        (End(), Evidence(box_code=137, box_why="disk limit: full"), "killed", "disk limit"),
        (End(exit_code=124, timed_out=True, signal=9), Evidence(), "timeout", "its time was over"),
        (End(), Evidence(box_code=124, box_why="wall time limit: 2 s are over"), "timeout", "wall time limit"),
        (End(exit_code=1), Evidence(over="the budget is spent", needed=("x",)), "budget", "the budget is spent"),
        (End(), Evidence(box_code=78, box_why="the budget of $1"), "budget", "the budget of $1"),
        (End(exit_code=79, signal=9), Evidence(cut=Cut(reason="stuck", why="silence")), "stuck", "silence"),
        (End(), Evidence(cut=Cut(reason="auth", why="401"), box_code=137), "auth", "401"),
    ],
)
def test_the_strongest_evidence_decides(end: End, known: Evidence, reason: str, why: str) -> None:
    told, sentence = of(end, known)
    assert told == reason
    assert why in sentence
    assert bool(sentence) == bool(why)
