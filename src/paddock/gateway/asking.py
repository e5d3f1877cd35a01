"""Connections that wait for a person: held for a while, answered once or no, or by a policy that changed.

A state machine without a clock or a loop of its own. Connections to one destination wait together and are one question.
A question that nobody answered in time stays listed, without anyone waiting, so that it can be answered for the next
attempt; so does one from a box that nobody attends. A no, and a yes that nobody waited for, count for a short time.
"""

from __future__ import annotations

import enum
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock import limits
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

_ID_BYTES = 6  # unlike in all boxes of a machine


class Answer(enum.Enum):
    ONCE = "once"
    NO = "no"


class Outcome(enum.Enum):
    ALLOWED = "allowed"  # by a person, this once
    REFUSED = "refused"  # by a person
    POLICY = "policy"  # the policy allows it now
    TIMEOUT = "timeout"  # nobody answered
    FULL = "full"  # too many wait already
    UNATTENDED = "unattended"  # nobody is there to ask; the question is listed


_OUTCOMES = {Answer.ONCE: Outcome.ALLOWED, Answer.NO: Outcome.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A question as it is shown; `waiting` connections are held by it."""

    ask: str
    host: str
    port: int
    protocol: str
    waiting: int
    attempts: int
    age_s: float


class Waiter:
    """One connection's part in a question; `outcome` is None while it waits."""

    __slots__ = ("_question", "_wake", "outcome")

    def __init__(self, question: _Question | None, wake: Callable[[Outcome], None], outcome: Outcome | None) -> None:
        self._question, self._wake, self.outcome = question, wake, outcome

    def __repr__(self) -> str:
        return f"<Waiter {self.outcome.value if self.outcome else 'waiting'}>"

    def leave(self) -> None:
        """The connection is gone; `wake` will not be called."""
        if self._question is not None:
            self._question.waiters.pop(self, None)
            self._question = None

    def _settle(self, outcome: Outcome) -> None:
        self._question = None
        self.outcome = outcome
        self._wake(outcome)


class _Question:
    __slots__ = ("attempts", "host", "identifier", "port", "protocol", "since", "waiters")

    def __init__(self, identifier: str, host: str, port: int, protocol: str, since: float) -> None:
        self.identifier, self.host, self.port, self.protocol, self.since = identifier, host, port, protocol, since
        self.attempts = 0
        self.waiters: dict[Waiter, float] = {}  # and until when


class Asks:
    """The questions of one box."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        hold_s: float = limits.ASK_HOLD_S,
        questions_max: int = limits.ASKS_PER_BOX,
        waiters_max: int = limits.ASK_WAITERS_PER_BOX,
    ) -> None:
        self._clock = clock
        self._hold_s = hold_s
        self._questions_max, self._waiters_max = questions_max, waiters_max
        self._questions: dict[tuple[str, int], _Question] = {}  # the one asked least recently first
        self._standing: dict[tuple[str, int], tuple[Answer, float]] = {}  # answers for who asks again, until then

    def __repr__(self) -> str:
        return f"<Asks {len(self._questions)}, {self._waiting()} waiting>"

    def ask(
        self, host: str, port: int, protocol: str, wake: Callable[[Outcome], None], *, attended: bool = True
    ) -> Waiter:
        """Wait for an answer: `wake` is called with it, unless the waiter has an outcome at once."""
        now = self._clock()
        answer = self._standing_answer((host, port), now)
        if answer is not None:
            return Waiter(None, wake, _OUTCOMES[answer])
        question = self._questions.pop((host, port), None)
        if question is None:
            if len(self._questions) >= self._questions_max and not self._forget_one():
                return Waiter(None, wake, Outcome.FULL)
            question = _Question(os.urandom(_ID_BYTES).hex(), host, port, protocol, now)
        self._questions[host, port] = question
        question.attempts += 1
        if not attended:
            return Waiter(None, wake, Outcome.UNATTENDED)
        if self._waiting() >= self._waiters_max:
            return Waiter(None, wake, Outcome.FULL)
        waiter = Waiter(question, wake, None)
        question.waiters[waiter] = now + self._hold_s
        return waiter

    def answer(self, ask: str, answer: Answer) -> int:
        """How many connections the answer reached; UserError when the question is not there."""
        question = next((each for each in self._questions.values() if each.identifier == ask), None)
        if question is None:
            raise UserError(f"no question {ask[:80]!r} is open", hint="see `paddock policy pending`", code="no-ask")
        key = question.host, question.port
        del self._questions[key]
        waiters = list(question.waiters)
        if answer is Answer.NO or not waiters:
            self._standing.pop(key, None)
            self._standing[key] = answer, self._clock() + limits.ASK_GRANT_S
            while len(self._standing) > self._questions_max:
                del self._standing[next(iter(self._standing))]
        self._settle(question, waiters, _OUTCOMES[answer])
        return len(waiters)

    def policy_changed(self, allows: Callable[[str, int], bool]) -> int:
        """Let go whatever the new policy allows; the other questions stay. A person's standing answers fall."""
        self._standing.clear()
        settled = [each for each in self._questions.values() if allows(each.host, each.port)]
        for question in settled:
            del self._questions[question.host, question.port]
        for question in settled:
            self._settle(question, list(question.waiters), Outcome.POLICY)
        return len(settled)

    def expire(self) -> float | None:
        """End what has waited too long; the seconds until the next call is due, or None."""
        now = self._clock()
        late = [
            (question, waiter)
            for question in self._questions.values()
            for waiter, deadline in question.waiters.items()
            if deadline <= now
        ]
        for question, waiter in late:
            self._settle(question, [waiter], Outcome.TIMEOUT)
        deadlines = [min(question.waiters.values()) for question in self._questions.values() if question.waiters]
        return max(min(deadlines) - now, 0.0) if deadlines else None

    def pending(self) -> tuple[Pending, ...]:
        now = self._clock()
        return tuple(
            Pending(
                ask=question.identifier,
                host=question.host,
                port=question.port,
                protocol=question.protocol,
                waiting=len(question.waiters),
                attempts=question.attempts,
                age_s=now - question.since,
            )
            for question in self._questions.values()
        )

    def close(self) -> None:
        """The box is gone: whoever waits is refused."""
        questions = list(self._questions.values())
        self._questions.clear()
        self._standing.clear()
        for question in questions:
            self._settle(question, list(question.waiters), Outcome.TIMEOUT)

    def _standing_answer(self, key: tuple[str, int], now: float) -> Answer | None:
        answer, until = self._standing.get(key, (None, 0.0))
        if answer is Answer.ONCE or until <= now:
            self._standing.pop(key, None)
        return answer if now < until else None

    def _settle(self, question: _Question, waiters: list[Waiter], outcome: Outcome) -> None:
        for waiter in waiters:
            if question.waiters.pop(waiter, None) is not None:  # an earlier one's wake may have made it leave
                waiter._settle(outcome)  # noqa: SLF001 - the two are one machine

    def _forget_one(self) -> bool:
        """Room for a new question in place of the oldest that nobody waits for."""
        oldest = next((key for key, question in self._questions.items() if not question.waiters), None)
        if oldest is not None:
            del self._questions[oldest]
        return oldest is not None

    def _waiting(self) -> int:
        return sum(len(question.waiters) for question in self._questions.values())
