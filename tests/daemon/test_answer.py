"""An answer is empty unless a verb says something."""

from __future__ import annotations

from paddock import codec
from paddock.daemon.answer import Answer, Nothing


def test_an_answer_has_no_descriptors_of_its_own() -> None:
    assert (Answer().result, Answer().items, Answer().fds) == (None, None, ())
    assert codec.from_wire(Nothing, {}) == Nothing()
