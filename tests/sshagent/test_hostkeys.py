"""Signatures of real host keys, each kind, and of nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.sshagent.hostkeys import verifies
from paddock.sshagent.wire import Reader, string
from tests.support import sshkeys

if TYPE_CHECKING:
    from pathlib import Path

SESSION = b"s" * 32


@pytest.mark.parametrize(("kind", "bits"), sshkeys.KINDS)
def test_what_a_host_signed_verifies_and_nothing_else_does(tmp_path: Path, kind: str, bits: str) -> None:
    key, other = sshkeys.make(tmp_path, "host", kind, bits), sshkeys.make(tmp_path, "other", kind, bits)
    with sshkeys.agent(tmp_path, "host") as path:
        signature = sshkeys.signed_by(path, key, SESSION, 2 if kind == "rsa" else 0)
        weak = sshkeys.signed_by(path, key, SESSION) if kind == "rsa" else b""
    assert verifies(key, signature, SESSION)
    assert not verifies(other, signature, SESSION)
    assert not verifies(key, signature, SESSION + b"x")
    assert not verifies(key, weak, SESSION)  # by SHA-1
    for at in range(0, len(signature), 7):
        changed = bytearray(signature)
        changed[at] ^= 1
        assert not verifies(key, bytes(changed), SESSION)
    for cut in range(0, len(signature), 11):
        assert not verifies(key, signature[:cut], SESSION)
    for cut in range(0, len(key), 11):
        assert not verifies(key[:cut], signature, SESSION)
    assert not verifies(key + b"x", signature, SESSION)
    assert not verifies(key, signature + b"x", SESSION)
    name = Reader(key).string()
    assert not verifies(string(name + b"-cert-v01@openssh.com") + key[4 + len(name) :], signature, SESSION)
