"""Which program a run starts."""

from __future__ import annotations

from paddock import agents
from paddock.agents import Turn
from paddock.model import ExecSpec, TtySize
from paddock.runtime import sessions

_TEXT = 'name="x"\ntitle="X"\nprogram="{}"\nfallback="sh"\n'


def test_the_fallback_is_for_hosts_without_the_program() -> None:
    assert sessions.program(agents.parse(_TEXT.format("no-such-program"))) == "sh"
    assert sessions.program(agents.parse(_TEXT.format("cat"))) == "cat"
    assert sessions.program(agents.of("claude", "")) == "claude", "where it is, the box says"


def test_an_agent_with_its_prompt_reads_nothing_and_one_at_a_terminal_stays() -> None:
    piped = ExecSpec(argv=("agent",), stdin=True)
    there = ExecSpec(argv=("agent",), stdin=True, tty=TtySize(rows=24, cols=80))
    for spec in (piped, there):
        told = sessions.attached(spec, Turn(prompt="p", headless=True))
        assert (told.tty, told.stdin, told.keep) == (None, False, False)
    kept = sessions.attached(there, Turn(prompt="p"))
    assert (kept.tty, kept.stdin, kept.keep) == (there.tty, True, True)
    read = sessions.attached(piped, Turn(words=("-c", "cat"), headless=True))
    assert (read.stdin, read.keep) == (True, False)
