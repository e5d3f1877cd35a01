from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import Unavailable
from paddock.gateway.dial import Checked, check
from paddock.gateway.resolver import HostView, Resolver
from paddock.policy import Action, Default, Evaluator, Host, Layer, OnDeny, Policy, Rule, Source, SourceKind
from tests.support.nameserver import AAAA, NXDOMAIN, REFUSED, SERVFAIL, TC, A, Nameserver, Question, address, alias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAME = Host.parse("www.test")
V4 = "203.0.113.7"
V6 = "2001:db8::7"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESOLVE_ATTEMPT_S", 0.2)
    monkeypatch.setattr(limits, "RESOLVE_TIMEOUT_S", 1.0)


def serving(
    handler: Callable[[Question], bytes | list[bytes] | None],
    act: Callable[[Resolver, Nameserver], Awaitable[None]],
    clock: Clock | None = None,
) -> None:
    async def run() -> None:
        async with Nameserver(handler) as server:
            resolver = Resolver(HostView(nameservers=(server.text,)), clock or Clock())
            try:
                await act(resolver, server)
            finally:
                await resolver.close()
            assert resolver._lookups == {}

    asyncio.run(run())


def resolved(handler: Callable[[Question], bytes | list[bytes] | None], host: Host = NAME) -> list[str]:
    got: list[str] = []

    async def act(resolver: Resolver, _: Nameserver) -> None:
        got.extend(map(str, await resolver.resolve(host)))

    serving(handler, act)
    return got


def test_both_families_are_asked_for() -> None:
    assert resolved(lambda question: question.addresses(V4, V6)) == [V6, V4]


@pytest.mark.parametrize("kind", [A, AAAA])
def test_one_family_is_enough(kind: int) -> None:
    def handler(question: Question) -> bytes:
        if question.qtype == kind:
            return question.addresses(V4, V6)
        return question.answer(rcode=SERVFAIL)

    assert resolved(handler) == [V4 if kind == A else V6]


def test_a_chain_of_aliases_is_followed() -> None:
    chain = [alias("www.test", "cdn.test"), alias("cdn.test", "edge.test"), address("edge.test", V4)]
    assert resolved(lambda question: question.answer(chain)) == [V4]


def test_a_truncated_answer_is_asked_for_again_over_tcp() -> None:
    def handler(question: Question) -> bytes:
        if question.tcp:
            return question.addresses(*[f"203.0.113.{n}" for n in range(20)])
        return question.answer(flags=TC)

    assert len(resolved(handler)) == 20


@pytest.mark.parametrize(
    "lie",
    [
        lambda question: question.answer([address("www.test", "203.0.113.66")], ident=1),
        lambda question: b"spoof:" + question.addresses("203.0.113.66"),
        lambda question: question.addresses("203.0.113.66").replace(b"www", b"evl"),
        lambda question: question.data,
        lambda question: b"\0",
        lambda question: question.addresses("203.0.113.66")[:-2],
    ],
    ids=["wrong id", "another source", "another question", "the question", "a byte", "cut short"],
)
def test_a_lie_before_the_answer_is_ignored(lie: Callable[[Question], bytes]) -> None:
    def handler(question: Question) -> list[bytes]:
        return [lie(question), lie(question), question.addresses(V4)]

    assert resolved(handler) == [V4]


@pytest.mark.parametrize(
    ("handler", "said"),
    [  # DNS-05
        (lambda question: question.answer(rcode=NXDOMAIN), "does not exist"),
        (lambda question: question.answer(), "has no address"),
        (lambda question: question.answer(rcode=SERVFAIL), "no nameserver answers"),
        (lambda question: question.answer(rcode=REFUSED), "no nameserver answers"),
        (lambda question: None, "no nameserver answers|in time"),
        (lambda question: [b"x"] * 100, "no nameserver answers"),
        (lambda question: question.answer(flags=TC), "no nameserver answers"),
        (lambda question: None if question.tcp else question.answer(flags=TC), "no nameserver answers"),
        (lambda question: question.answer([alias("www.test", "www.test")]), "no nameserver answers"),
        (lambda question: question.answer([address("evil.test", V4)]), "has no address"),
    ],
)
def test_what_cannot_be_resolved_is_unavailable_in_bounded_time(
    handler: Callable[[Question], bytes | list[bytes] | None], said: str
) -> None:
    async def act(resolver: Resolver, _: Nameserver) -> None:
        with pytest.raises(Unavailable, match=said) as caught:
            await asyncio.wait_for(resolver.resolve(NAME), 5)
        assert caught.value.code == "resolve"

    serving(handler, act)


