"""A passage stays while the policy in force allows it, and its end is told once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.flow import Flow
from paddock.gateway.judging import Grant, Judge, Rules
from paddock.gateway.passage import Passage
from paddock.gateway.poller import Poller
from paddock.gateway.records import Decided, Decision
from paddock.gateway.world import World
from paddock.policy import Evaluator, Host, Policy
from tests.gateway.test_flow import pair
from tests.support.scene import policy

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = Host("name.test")


def with_passage(
    act: Callable[[Passage[Flow]], None], rules: Policy, *, once: bool = False, inside: bool = False
) -> None:
    async def main() -> None:
        poller = Poller(asyncio.get_running_loop())
        world = World(poller, "/nowhere")
        judge = Judge(Rules(rules, frozenset()), attended=False)
        grant = await judge.judge(NAME, 7000, "tcp")
        if once or inside or not isinstance(grant, Grant):
            evaluator = judge.rules.once(NAME, 7000)
            grant = Grant(
                host=NAME,
                port=7000,
                verdict=evaluator.decide(NAME, 7000),
                evaluator=evaluator,
                generation=0,
                once=once,
                inside=inside,
            )
        (client, far), (server, origin) = pair(), pair()
        ends: list[Passage[Flow]] = []
        decided = Decided(protocol="tcp", host="name.test", port=7000, decision=Decision.ALLOW)
        passage = Passage(
            poller,
            lambda on_end: Flow(poller, world.pipes, client, server, on_end),
            grant,
            decided,
            ends.append,
        )
        passage.flow.start()
        try:
            act(passage)
        finally:
            passage.end("the test")
            passage.end("again")
            assert ends == [passage]
            far.close()
            origin.close()
            poller.close()
            await world.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("later", "stays"),
    [
        (policy("name.test"), True),
        (policy("name.test:7000"), True),
        (policy("name.test:80"), False),
        (policy(), False),
        (policy("name.test", deny=["127.0.0.1"]), False),
        (Policy(), False),
    ],
)
def test_a_passage_stays_while_the_name_and_the_address_are_allowed(later: Policy, stays: bool) -> None:
    with_passage(lambda passage: _check(passage, later, stays), policy("name.test"))


def _check(passage: Passage[Flow], later: Policy, stays: bool) -> None:
    assert passage.still_allowed(Evaluator(later)) == stays


def test_what_was_allowed_once_stays_until_a_rule_speaks_against_it() -> None:
    with_passage(lambda passage: _check(passage, policy(), True), policy(), once=True)
    with_passage(lambda passage: _check(passage, policy(deny=["name.test"]), False), policy(), once=True)


def test_what_passed_unseen_does_not_stay_under_a_rule_that_looks() -> None:
    seen, unseen = policy("name.test"), policy(bypass=["name.test"])
    with_passage(lambda passage: _check(passage, seen, False), unseen)
    with_passage(lambda passage: _check(passage, unseen, True), unseen)
    with_passage(lambda passage: _check(passage, unseen, True), seen)


def test_no_policy_of_the_box_is_about_its_published_ports() -> None:
    with_passage(lambda passage: _check(passage, Policy(), True), policy(), inside=True)


def test_it_says_where_it_leads() -> None:
    def act(passage: Passage[Flow]) -> None:
        assert repr(passage) == "<Passage name.test:7000 <Flow open out 0 in 0>>"

    with_passage(act, policy("name.test"))
