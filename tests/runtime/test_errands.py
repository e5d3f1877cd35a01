"""What a box that goes to a registry is made of; that it works is in test_pulling.py."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.model import Network, NetworkRule, SecretUse
from paddock.model.remote import Remote
from paddock.runtime import errands
from paddock.runtime.errands import Errand

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime


def test_the_registry_may_be_reached_and_what_else_was_said() -> None:
    extra = NetworkRule(action="allow", pattern="cdn.example.com:443")
    found = errands._network(Remote.parse("example.com/a"), Network(rules=(extra,), presets=("debian",)))
    assert [rule.pattern for rule in found.rules] == ["example.com:443", "cdn.example.com:443"]
    assert found.presets == ("debian",)
    assert errands._network(Remote.parse("a"), Network()).presets == ("containers",)


def test_words_for_a_registry() -> None:
    assert errands._words("src-", "") == '--src-tls-verify="$TLS"'
    assert errands._words("", "TOKEN") == '--tls-verify="$TLS" --creds "$LOGIN:$TOKEN"'


def test_without_skopeo_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_words: None)
    nobody: Runtime = None  # type: ignore[assignment]
    with pytest.raises(Unavailable, match="there is no skopeo") as caught:
        asyncio.run(errands.run(nobody, Remote.parse("a"), Errand(), lambda _words: "", str(tmp_path)))
    assert caught.value.hint == "install the package skopeo"


@pytest.mark.parametrize("user", ["", "a b", "a:b", "$(x)", "x" * 101, '"'])
def test_a_user_is_a_plain_word(user: str) -> None:
    nobody: Runtime = None  # type: ignore[assignment]
    with pytest.raises(UserError, match="is no user of a registry"):
        errands._variable(nobody, Errand(secret=SecretUse(name="x"), user=user))
    assert errands._variable(nobody, Errand(user=user)) == ""


def test_what_skopeo_says_is_told_without_what_it_does_to_terminals() -> None:
    remote = Remote.parse("example.com/a")
    error = errands._failed(remote, 1, b"a\x1b[2Jb" + b"x" * 5000)
    assert "\x1b" not in error.message
    assert len(error.message) < 1000
    assert errands._failed(remote, 124, b"").code == "timeout"


def test_a_place_is_private(tmp_path: Path) -> None:
    assert (tmp_path / errands.directory(str(tmp_path))).stat().st_mode & 0o777 == 0o700
