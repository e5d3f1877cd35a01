"""What is said of a network is bounded, and its ports are ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.model import Network, NetworkRule, Publish

if TYPE_CHECKING:
    from collections.abc import Callable

RULE = NetworkRule(action="deny", pattern="a.example")


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: Publish(port=0, box_port=80), "bad-port"),
        (lambda: Publish(port=80, box_port=65536), "bad-port"),
        (lambda: Network(publish=(Publish(port=1, box_port=1),) * (limits.PUBLISHED_PER_BOX + 1)), "bad-port"),
        (lambda: Network(rules=(RULE,) * (limits.RULES_PER_BOX + 1)), "bad-policy"),
        (lambda: Network(project="x" * (limits.PROJECT_FILE_BYTES + 1)), "bad-policy"),
    ],
)
def test_a_value_that_cannot_be_is_never_built(build: Callable[[], object], code: str) -> None:
    with pytest.raises(UserError) as caught:
        build()
    assert caught.value.code == code
