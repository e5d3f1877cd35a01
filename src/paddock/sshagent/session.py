"""One connection of a box to its agent: what is answered, what is passed on, and what is refused.

Theory. A signature by a key is a login wherever that key is known, so what is signed decides where it can be used. The
data of a login begins with the identifier of an ssh session, which only client and server of that session share, and
the server proves by its host key that it is the other end (`session-bind@openssh.com`). So a key signs a login only in
a session that a host of that key has signed for. A box that logs in to another host, or asks for a signature of
anything else, gets none; nor does it see, add or remove keys, or talk to the agent in any other way.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from paddock.limits import AGENT_SESSIONS_MAX
from paddock.sshagent import hostkeys, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED: Final = bytes([wire.FAILURE])
DONE: Final = bytes([wire.SUCCESS])


def fingerprint(key: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that the user's agent is to answer; `fallback` is the answer when it will not."""

    payload: bytes
    fallback: bytes = REFUSED


class Session:
    """`host_keys` says which hosts a key, by its fingerprint, may be used for: none for a key that was not chosen."""

    def __init__(self, host_keys: Callable[[str], frozenset[bytes]]) -> None:
        self._host_keys = host_keys
        self._bound: dict[bytes, bytes] = {}
        self.refusal = ""  # of the last request, for the log

    def __repr__(self) -> str:
        return f"<Session {len(self._bound)} bound>"

    def request(self, payload: bytes, known: Callable[[bytes], bool]) -> bytes | Passed:
        """The answer, or what is passed on; wire.Malformed ends the connection. `known`: a host key of any host."""
        self.refusal = ""
        kind, body = payload[:1], payload[1:]
        if kind == bytes([wire.REQUEST_IDENTITIES]) and not body:
            return Passed(payload)
        if kind == bytes([wire.EXTENSION]):
            return self._bind(payload, wire.bind_of(body), known)
        if kind == bytes([wire.SIGN]):
            return self._sign(payload, wire.sign_of(body))
        return self._no(f"a request of kind {kind.hex() or 'none'}")

    def answer(self, asked: bytes, payload: bytes) -> bytes:
        """What the box hears of the agent's answer."""
        kind, expected = payload[:1], {wire.REQUEST_IDENTITIES: wire.IDENTITIES, wire.SIGN: wire.SIGNED}
        if asked[0] == wire.EXTENSION:
            return DONE  # we have seen for ourselves; an agent may not know the extension
        if kind != bytes([expected[asked[0]]]):
            return REFUSED
        if asked[0] == wire.SIGN:
            return payload
        keys = wire.identities_of(payload[1:])
        return wire.identities([pair for pair in keys if self._host_keys(fingerprint(pair[0]))])

    def _bind(self, payload: bytes, bind: wire.Bind | None, known: Callable[[bytes], bool]) -> bytes | Passed:
        if bind is None:
            return self._no("an extension")
        if bind.forwarding:
            return self._no("to be forwarded to another host")
        if not bind.session or len(self._bound) >= AGENT_SESSIONS_MAX:
            return self._no("one session more")
        if not known(bind.host_key) or not hostkeys.verifies(bind.host_key, bind.signature, bind.session):
            return self._no("a session with another host")
        if self._bound.setdefault(bind.session, bind.host_key) != bind.host_key:
            return self._no("one session with two hosts")
        return Passed(payload, DONE)

    def _sign(self, payload: bytes, sign: wire.Sign | None) -> bytes | Passed:
        if sign is None:
            return self._no("a signature that is no login")
        allowed = self._host_keys(fingerprint(sign.key))
        bound = self._bound.get(sign.login.session)
        if bound is None or bound not in allowed:
            return self._no("a login in a session that no host of this key has signed for")
        if sign.login.host_key not in {b"", bound}:
            return self._no("a login at another host than the session's")
        return Passed(payload)

    def _no(self, what: str) -> bytes:
        self.refusal = what
        return REFUSED
