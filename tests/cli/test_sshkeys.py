"""--ssh-key: which key is meant, and where it may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import sshkeys as words
from paddock.errors import PaddockError, UserError
from paddock.model import SshUse
from paddock.sshagent.session import fingerprint
from tests.support import sshkeys

if TYPE_CHECKING:
    from pathlib import Path


def test_a_key_is_named_by_its_fingerprint_or_as_the_agent_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = fingerprint(sshkeys.make(tmp_path, "me@laptop"))
    with sshkeys.agent(tmp_path, "me@laptop") as path:
        (tmp_path / "link").symlink_to(path)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "link"))
        assert words.own_socket() == path
        assert words.chosen([f"{mine}@Git.Example", "me@laptop@git.example:2222"]) == (
            SshUse(key=mine, host="git.example"),
            SshUse(key=mine, host="git.example", port=2222),
        )
        for word in ("nobody@git.example", "me@laptop", mine, f"{mine}@", f"{mine}@*.example", f"{mine}@h:70000", "@h"):
            with pytest.raises(UserError):
                words.chosen([word])


def test_without_an_agent_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(UserError) as caught:
        words.chosen(["mine@git.example"])
    assert caught.value.message == "no ssh-agent runs in this shell"
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nonexistent/agent")
    with pytest.raises(PaddockError):
        words.chosen(["mine@git.example"])
