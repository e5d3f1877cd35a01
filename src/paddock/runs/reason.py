"""Why a run ended, in one word and, where that does not tell, a sentence: by evidence, the strongest first."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from paddock.reports import RunReason

BUDGET, STUCK, TIMEOUT = 78, 79, 124
# An agent that catches a signal ends by itself, with the code that shells use for it.
_BY_SIGNAL = frozenset(128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the agent's command ended, as far as it is known."""

    exit_code: int | None = None  # None: nobody saw its end
    signal: int | None = None
    timed_out: bool = False
    refused: str = ""  # why it could not be started


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """We ended it ourselves."""

    reason: Literal["auth", "stuck"]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What else is known of a run that has ended."""

    cut: Cut | None = None
    box_code: int | None = None  # the box was ended: with the code that its callers get
    box_why: str = ""  # and why, or what the kernel killed in it
    over: str = ""  # the budget that is spent
    needed: tuple[str, ...] = ()  # hosts that it needs and that were refused
    key_refused: str = ""  # the host that did not take its key
    words: Literal["", "auth", "quota", "flag"] = ""  # what its own last words say


_WORDS = {
    "quota": "the service says that its quota or credit is used up, or that it asks too often",
    "flag": "it does not know a word of its command line; `paddock agent check` says which",
}


def of(end: End, known: Evidence) -> tuple[RunReason, str]:
    if known.cut is not None:
        return known.cut.reason, known.cut.why
    if known.over or known.box_code == BUDGET:
        return "budget", known.over or known.box_why
    if end.timed_out or known.box_code == TIMEOUT:
        return "timeout", known.box_why or "its time was over"
    if known.box_code is not None or end.exit_code is None:
        return "killed", known.box_why or "the box was stopped"
    if end.refused:
        return "failed", end.refused
    if end.signal is not None or end.exit_code in _BY_SIGNAL:
        return "killed", known.box_why or f"signal {end.signal or end.exit_code - 128}"
    return ("done", "") if end.exit_code == 0 else _failed(known)


def _failed(known: Evidence) -> tuple[RunReason, str]:
    if known.needed:
        return "denied", f"it needs {', '.join(known.needed)}, which the policy refused"
    if known.key_refused:
        return "auth", f"{known.key_refused} did not take its key"
    if known.words == "auth":
        return "auth", "it says that it is not logged in, or that its key is not valid"
    return "failed", _WORDS.get(known.words, "")