def test_the_next_nameserver_is_asked_when_one_fails() -> None:
    async def run() -> None:
        closed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        closed.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1#{closed.getsockname()[1]}"
        closed.close()
        async with (
            Nameserver(lambda question: question.answer(rcode=SERVFAIL)) as broken,
            Nameserver(lambda question: question.addresses(V4)) as good,
        ):
            resolver = Resolver(HostView(nameservers=(dead, broken.text, good.text)))
            assert list(map(str, await resolver.resolve(NAME))) == [V4]
            assert broken.count("www.test") == 2
            await resolver.close()

    asyncio.run(run())


def test_without_a_nameserver_nothing_is_resolved() -> None:
    async def run() -> None:
        resolver = Resolver(HostView(nameservers=("fe80::1%lo", "nonsense", "192.0.2.1#0")))
        with pytest.raises(Unavailable, match="the host has no nameserver"):
            await resolver.resolve(NAME)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("192.0.2.9", ["192.0.2.9"]),
        ("2001:db8::9", ["2001:db8::9"]),
        ("localhost", ["::1", "127.0.0.1"]),
        ("a.localhost", ["::1", "127.0.0.1"]),
        ("host.docker.internal", ["::1", "127.0.0.1"]),
        ("db.test", ["10.0.0.5", "fd00::5"]),
    ],
)
def test_what_the_host_knows_itself_is_not_asked_for(text: str, addresses: list[str]) -> None:
    async def run() -> None:
        async with Nameserver(lambda question: question.addresses(V4)) as server:
            hosts = {"DB.test": ("10.0.0.5", "fd00::5", "fe80::1%lo"), "localhost": ("192.0.2.66",)}
            resolver = Resolver(HostView(nameservers=(server.text,), hosts=hosts))
            assert list(map(str, await resolver.resolve(Host.parse(text)))) == addresses
            assert server.asked == []

    asyncio.run(run())


def test_names_of_ours_are_asked_of_nobody() -> None:
    async def act(resolver: Resolver, server: Nameserver) -> None:
        for text in ("gateway.paddock", "denied.paddock"):
            with pytest.raises(Unavailable, match="a name of ours"):
                await resolver.resolve(Host.parse(text))
        assert server.asked == []

    serving(lambda question: question.addresses(V4), act)


def test_a_resolver_that_is_closed_ends_its_questions() -> None:
    async def act(resolver: Resolver, _: Nameserver) -> None:
        task = asyncio.create_task(resolver.resolve(NAME))
        await asyncio.sleep(0)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    serving(lambda question: None, act)


def test_many_who_ask_at_once_are_one_question() -> None:
    async def act(resolver: Resolver, server: Nameserver) -> None:
        first = asyncio.create_task(resolver.resolve(NAME))
        others = [asyncio.create_task(resolver.resolve(NAME)) for _ in range(20)]
        await asyncio.sleep(0)
        first.cancel()  # who gives up takes nobody else along
        assert all([await task for task in others])
        assert server.count("www.test") == 2

    serving(lambda question: question.addresses(V4), act)


@pytest.mark.parametrize(
    ("ttl", "kept_s"), [(0, 2), (60, 60), (1 << 30, limits.RESOLVE_TTL_DEFAULT)], ids=["shortest", "as said", "longest"]
)
def test_an_answer_is_kept_within_bounds(ttl: int, kept_s: int) -> None:
    clock = Clock()

    async def act(resolver: Resolver, server: Nameserver) -> None:
        await resolver.resolve(NAME)
        clock.now += kept_s - 0.5
        await resolver.resolve(NAME)
        assert server.count("www.test") == 2
        clock.now += 1
        await resolver.resolve(NAME)
        assert server.count("www.test") == 4

    serving(lambda question: question.addresses(V4, V6, ttl=ttl), act, clock)


