"""Decisions of the evaluator among many rules, without a box: every lookup and every connection waits for one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from benches.figures import Figure, Samples, Target
from benches.timing import interleave, milliseconds
from benches.yardsticks import measured
from paddock.policy import Action, Default, Evaluator, Host, Layer, Policy, Rule, Source, SourceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.installation import Installation

T = TypeVar("T")

RULES = 10_000
BATCH = 200
ROUNDS = 100
SCAN = "looking through all rules"
HOSTS = ("h1.example.com", "a.b.w2.example.org", "none.of.them.test", "10.0.3.7", "8.8.8.8", "2600::1")


def measure(_: Installation) -> list[Figure]:
    policy = _policy()
    evaluator = Evaluator(policy)
    hosts = [Host(text) for text in HOSTS]
    names = [host for host in hosts if host.address is None]
    actions = {
        "decide": _each(hosts, lambda host: evaluator.decide(host, 443)),
        "resolve": _each(names, evaluator.may_resolve),
        "parse": _each(HOSTS, Host.parse),
    }
    taken = {name: _micro(samples, BATCH) for name, samples in interleave(actions, ROUNDS).items()}
    patterns = [rule.pattern for rule in policy.layers[-1].rules]
    scans = interleave({SCAN: lambda: [text for text in patterns if text.startswith("*.none")]}, ROUNDS)
    taken[SCAN] = _micro(scans[SCAN], 1)
    built = [milliseconds(lambda: Evaluator(policy)) for _ in range(5)]
    return [
        Figure(
            name="policy_decide",
            what=f"decision about a host, {RULES} rules",
            unit="us",
            samples=taken["decide"],
            target=Target(p50_most=20),
            yardsticks=measured(taken, SCAN),
        ),
        Figure(
            name="policy_resolve",
            what="whether a name may be looked up",
            unit="us",
            samples=taken["resolve"],
            yardsticks=measured(taken, SCAN),
        ),
        Figure(name="policy_host", what="reading a host", unit="us", samples=taken["parse"]),
        Figure(name="policy_build", what=f"making {RULES} rules ready", unit="ms", samples=Samples.of(built)),
    ]


def _policy() -> Policy:
    """As many rules of each kind as of the others, and another layer above them."""
    kinds = (
        "h{0}.example.com",
        "h{0}.example.com:443",
        "*.w{0}.example.org",
        "*.w{0}.example.net:8443",
        "10.{1}.{2}.0/24",
    )
    source = Source(SourceKind.USER, "policy.toml")
    rules = [
        Rule(
            Action.ALLOW if number % 3 else Action.DENY, kind.format(number, number // 256 % 256, number % 256), source
        )
        for number, kind in zip(range(RULES), itertools.cycle(kinds))
    ]
    ceiling = Layer("organisation", Default.ALLOW, (Rule(Action.DENY, "*.bad.test", source),))
    return Policy((ceiling, Layer("box", Default.DENY, tuple(rules))))


def _each(values: Sequence[T], action: Callable[[T], object]) -> Callable[[], None]:
    turns = list(itertools.islice(itertools.cycle(values), BATCH))

    def batch() -> None:
        for value in turns:
            action(value)

    return batch


def _micro(samples: Samples, count: int) -> Samples:
    return Samples.of([ms * 1e3 / count for ms in samples.values])
