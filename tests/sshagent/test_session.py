"""A connection of a box: sessions are proven by real host keys, and only logins in them are signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.limits import AGENT_SESSIONS_MAX
from paddock.sshagent import wire
from paddock.sshagent.session import DONE, REFUSED, Passed, Session, fingerprint
from paddock.sshagent.wire import string
from tests.support import sshkeys
from tests.support.sshkeys import bind, login, sign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION, OTHER_SESSION = b"s" * 32, b"t" * 32


class World:
    """Keys of a user, a host of one of them, and a host of nobody's; an agent stands in for the hosts' signatures."""

    def __init__(self, place: Path, path: str) -> None:
        self.path = path
        self.mine, self.second, self.host, self.stranger, self.another = (
            sshkeys.public(place / f"{name}.pub") for name in ("mine", "second", "host", "stranger", "another")
        )
        self.table = {
            fingerprint(self.mine): frozenset({self.host}),
            fingerprint(self.second): frozenset({self.another}),
        }

    def session(self) -> Session:
        return Session(lambda key: self.table.get(key, frozenset()))

    def ask(self, session: Session, payload: bytes) -> bytes | Passed:
        known = frozenset().union(*self.table.values())
        return session.request(payload, known.__contains__)

    def proof(self, host: bytes, session: bytes) -> bytes:
        return bind(host, session, sshkeys.signed_by(self.path, host, session))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    names = ("mine", "second", "host", "stranger", "another")
    for name in names:
        sshkeys.make(tmp_path, name)
    with sshkeys.agent(tmp_path, *names) as path:
        yield World(tmp_path, path)


def test_a_login_is_signed_in_a_session_that_its_host_has_signed_for(world: World) -> None:
    session = world.session()
    wanted = sign(world.mine, login(SESSION, world.mine))
    assert world.ask(session, wanted) == REFUSED  # nobody has said whose session it is
    assert "no host of this key" in session.refusal
    assert world.ask(session, world.proof(world.host, SESSION)) == Passed(world.proof(world.host, SESSION), DONE)
    assert world.ask(session, wanted) == Passed(wanted)
    bound = sign(world.mine, login(SESSION, world.mine, world.host))
    assert world.ask(session, bound) == Passed(bound)
    assert sshkeys.asked(world.path, wanted)[0] == wire.SIGNED  # the plain agent signs without any session


def test_a_signature_for_another_place_is_refused(world: World) -> None:
    session = world.session()
    assert world.ask(session, world.proof(world.stranger, OTHER_SESSION)) == REFUSED
    assert world.ask(session, bind(world.host, OTHER_SESSION, world.proof(world.host, SESSION)[-84:-1])) == REFUSED
    assert isinstance(world.ask(session, world.proof(world.host, SESSION)), Passed)
    assert isinstance(world.ask(session, world.proof(world.another, b"u" * 32)), Passed)
    for payload in (
        sign(world.mine, login(OTHER_SESSION, world.mine)),  # a session with nobody we know
        sign(world.mine, login(b"u" * 32, world.mine)),  # with a host of another key
        sign(world.second, login(SESSION, world.second)),
        sign(world.stranger, login(SESSION, world.stranger)),  # a key that was not chosen
        sign(world.mine, login(SESSION, world.mine, world.another)),
        sign(world.mine, b"SSHSIG" + string(b"git") + string(b"") + string(b"sha512") + string(b"x" * 64)),
    ):
        assert world.ask(session, payload) == REFUSED
        assert session.refusal
        assert sshkeys.asked(world.path, payload)[0] == wire.SIGNED  # the plain agent signs all of it


def test_a_session_is_with_one_host_and_not_for_someone_behind_it(world: World) -> None:
    session = world.session()
    assert isinstance(world.ask(session, world.proof(world.host, SESSION)), Passed)
    assert world.ask(session, world.proof(world.another, SESSION)) == REFUSED
    signature = sshkeys.signed_by(world.path, world.host, OTHER_SESSION)
    assert world.ask(session, bind(world.host, OTHER_SESSION, signature, 1)) == REFUSED
    assert "forwarded" in session.refusal
    more = [world.ask(session, world.proof(world.host, bytes([n]) * 32)) for n in range(AGENT_SESSIONS_MAX)]
    assert more.count(REFUSED) == 1
    assert more[-1] == REFUSED


def test_the_box_sees_the_chosen_keys_alone(world: World) -> None:
    session = world.session()
    everything = sshkeys.asked(world.path, bytes([wire.REQUEST_IDENTITIES]))
    assert len(wire.identities_of(everything[1:])) == 5
    shown = session.answer(bytes([wire.REQUEST_IDENTITIES]), everything)
    assert [key for key, _ in wire.identities_of(shown[1:])] == [world.mine, world.second]
    assert session.answer(bytes([wire.REQUEST_IDENTITIES]), bytes([wire.SIGNED])) == REFUSED
    assert session.answer(sign(world.mine, b""), everything) == REFUSED
    assert session.answer(bind(world.host, SESSION, b""), REFUSED) == DONE


@pytest.mark.parametrize("kind", [0, 1, 2, 7, 9, 17, 18, 19, 20, 21, 22, 23, 25, 26, 28, 240, 255])
def test_nothing_else_is_asked_of_the_agent(world: World, kind: int) -> None:
    session = world.session()
    for body in (b"", string(world.mine), string(b"query")):
        assert world.ask(session, bytes([kind]) + body) == REFUSED
    assert world.ask(session, bytes([wire.EXTENSION]) + string(b"query")) == REFUSED
    assert world.ask(session, bytes([wire.REQUEST_IDENTITIES]) + b"x") == REFUSED
    assert world.ask(session, b"") == REFUSED
