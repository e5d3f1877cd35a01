"""Questions to a person: held, shared, answered, timed out, bounded; a machine with a clock we turn by hand."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paddock.errors import UserError
from paddock.gateway.asking import Answer, Asks, Outcome, Waiter
from paddock.limits import ASK_GRANT_S, ASK_HOLD_S


class World:
    """A box's questions, the clock, and what each connection was told."""

    def __init__(self, *, questions_max: int = 4, waiters_max: int = 8) -> None:
        self.now = 1000.0
        self.asks = Asks(clock=lambda: self.now, questions_max=questions_max, waiters_max=waiters_max)
        self.told: list[tuple[str, Outcome]] = []

    def ask(self, host: str = "a.example", port: int = 443, *, attended: bool = True) -> Waiter:
        return self.asks.ask(host, port, "tls", lambda outcome: self.told.append((host, outcome)), attended=attended)

    def only(self) -> str:
        (question,) = self.asks.pending()
        return question.ask


@pytest.fixture
def world() -> World:
    return World()


def test_a_connection_waits_and_is_listed(world: World) -> None:
    waiter = world.ask()
    world.now += 5
    (question,) = world.asks.pending()
    assert (question.host, question.port, question.protocol) == ("a.example", 443, "tls")
    assert (question.waiting, question.attempts, question.age_s) == (1, 1, 5)
    assert waiter.outcome is None
    assert repr(waiter) == "<Waiter waiting>"
    assert repr(world.asks) == "<Asks 1, 1 waiting>"


@pytest.mark.parametrize(("answer", "outcome"), [(Answer.ONCE, Outcome.ALLOWED), (Answer.NO, Outcome.REFUSED)])
def test_an_answer_reaches_all_who_wait_for_that_destination(world: World, answer: Answer, outcome: Outcome) -> None:
    waiters = [world.ask() for _ in range(3)]
    other = world.ask("b.example")
    question = next(each for each in world.asks.pending() if each.host == "a.example")
    assert question.waiting == 3
    assert world.asks.answer(question.ask, answer) == 3
    assert world.told == [("a.example", outcome)] * 3
    assert {waiter.outcome for waiter in waiters} == {outcome}
    assert other.outcome is None
    assert [each.host for each in world.asks.pending()] == ["b.example"]


@pytest.mark.parametrize(("host", "port"), [("a.example", 80), ("b.example", 443)])
def test_another_destination_is_another_question(world: World, host: str, port: int) -> None:
    world.ask()
    world.ask(host, port)
    assert len(world.asks.pending()) == 2


def test_once_is_once(world: World) -> None:
    world.ask()
    world.asks.answer(world.only(), Answer.ONCE)
    assert world.ask().outcome is None


def test_no_holds_for_a_while(world: World) -> None:
    world.ask()
    world.asks.answer(world.only(), Answer.NO)
    world.now += ASK_GRANT_S - 1
    assert world.ask().outcome is Outcome.REFUSED
    assert world.ask().outcome is Outcome.REFUSED
    assert world.asks.pending() == ()
    world.now += 1
    assert world.ask().outcome is None


def test_nobody_waits_longer_than_the_hold(world: World) -> None:
    first = world.ask()
    world.now += 10
    second = world.ask()
    assert world.asks.expire() == ASK_HOLD_S - 10
    world.now += ASK_HOLD_S - 10.001
    assert world.asks.expire() == pytest.approx(0.001)
    assert world.told == []
    world.now += 0.001
    assert world.asks.expire() == pytest.approx(10)
    assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, None)
    world.now += 10
    assert world.asks.expire() is None
    assert world.told == [("a.example", Outcome.TIMEOUT)] * 2


def test_a_question_nobody_answered_can_be_answered_for_the_next_attempt(world: World) -> None:
    world.ask()
    world.now += ASK_HOLD_S
    world.asks.expire()
    (question,) = world.asks.pending()
    assert question.waiting == 0
    assert world.asks.answer(question.ask, Answer.ONCE) == 0
    assert world.ask().outcome is Outcome.ALLOWED
    assert world.ask().outcome is None  # it was once


def test_an_answer_to_nobody_does_not_stand_for_long(world: World) -> None:
    world.ask(attended=False)
    world.asks.answer(world.only(), Answer.ONCE)
    world.now += ASK_GRANT_S
    assert world.ask().outcome is None


def test_an_unattended_box_is_denied_and_its_question_listed(world: World) -> None:
    assert world.ask(attended=False).outcome is Outcome.UNATTENDED
    assert world.ask(attended=False).outcome is Outcome.UNATTENDED
    (question,) = world.asks.pending()
    assert (question.waiting, question.attempts) == (0, 2)
    assert world.told == []


