"""The /etc of process boxes: one directory for all of them, half generated, half copied from the host by allow-list."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Final

from paddock import limits
from paddock.engines.process import etc_sources, generations
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Collection

    from paddock.engines.process.etc_sources import Entry

_SHELL_RC: Final = """\
[ -z "${BASH_VERSION-}" ] || [ -z "${PS1-}" ] || PS1='box \\w\\$ '
"""

_TEXTS: Final[dict[str, str]] = {
    "hostname": "box\n",
    "hosts": (
        "127.0.0.1 localhost box\n::1 localhost ip6-localhost ip6-loopback\n"
        f"{limits.GATEWAY_ADDRESS} gateway.paddock host.docker.internal\n"
    ),
    # The gateway answers at once; asked again after a second, because it may be the new one by then. A box without
    # one cannot reach the address, and says so as fast.
    "resolv.conf": f"nameserver {limits.GATEWAY_ADDRESS}\noptions timeout:1 attempts:3\n",
    "nsswitch.conf": (
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
        "protocols: files\nservices: files\nethers: files\nrpc: files\n"
    ),
    # Some programs refuse to start without one. The same in every box everywhere: it identifies nobody.
    "machine-id": "706164646f636b4fa1d05c1b2e9f3a84\n",
    # No Include: ssh refuses included files that belong to neither root nor the user, as the host's do in a box.
    "ssh/ssh_config": (
        "Host *\n    SendEnv LANG LC_*\n"
        "    GlobalKnownHostsFile /etc/ssh/ssh_known_hosts /run/ssh/known_hosts\n"  # of hosts that --ssh-key names
    ),
    "gitconfig": "",  # what the user commits as is mounted here
    # PATH is the box's and stays as it is.
    "profile": "[ ! -r /etc/bash.bashrc ] || . /etc/bash.bashrc\n",
    "bash.bashrc": _SHELL_RC,
    "bashrc": _SHELL_RC,
}


def prepare(
    directory: str, *, uid: int, gid: int, shell: str, source_root: str = "/etc", in_use: Collection[str] = ()
) -> str:
    """The directory to bind read-only at /etc, made new only when a source changed.

    Older ones stay for the boxes that show them: the newest few, and those in `in_use` for as long as they are named.
    """
    texts = _TEXTS | _accounts(uid, gid, shell)
    key = hashlib.sha256(repr((source_root, texts, etc_sources.RULES)).encode()).hexdigest()
    index = os.path.join(directory, f"{key[:16]}.index")
    if known := _unchanged(directory, index):
        return known
    survey = etc_sources.survey(source_root)
    digest = hashlib.sha256(repr((key, survey.entries)).encode()).hexdigest()
    path = generations.publish(directory, digest, lambda target: _fill(target, texts, survey.entries), keep=in_use)
    generations.replace(index, json.dumps((digest, survey.watched)).encode())
    return path


def _accounts(uid: int, gid: int, shell: str) -> dict[str, str]:
    if not shell.startswith("/") or not shell.isprintable() or ":" in shell:
        raise UserError(f"{shell[:80]!r} is not a shell", hint="give an absolute path", code="bad-shell")
    # The agent comes first: it is the answer for its id even if that is nobody's.
    return {
        "passwd": (
            f"agent:x:{uid}:{gid}:agent:/home/agent:{shell}\n"
            "root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n"
        ),
        "group": f"agent:x:{gid}:\nroot:x:0:\nnogroup:x:65534:\n",
    }


def _fill(target: str, texts: dict[str, str], entries: tuple[Entry, ...]) -> None:
    made = {""}
    for entry in entries:
        _make_parents(target, entry.path, made)
        place = os.path.join(target, entry.path)
        if entry.link:
            os.symlink(entry.link, place)
        elif (data := etc_sources.read_public(entry.source)) is not None:
            generations.write(place, data)
    for path, text in texts.items():
        _make_parents(target, path, made)
        generations.write(os.path.join(target, path), text.encode())


def _make_parents(target: str, path: str, made: set[str]) -> None:
    parent = os.path.dirname(path)
    if parent not in made:
        _make_parents(target, parent, made)
        os.mkdir(os.path.join(target, parent))
        os.chmod(os.path.join(target, parent), 0o755)
        made.add(parent)


def _unchanged(directory: str, index: str) -> str | None:
    """The generation the index names, if nothing it was made from has changed since."""
    try:
        with open(index, "rb") as file:
            digest, watched = json.load(file)
    except (OSError, ValueError):
        return None
    path = generations.path_of(directory, digest)
    current = os.path.isdir(path) and all(etc_sources.stamp(source) == known for source, known in watched.items())
    return path if current else None
