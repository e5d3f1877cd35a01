"""The words of `runs`, and --stuck-after."""

from __future__ import annotations

from paddock.cli import parser, verbs


def test_runs_lists_all_of_a_box_or_shows_one() -> None:
    target, options = parser.parse(["runs"])
    assert (target, options.what, options.run, options.json) == (verbs.runs, "", "", False)
    _, options = parser.parse(["runs", "--limit", "3", "demo", "--json"])
    assert (options.what, options.limit, options.json) == ("demo", "3", True)
    _, options = parser.parse(["runs", "show", "--json", "3f2a"])
    assert (options.what, options.run, options.json) == ("show", "3f2a", True)


def test_silence_is_an_option_of_run_alone() -> None:
    _, options = parser.parse(["run", "--stuck-after", "5m", "claude", ".", "--", "p"])
    assert options.stuck_after == "5m"
    assert not hasattr(parser.parse(["create", "box"])[1], "stuck_after")