def test_a_policy_that_changed_lets_go_what_it_allows(world: World) -> None:
    allowed, other = world.ask("a.example"), world.ask("b.example")
    assert world.asks.policy_changed(lambda host, port: (host, port) == ("a.example", 443)) == 1
    assert (allowed.outcome, other.outcome) == (Outcome.POLICY, None)
    assert [each.host for each in world.asks.pending()] == ["b.example"]


def test_a_policy_that_changed_takes_standing_answers_back(world: World) -> None:
    world.ask(attended=False)
    world.asks.answer(world.only(), Answer.ONCE)
    world.asks.policy_changed(lambda host, port: False)
    assert world.ask().outcome is None


def test_a_connection_that_left_is_not_woken(world: World) -> None:
    waiter, stays = world.ask(), world.ask()
    waiter.leave()
    waiter.leave()
    assert world.asks.answer(world.only(), Answer.ONCE) == 1
    assert len(world.told) == 1
    assert (waiter.outcome, stays.outcome) == (None, Outcome.ALLOWED)
    stays.leave()


def test_a_wake_may_make_another_leave(world: World) -> None:
    waiters: list[Waiter] = []
    told = []

    def wake(outcome: Outcome) -> None:
        told.append(outcome)
        for waiter in waiters:
            waiter.leave()

    waiters += [world.asks.ask("a.example", 443, "tls", wake) for _ in range(3)]
    world.asks.answer(world.only(), Answer.ONCE)
    assert told == [Outcome.ALLOWED]


def test_an_answer_to_no_question_is_an_error(world: World) -> None:
    world.ask()
    ask = world.only()
    world.asks.answer(ask, Answer.ONCE)
    for unknown in (ask, "", "x" * 1000):
        with pytest.raises(UserError) as raised:
            world.asks.answer(unknown, Answer.ONCE)
        assert raised.value.code == "no-ask"
        assert len(raised.value.message) < 200


def test_questions_are_bounded_and_those_nobody_waits_for_go_first(world: World) -> None:
    world.ask("0.example")
    for number in range(1, 4):
        world.ask(f"{number}.example", attended=False)
    assert world.ask("4.example").outcome is None
    assert [each.host for each in world.asks.pending()] == ["0.example", "2.example", "3.example", "4.example"]
    world.ask("2.example")
    world.ask("3.example")
    assert world.ask("5.example").outcome is Outcome.FULL
    assert len(world.asks.pending()) == 4


def test_waiters_are_bounded(world: World) -> None:
    waiters = [world.ask() for _ in range(8)]
    assert world.ask().outcome is Outcome.FULL
    waiters[0].leave()
    assert world.ask().outcome is None


def test_the_end_of_a_box_ends_the_waiting(world: World) -> None:
    world.ask()
    world.asks.close()
    assert world.told == [("a.example", Outcome.TIMEOUT)]
    assert world.asks.pending() == ()


class AnySequence(RuleBasedStateMachine):
    """Whatever happens in whatever order: bounds hold, and nobody waits too long or is told twice."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(questions_max=3, waiters_max=4)
        self.waiting: dict[Waiter, float] = {}
        self.left: set[Waiter] = set()

    @rule(host=st.sampled_from("abcde"), port=st.sampled_from([80, 443]), attended=st.booleans())
    def ask(self, host: str, port: int, attended: bool) -> None:
        waiter: Waiter

        def wake(outcome: Outcome) -> None:
            assert waiter in self.waiting
            del self.waiting[waiter]

        waiter = self.world.asks.ask(host, port, "tls", wake, attended=attended)
        if waiter.outcome is None:
            assert attended
            self.waiting[waiter] = self.world.now

    @rule(index=st.integers(0, 5), answer=st.sampled_from(Answer))
    def answer(self, index: int, answer: Answer) -> None:
        pending = self.world.asks.pending()
        if index < len(pending):
            before = len(self.waiting)
            assert self.world.asks.answer(pending[index].ask, answer) == before - len(self.waiting)

    @rule(seconds=st.floats(0, 50))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds
        due = self.world.asks.expire()
        assert (due is None) == (not self.waiting)
        assert all(self.world.now - since < ASK_HOLD_S for since in self.waiting.values())

    @rule(index=st.integers(0, 5))
    def leave(self, index: int) -> None:
        waiters = list(self.waiting)
        if index < len(waiters):
            waiters[index].leave()
            del self.waiting[waiters[index]]

    @rule(host=st.sampled_from("abcde"))
    def policy(self, host: str) -> None:
        self.world.asks.policy_changed(lambda name, _port: name == host)
        assert all(question.host != host for question in self.world.asks.pending())

    @rule()
    def close(self) -> None:
        self.world.asks.close()
        assert not self.waiting

    @invariant()
    def the_bounds_hold(self) -> None:
        pending = self.world.asks.pending()
        assert len(pending) <= 3
        assert sum(question.waiting for question in pending) == len(self.waiting) <= 4
        assert len(self.world.asks._standing) <= 3
        assert len({question.ask for question in pending}) == len(pending)


TestAnySequence = AnySequence.TestCase
