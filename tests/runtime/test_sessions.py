"""Which program a run starts."""

from __future__ import annotations

from paddock import agents
from paddock.runtime import sessions

_TEXT = 'name="x"\ntitle="X"\nprogram="{}"\nfallback="sh"\n'


def test_the_fallback_is_for_hosts_without_the_program() -> None:
    assert sessions.program(agents.parse(_TEXT.format("no-such-program"))) == "sh"
    assert sessions.program(agents.parse(_TEXT.format("cat"))) == "cat"
    assert sessions.program(agents.of("claude", "")) == "claude", "where it is, the box says"
