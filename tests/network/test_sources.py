"""Where policies come from, attacked: whatever happens to the files, a box never has more than their owner said."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from paddock.runtime import policyfile
from tests.support import contract
from tests.support.installation import until
from tests.support.internet import Online

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.internet import Internet

pytestmark = pytest.mark.box
ENGINES = contract.FULL

# Connects again and again, and writes down when that goes anywhere.
TRYING = """
import socket, time
with open("seen", "a", buffering=1) as seen:
    while True:
        with socket.create_connection(("gateway.paddock", 3128), 10) as sock:
            sock.sendall(b"CONNECT allowed.example:80 HTTP/1.1\\r\\nHost: allowed.example:80\\r\\n\\r\\n")
            seen.write("reached\\n" if b" 200 " in sock.recv(4096) else "refused\\n")
        time.sleep(0.002)
"""


@pytest.fixture
def own(tmp_path: Path, internet: Internet) -> Iterator[Online]:
    installation = Online(tmp_path, internet)
    yield installation
    installation.close()


def fetches(online: Online, box: str, host: str) -> bool:
    return b'"path"' in online.cli("exec", box, "curl", "-sS", "-m", "5", f"http://{host}/p").stdout


def test_a_broken_file_opens_nothing_to_the_daemon_after_a_crash(own: Online) -> None:
    file = own.home / "config/policy.toml"
    file.parent.mkdir()
    file.write_text('deny = ["allowed.example"]\n')
    assert own.cli("create", "--policy", "allow", "kept", ".").returncode == 0
    assert fetches(own, "kept", "other.example")
    assert not fetches(own, "kept", "allowed.example")
    file.write_text('deny = ["allowed.example"\n')
    assert fetches(own, "kept", "other.example")  # as long as someone knows what it said
    own.kill_daemon()
    assert not fetches(own, "kept", "allowed.example")
    file.write_text('deny = ["allowed.example"]\n')
    until(lambda: fetches(own, "kept", "other.example"), "the file is whole again, and so is the box's network")
    assert not fetches(own, "kept", "allowed.example")


def test_a_box_cannot_have_the_users_policy_as_part_of_its_workspace(own: Online) -> None:
    """As in a repository of dotfiles, to which the file in its place is a link."""
    kept = own.workspace / "dotfiles/policy.toml"
    kept.parent.mkdir()
    kept.write_text('deny = ["other.example"]\n')
    (own.home / "config").mkdir()
    (own.home / "config/policy.toml").symlink_to(kept)
    write = """printf 'allow = ["other.example"]\\n' > dotfiles/policy.toml"""
    script = f"{write}; sleep 1; curl -sS -m 5 http://other.example/p"
    done = own.cli("run", "--", "sh", "-c", script)
    assert b'"path"' not in done.stdout
    assert kept.read_text() == 'deny = ["other.example"]\n'
    (own.home / "config/policy.toml").unlink()
    (own.home / "config/policy.toml").write_text('allow = ["other.example"]\n')
    assert b'"path"' in own.cli("run", "--", "sh", "-c", script).stdout  # the oracle: it may write there otherwise


def test_what_is_approved_is_what_was_shown_and_not_what_the_box_wrote_since(own: Online) -> None:
    file = own.workspace / "paddock.toml"
    file.write_text('[network]\nallow = ["allowed.example"]\n')
    assert own.cli("create", "kept", ".").returncode == 0
    (waiting,) = json.loads(own.cli("policy", "pending", "--json").stdout)
    assert waiting["asks"] == ["allowed.example"]
    written = own.cli("exec", "kept", "sh", "-c", """printf '[network]\\nallow = ["*"]\\n' > paddock.toml""")
    assert written.returncode == 0
    own.cli("policy", "approve", "--project", "kept")
    assert not fetches(own, "kept", "other.example")
    file.write_text('[network]\nallow = ["allowed.example"]\n')
    assert own.cli("policy", "approve", "--project", "kept").returncode == 0
    assert fetches(own, "kept", "allowed.example")
    file.write_text('[network]\nallow = ["other.example"]\n')
    (newer,) = json.loads(own.cli("policy", "pending", "--json").stdout)
    assert (newer["box"], newer["asks"]) == ("kept", ["other.example"])
    file.write_text('[network]\nallow = ["*"]\n')
    assert own.cli("policy", "approve", "--project", newer["id"]).returncode == 2
    assert not fetches(own, "kept", "other.example")
    file.write_text('[network]\nallow = ["other.example"]\n')
    assert own.cli("policy", "approve", "--project", newer["id"]).returncode == 0
    assert fetches(own, "kept", "other.example")


def test_a_box_that_was_starting_while_the_policy_changed_goes_by_the_new_one(own: Online) -> None:
    file = own.home / "config/policy.toml"
    file.parent.mkdir()
    file.write_text('allow = ["allowed.example", "other.example"]\n')
    assert own.cli("create", "first", ".").returncode == 0
    assert fetches(own, "first", "other.example")
    assert own.cli("create", "second", ".").returncode == 0
    gateway = own.status()["gateway_pid"]
    assert isinstance(gateway, int)
    os.kill(gateway, signal.SIGSTOP)  # so that the start waits for it
    try:
        with own.spawn("exec", "second", "true") as starting:
            until(lambda: b"second" in own.cli("ls").stdout, "it is there")
            time.sleep(0.5)
            file.write_text('allow = ["allowed.example"]\n')
            time.sleep(0.3)
            os.kill(gateway, signal.SIGCONT)
            starting.communicate()
    finally:
        os.kill(gateway, signal.SIGCONT)
    assert fetches(own, "second", "allowed.example")
    until(lambda: not fetches(own, "second", "other.example"), "the new policy is in force", 3.0)


def test_a_file_that_is_being_rewritten_denies_meanwhile(own: Online) -> None:
    """Editors move the old file away, or empty it, before they write the new one."""
    file = own.home / "config/policy.toml"
    file.parent.mkdir()
    file.write_text('deny = ["allowed.example"]\n')
    assert own.cli("create", "--policy", "allow", "kept", ".").returncode == 0
    assert own.cli("exec", "-d", "kept", "/usr/bin/python3", "-c", TRYING).returncode == 0
    seen = own.workspace / "seen"
    until(lambda: seen.exists() and b"refused" in seen.read_bytes(), "it tries")
    rewritten = 0
    while rewritten < 20:
        began = time.monotonic()
        if rewritten % 2:
            file.unlink()
        else:
            file.write_text("")
        os.utime(file.parent)  # whatever else happens there: it is looked at
        time.sleep(0.02)
        file.write_text('deny = ["allowed.example"]\n')
        took = time.monotonic() - began
        time.sleep(0.05)
        if took < policyfile.REWRITTEN_S:  # or it was gone for longer than is promised, since this machine is busy
            assert b"reached" not in seen.read_bytes()
            rewritten += 1
        else:
            seen.write_bytes(b"")
            until(lambda: seen.read_bytes().endswith(b"refused\n" * 20), "it denies again")
            seen.write_bytes(b"")
    file.unlink()
    until(lambda: b"reached" in seen.read_bytes(), "a file that is gone is gone", 2.0)
