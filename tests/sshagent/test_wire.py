"""The agent protocol: one reading of each message, to its last byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sshagent import wire
from paddock.sshagent.wire import Malformed, Reader, string
from tests.support.sshkeys import bind, login, sign

KEY, HOST, SESSION = string(b"ssh-ed25519") + string(b"k" * 32), string(b"ssh-ed25519") + string(b"h" * 32), b"s" * 32


def test_a_login_is_read_in_both_forms() -> None:
    assert wire.login_of(login(SESSION, KEY)) == wire.Login(SESSION, b"me", KEY, b"")
    assert wire.login_of(login(SESSION, KEY, HOST)) == wire.Login(SESSION, b"me", KEY, HOST)
    found = wire.sign_of(sign(KEY, login(SESSION, KEY))[1:])
    assert found == wire.Sign(KEY, wire.Login(SESSION, b"me", KEY, b""))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSHSIG" + string(b"git") + string(b"") + string(b"sha512") + string(b"x" * 64),
        login(SESSION, KEY) + b"x",
        login(SESSION, KEY)[:-1],
        login(b"", KEY),
        login(SESSION, KEY, service=b"ssh-userauth"),
        login(SESSION, HOST),  # of another key
        login(SESSION, KEY).replace(b"publickey", b"hostbased"),
        login(SESSION, KEY).replace(b"\x32", b"\x33", 1),
        login(SESSION, KEY).replace(b"publickey\x01", b"publickey\x00"),
        login(SESSION, KEY).replace(b"publickey\x01", b"publickey\x02"),
    ],
)
def test_anything_else_to_sign_is_no_login(data: bytes) -> None:
    assert wire.sign_of(sign(KEY, data)[1:]) is None


def test_flags_are_those_of_the_protocol() -> None:
    assert wire.sign_of(sign(KEY, login(SESSION, KEY), 4)[1:]) is not None
    for flags in (1, 3, 6, 1 << 31):
        assert wire.sign_of(sign(KEY, login(SESSION, KEY), flags)[1:]) is None


def test_a_session_is_read_and_another_extension_is_not() -> None:
    assert wire.bind_of(bind(HOST, SESSION, b"sig")[1:]) == wire.Bind(HOST, SESSION, b"sig", False)
    assert wire.bind_of(string(b"query")) is None
    for broken in (bind(HOST, SESSION, b"sig", 2)[1:], bind(HOST, SESSION, b"sig")[1:] + b"x", b"\0\0\0\x20short"):
        with pytest.raises(Malformed):
            wire.bind_of(broken)


def test_keys_are_written_as_they_are_read() -> None:
    keys = [(KEY, b"mine"), (HOST, b"")]
    assert wire.identities_of(wire.identities(keys)[1:]) == keys
    with pytest.raises(Malformed):
        wire.identities_of(struct.pack(">I", 1 << 31))


def test_numbers_have_one_form() -> None:
    assert [Reader(string(data)).mpint() for data in (b"", b"\x01", b"\x00\x80")] == [0, 1, 128]
    for data in (b"\x00", b"\x00\x01", b"\x80"):
        with pytest.raises(Malformed):
            Reader(string(data)).mpint()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    for read in (wire.bind_of, wire.sign_of, wire.login_of, wire.identities_of):
        try:
            read(data)
        except Malformed:
            continue
