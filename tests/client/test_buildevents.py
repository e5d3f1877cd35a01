"""What the daemon tells of a build, read."""

from __future__ import annotations

import pytest

from paddock import codec, frames
from paddock.client import buildevents
from paddock.client.buildevents import BuildEvent
from paddock.errors import Unavailable, UserError
from paddock.model.build import BuildInfo


def _message(**values: object) -> tuple[int, bytes]:
    return frames.MESSAGE, frames.encode_message(values)[frames.HEADER.size :]


def test_steps_notes_and_bytes_are_told() -> None:
    step = _message(event="step", number=2, line=7, words="RUN x", cached=True)
    assert buildevents.read(step) == BuildEvent(kind="step", number=2, line=7, words="RUN x", cached=True)
    assert buildevents.read(_message(event="note", text="wait")) == BuildEvent(kind="note", words="wait")
    assert buildevents.read((frames.STDERR, b"\x1b[31m")) == BuildEvent(kind="output", data=b"\x1b[31m")
    odd = _message(event="base", line="7", number=None)
    assert buildevents.read(odd) == BuildEvent(kind="base")


def test_its_end_is_a_template_or_an_error() -> None:
    made = BuildInfo(name="a", tag="b", digest="", layers=1, steps=1)
    assert buildevents.read(_message(event="built", template=codec.to_wire(made))) == made
    wrong = UserError("line 3", hint="do", code="dockerfile")
    with pytest.raises(UserError, match="line 3"):
        buildevents.read(_message(event="error", error=wrong.to_wire()))
    with pytest.raises(Unavailable, match="ended during the build"):
        buildevents.read(None)
    for odd in (_message(event="else"), _message(event="error"), _message()):
        with pytest.raises(Unavailable):
            buildevents.read(odd)
