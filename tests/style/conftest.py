"""The notes of the style checks: what is allowed but worth a look is printed below the results of a run."""

from __future__ import annotations

import pytest

_NOTES = pytest.StashKey[list[str]]()


@pytest.fixture
def notes(request: pytest.FixtureRequest) -> list[str]:
    return request.config.stash.setdefault(_NOTES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_NOTES, [])
    if lines:
        terminalreporter.section("style notes")
        for line in lines:
            terminalreporter.write_line(line)