def test_a_failure_is_kept_for_a_moment() -> None:
    clock = Clock()

    async def act(resolver: Resolver, server: Nameserver) -> None:
        for _ in range(3):
            with pytest.raises(Unavailable):
                await resolver.resolve(NAME)
        assert server.count("www.test") == 2
        clock.now += 10
        with pytest.raises(Unavailable):
            await resolver.resolve(NAME)
        assert server.count("www.test") == 4

    serving(lambda question: question.answer(rcode=NXDOMAIN), act, clock)


def test_what_is_kept_is_bounded_and_forgotten_when_the_host_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESOLVE_CACHE_ENTRIES", 3)

    async def act(resolver: Resolver, server: Nameserver) -> None:
        for n in range(6):
            await resolver.resolve(Host.parse(f"n{n}.test"))
        assert repr(resolver) == "<Resolver 1 servers, 3 known, 0 under way>"
        resolver.update(HostView(nameservers=(server.text,), hosts={"n5.test": ("192.0.2.9",)}))
        assert repr(resolver) == "<Resolver 1 servers, 0 known, 0 under way>"
        assert list(map(str, await resolver.resolve(Host.parse("n5.test")))) == ["192.0.2.9"]

    serving(lambda question: question.addresses(V4), act)


def test_only_so_many_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESOLVE_LOOKUPS_MAX", 2)

    async def act(resolver: Resolver, _: Nameserver) -> None:
        tasks = [asyncio.create_task(resolver.resolve(Host.parse(f"n{n}.test"))) for n in range(3)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(result, Unavailable) for result in results] == [False, False, True]

    serving(lambda question: question.addresses(V4), act)


# -- what is resolved is judged ----------------------------------------------------------------------------------------
def allowing(pattern: str) -> Evaluator:
    rule = Rule(Action.ALLOW, pattern, Source(SourceKind.FLAG, "--allow-host"))
    return Evaluator(Policy((Layer("user", Default.DENY, (rule,)),), OnDeny.DENY))


def test_private_addresses_among_public_ones_are_dropped() -> None:  # DNS-04
    addresses = ["127.0.0.1", "8.8.8.8", "10.0.0.1", "169.254.169.254"]
    got: list[object] = []

    async def act(resolver: Resolver, _: Nameserver) -> None:
        got.append(check(allowing("www.test"), NAME, 443, await resolver.resolve(NAME)))

    serving(lambda question: question.addresses(*addresses), act)
    assert isinstance(got[0], Checked)
    assert list(map(str, got[0].addresses)) == ["8.8.8.8"]


def test_a_name_that_turns_private_is_refused() -> None:  # DNS-03
    clock = Clock()
    got: list[object] = []

    def handler(question: Question) -> bytes:
        return question.addresses("8.8.8.8" if question.number == 1 else "127.0.0.1", ttl=0)

    async def act(resolver: Resolver, _: Nameserver) -> None:
        for _second in (False, True):
            got.append(check(allowing("www.test"), NAME, 443, await resolver.resolve(NAME)))
            clock.now += 10

    serving(handler, act, clock)
    first, second = got
    assert isinstance(first, Checked)
    assert list(map(str, first.addresses)) == ["8.8.8.8"]
    assert not isinstance(second, Checked)
    assert not second.allowed  # type: ignore[attr-defined]


def test_an_alias_for_a_private_address_is_refused() -> None:  # DNS-05
    got: list[object] = []

    async def act(resolver: Resolver, _: Nameserver) -> None:
        got.append(check(allowing("www.test"), NAME, 443, await resolver.resolve(NAME)))

    chain = [alias("www.test", "db.internal.test"), address("db.internal.test", "10.0.0.5")]
    serving(lambda question: question.answer(chain), act)
    assert not isinstance(got[0], Checked)
