"""Policy decides first, then a person; nobody is asked what has been decided."""

from __future__ import annotations

import asyncio

import pytest

from paddock.gateway.asking import Answer
from paddock.gateway.judging import Grant, Judge, Rules
from paddock.policy import Default, Host, Layer, OnDeny, Policy, Verdict
from paddock.policy.layering import ORGANISATION
from tests.support.scene import policy

NEW = Host("new.test")
NOWHERE: frozenset[object] = frozenset()


def judge(rules: Policy, *, attended: bool = True) -> Judge:
    return Judge(Rules(rules, frozenset()), attended=attended)


async def asked(judge: Judge) -> str:
    while not judge.pending():
        await asyncio.sleep(0.001)
    return judge.pending()[0].ask


def test_what_policy_allows_is_granted_and_what_it_denies_is_not() -> None:
    async def main() -> None:
        judging = judge(policy("allowed.test:443"))
        grant = await judging.judge(Host("allowed.test"), 443, "tls")
        assert isinstance(grant, Grant)
        assert not grant.once
        assert isinstance(await judging.judge(Host("allowed.test"), 80, "http"), Verdict)

    asyncio.run(main())


@pytest.mark.parametrize(("answer", "granted"), [(Answer.ONCE, True), (Answer.NO, False)])
def test_a_person_decides_what_policy_leaves_open(answer: Answer, granted: bool) -> None:
    async def main() -> None:
        judging = judge(policy(on_deny=OnDeny.ASK))
        waiting = asyncio.create_task(judging.judge(NEW, 443, "tls"))
        judging.answer(await asked(judging), answer)
        found = await waiting
        assert isinstance(found, Grant) == granted
        if isinstance(found, Grant):
            assert found.once
            assert found.evaluator.decide(NEW, 443).allowed
            assert not found.evaluator.decide(NEW, 80).allowed, "this destination alone"
        else:
            assert "said no" in found.reason

    asyncio.run(main())


def test_a_policy_that_changes_answers_the_question() -> None:
    async def main() -> None:
        judging = judge(policy(on_deny=OnDeny.ASK))
        waiting = asyncio.create_task(judging.judge(NEW, 443, "tls"))
        await asked(judging)
        judging.change(Rules(policy("new.test"), frozenset()))
        found = await waiting
        assert isinstance(found, Grant)
        assert not found.once
        assert found.generation == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "rules",
    [
        policy(on_deny=OnDeny.DENY),
        policy(deny=["new.test"], on_deny=OnDeny.ASK),
        policy(deny=["*.test:443"], on_deny=OnDeny.ASK),
        policy(ceiling=Layer(ORGANISATION, Default.DENY, ()), on_deny=OnDeny.ASK),
    ],
)
def test_nobody_is_asked_what_is_decided(rules: Policy) -> None:
    async def main() -> None:
        judging = judge(rules)
        assert isinstance(await asyncio.wait_for(judging.judge(NEW, 443, "tls"), 1), Verdict)
        assert judging.pending() == ()

    asyncio.run(main())


def test_names_of_our_own_are_never_asked_about() -> None:
    async def main() -> None:
        judging = judge(policy(on_deny=OnDeny.ASK))
        assert isinstance(await asyncio.wait_for(judging.judge(Host("x.paddock"), 443, "tls"), 1), Verdict)

    asyncio.run(main())


def test_without_anybody_there_the_question_is_listed_and_the_answer_is_no() -> None:
    async def main() -> None:
        judging = judge(policy(on_deny=OnDeny.ASK), attended=False)
        found = await judging.judge(NEW, 443, "tls")
        assert isinstance(found, Verdict)
        assert "policy pending" in found.reason
        assert [pending.host for pending in judging.pending()] == ["new.test"]

    asyncio.run(main())


def test_who_leaves_while_it_waits_leaves_nothing_behind() -> None:
    async def main() -> None:
        judging = judge(policy(on_deny=OnDeny.ASK))
        waiting = asyncio.create_task(judging.judge(NEW, 443, "tls"))
        await asked(judging)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert [pending.waiting for pending in judging.pending()] == [0]

    asyncio.run(main())


def test_what_the_user_said_of_addresses_holds_for_what_is_allowed_once() -> None:
    from ipaddress import IPv4Address

    rules = Rules(policy(deny=["93.184.0.0/16"], on_deny=OnDeny.ASK), frozenset())
    once = rules.once(NEW, 443)
    assert once.decide_address(NEW, 443, IPv4Address("8.8.8.8")).allowed
    assert not once.decide_address(NEW, 443, IPv4Address("93.184.215.14")).allowed
    assert not once.decide_address(NEW, 443, IPv4Address("10.0.0.1")).allowed
