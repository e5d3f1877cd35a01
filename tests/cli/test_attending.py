"""What the client makes of the answer of a daemon that was to start an agent."""

from __future__ import annotations

import argparse

import pytest

from paddock.cli import attending
from paddock.errors import Unavailable, UserError


def test_what_was_said_comes_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = UserError("it is the wrong day", hint="tomorrow", code="day").to_wire()
    answer = {"said": ["secret x: goes to \x1b[31my"], "error": wrong}
    with pytest.raises(UserError, match="the wrong day") as caught:
        attending.answered(argparse.Namespace(quiet=False), answer, [])
    assert (caught.value.hint, caught.value.code) == ("tomorrow", "day")
    said = capsys.readouterr().err
    assert said.startswith("paddock: secret x: goes to ")
    assert "\x1b" not in said
    with pytest.raises(UserError):
        attending.answered(argparse.Namespace(quiet=True), answer, [])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("answer", [3, [], {"said": 1}, {"said": []}, {"said": [], "box": {}, "job": "x"}])
def test_an_answer_that_makes_no_sense_is_said_to_be_one(answer: object) -> None:
    with pytest.raises(Unavailable) as caught:
        attending.answered(argparse.Namespace(quiet=False), answer, [])
    assert caught.value.code == "protocol"
