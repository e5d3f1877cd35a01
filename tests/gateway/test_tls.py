"""A TLS end without a socket: in any chunking the same, and what it keeps is bounded."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.certificates import Leaves, make_authority
from paddock.gateway.tls import Tls
from paddock.policy import Host

if TYPE_CHECKING:
    from pathlib import Path

NAME = Host("api.test")


class Pair:
    """A client and a server of one name; `step` is how many bytes pass at once."""

    def __init__(self, directory: Path, step: int = 1 << 20) -> None:
        authority = make_authority("test")
        roots = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        self.server = Tls(Leaves(authority, str(directory)).context(NAME))
        self.client = Tls(roots, NAME)
        self._step = step

    def shake(self) -> None:
        out = self.client.begin()
        while out:
            reply = self.carry(out, self.server)[1]
            out = self.carry(reply, self.client)[1]

    def carry(self, data: bytes, to: Tls) -> tuple[bytes, bytes]:
        pieces = [data[at : at + self._step] for at in range(0, len(data), self._step)]
        found = [to.feed(piece) for piece in pieces]
        return b"".join(said for said, _ in found), b"".join(reply for _, reply in found)


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_both_ends_understand_each_other_in_any_chunking(tmp_path: Path, step: int) -> None:
    pair = Pair(tmp_path, step)
    assert repr(pair.client) == "<Tls shaking hands>"
    pair.shake()
    assert pair.client.shaken
    assert pair.server.shaken
    assert repr(pair.client) == "<Tls shaken>"
    for size in (1, 100, 16384, 16385, 70_000):
        data = os.urandom(size)
        assert pair.carry(pair.client.write(data), pair.server) == (data, b"")
        assert pair.carry(pair.server.write(data), pair.client) == (data, b"")


def test_several_records_at_once_are_all_read(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.shake()
    data = b"".join(pair.client.write(bytes([number]) * 3000) for number in range(30))
    assert pair.carry(data, pair.server)[0] == b"".join(bytes([number]) * 3000 for number in range(30))


def test_the_end_is_told_and_what_follows_it_is_not_read(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.shake()
    last = pair.client.write(b"last") + pair.client.close()
    assert pair.carry(last + b"rubbish", pair.server)[0] == b"last"
    assert pair.server.ended
    assert repr(pair.server) == "<Tls ended>"
    assert pair.carry(b"more rubbish", pair.server) == (b"", b"")
    assert pair.carry(pair.server.write(b"still said"), pair.client)[0] == b"still said"


def test_what_is_no_tls_is_an_error_and_an_alert(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with pytest.raises(ssl.SSLError):
        pair.server.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert pair.server.close() == b"" or pair.server.alert() == b""
    pair = Pair(tmp_path)
    pair.shake()
    with pytest.raises(ssl.SSLError):
        pair.server.feed(b"\x17\x03\x03\x00\x20" + b"x" * 32)


def test_a_server_that_is_not_who_it_should_be_is_not_spoken_to(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    stranger = Pair(tmp_path)
    _, reply = stranger.server.feed(pair.client.begin())
    with pytest.raises(ssl.SSLCertVerificationError):
        pair.client.feed(reply)
