"""A box's decisions: policy first, and where policy says nothing and the box may ask, a person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.gateway.asking import Answer, Asks, Outcome
from paddock.limits import ASK_HOLD_S
from paddock.policy import (
    Action,
    Address,
    Default,
    Evaluator,
    Host,
    Layer,
    OnDeny,
    Pattern,
    Policy,
    Rule,
    Source,
    SourceKind,
    Verdict,
)
from paddock.policy.layering import ORGANISATION
from paddock.policy.pattern import LOCALHOST

if TYPE_CHECKING:
    from paddock.gateway.asking import Pending

_ONCE: Final = Source(SourceKind.FLAG, "once")
_WORDS: Final = {
    Outcome.REFUSED: "someone was asked and said no",
    Outcome.TIMEOUT: "someone was asked and did not answer in time",
    Outcome.FULL: "too many questions wait already",
    Outcome.UNATTENDED: "nobody is there to be asked; `paddock policy pending` lists the question",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Leave to connect to one destination. `evaluator` judges the addresses it leads to, and belongs to this policy."""

    host: Host
    port: int
    verdict: Verdict
    evaluator: Evaluator
    generation: int
    once: bool = False
    inside: bool = False  # to a published port of the box, which no policy of the box is about


class Rules:
    """A policy made ready to judge by. Never changes, so boxes with one policy share it."""

    __slots__ = ("_own", "_policy", "ceiling", "evaluator", "may_ask")

    def __init__(self, policy: Policy, own_addresses: frozenset[Address]) -> None:
        """UserError for a policy that cannot be."""
        self._policy = policy
        self._own = own_addresses
        self.evaluator = Evaluator(policy, own_addresses)
        self.may_ask = policy.on_deny is OnDeny.ASK
        ceiling = tuple(layer for layer in policy.layers if layer.name == ORGANISATION)
        self.ceiling = Evaluator(Policy(layers=ceiling), own_addresses) if ceiling else None

    def __repr__(self) -> str:
        return f"<Rules {self.evaluator!r}>"

    def at(self, own_addresses: frozenset[Address]) -> Rules:
        """The same policy on a host with other addresses."""
        return Rules(self._policy, own_addresses)

    def once(self, host: Host, port: int) -> Evaluator:
        """Opens this destination alone; what anybody has said of addresses, and the ceiling, still hold."""
        rules = [Rule(Action.ALLOW, Pattern(host.with_port(port)).text, _ONCE)]
        layers = []
        for layer in self._policy.layers:
            if layer.name == ORGANISATION:
                layers.append(layer)
            else:
                rules += (rule for rule in layer.rules if Pattern(rule.pattern).network is not None)
        layers.append(Layer("once", Default.DENY, tuple(rules)))
        return Evaluator(Policy(layers=tuple(layers)), self._own)


class Judge:
    """One box's policy as it is now; `generation` counts its changes."""

    def __init__(self, rules: Rules, *, attended: bool) -> None:
        self.rules = rules
        self.asks = Asks()
        self.attended = attended
        self.generation = 0

    def __repr__(self) -> str:
        return f"<Judge {self.generation} {self.evaluator!r} {self.asks!r}>"

    @property
    def evaluator(self) -> Evaluator:
        return self.rules.evaluator

    def change(self, rules: Rules) -> None:
        self.rules = rules
        self.generation += 1
        self.asks.policy_changed(lambda host, port: self.evaluator.decide(Host(host), port).allowed)

    def pending(self) -> tuple[Pending, ...]:
        return self.asks.pending()

    def answer(self, ask: str, answer: Answer) -> None:
        self.asks.answer(ask, answer)

    async def judge(self, host: Host, port: int, protocol: str) -> Grant | Verdict:
        """Leave, or the verdict that refuses it; asks a person if that is the way of this box."""
        verdict = self.evaluator.decide(host, port)
        if verdict.allowed:
            return self._grant(host, port, verdict)
        if not self.rules.may_ask or not self._is_open_question(host, port, verdict):
            return verdict
        outcome = await self._ask(host, port, protocol)
        if outcome is Outcome.ALLOWED:
            once = self._once(host, port)
            return once if once.verdict.allowed else once.verdict
        verdict = self.evaluator.decide(host, port)
        if verdict.allowed:
            return self._grant(host, port, verdict)
        why = _WORDS.get(outcome, "")
        return Verdict(False, verdict.rule, f"{verdict.reason}; {why}" if why else verdict.reason, layer=verdict.layer)

    def published(self, port: int) -> Grant:
        """Leave for a connection from the host to a port the user published."""
        return Grant(
            host=Host(LOCALHOST),
            port=port,
            verdict=Verdict(True, None, "published by the user"),
            evaluator=self.evaluator,
            generation=self.generation,
            inside=True,
        )

    def _grant(self, host: Host, port: int, verdict: Verdict) -> Grant:
        return Grant(host=host, port=port, verdict=verdict, evaluator=self.evaluator, generation=self.generation)

    def _is_open_question(self, host: Host, port: int, verdict: Verdict) -> bool:
        """Nobody has decided it: there is no rule against it, and the organisation leaves it to the user."""
        if verdict.rule is not None or verdict.final:
            return False
        return self.rules.ceiling is None or self.rules.ceiling.decide(host, port).allowed

    async def _ask(self, host: Host, port: int, protocol: str) -> Outcome:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Outcome] = loop.create_future()

        def wake(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        waiter = self.asks.ask(host.text, port, protocol, wake, attended=self.attended)
        if waiter.outcome is not None:
            return waiter.outcome
        timer = loop.call_later(ASK_HOLD_S + 0.01, self.asks.expire)
        try:
            return await answered
        finally:
            timer.cancel()
            waiter.leave()

    def _once(self, host: Host, port: int) -> Grant:
        evaluator = self.rules.once(host, port)
        verdict = evaluator.decide(host, port)
        return Grant(host=host, port=port, verdict=verdict, evaluator=evaluator, generation=self.generation, once=True)
