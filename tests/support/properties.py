"""How hard property tests try: little by default, a million times with PADDOCK_EXAMPLES=1000000."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_ASKED = int(os.environ.get("PADDOCK_EXAMPLES", "0"))

EXAMPLES = _ASKED or 300  # of hypothesis, which looks for the smallest case
STRINGS = _ASKED or 20_000  # of a plain generator, which is fast

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
patient = pytest.mark.timeout(300 if not _ASKED else 0)
