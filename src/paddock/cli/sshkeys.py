"""--ssh-key: which keys of your ssh-agent a box may log in with, and where."""

from __future__ import annotations

import os

from paddock.errors import UserError
from paddock.model import SshUse
from paddock.policy import Host
from paddock.sshagent import asking
from paddock.sshagent.session import fingerprint
from paddock.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN_CHARS = 80
_PORT = 22


def own_socket() -> str:
    """Of the agent of this shell; empty if there is none. Links are resolved now, and not followed later."""
    path = os.environ.get("SSH_AUTH_SOCK", "")
    return os.path.realpath(path) if path else ""


def chosen(words: Sequence[str]) -> tuple[SshUse, ...]:
    """Of KEY@HOST[:PORT], where KEY is a fingerprint or what the agent calls the key."""
    path = own_socket()
    if not path:
        raise UserError("no ssh-agent runs in this shell", hint="start one: eval $(ssh-agent); ssh-add", code="agent")
    known = [(fingerprint(key), name) for key, name in asking.keys(path)]
    return tuple(_use(word, known) for word in words)


def _use(word: str, known: list[tuple[str, str]]) -> SshUse:
    key, at, place = word.rpartition("@")
    if not at or not key or not place:
        hint = "write KEY@HOST: the key by its fingerprint or its name (`ssh-add -l`), and where it may log in"
        raise UserError(
            f"'{neutralise(word, _SHOWN_CHARS)}' does not say a key and a host", hint=hint, code="bad-ssh-key"
        )
    found = dict.fromkeys(print_ for print_, name in known if key in {print_, name})
    if len(found) != 1:
        what = "several keys of your ssh-agent are" if found else "no key of your ssh-agent is"
        hint = "give its fingerprint, as `ssh-add -l` shows it"
        raise UserError(f"{what} called '{neutralise(key, _SHOWN_CHARS)}'", hint=hint, code="bad-ssh-key")
    host, port = _place(place)
    return SshUse(key=next(iter(found)), host=host, port=port)


def _place(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        return Host(host).text, int(port)
    return Host(text).text, _PORT
