"""The gateway outlives daemons, and boxes outlive gateways."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import alive, until
from tests.support.internet import Online

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.internet import Internet

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

# Echoes counted lines over one connection; prints the count it reached every 100.
STREAM = """
import socket, sys
with socket.create_connection(("allowed.example", 7), 15) as sock:
    lines = sock.makefile("rwb")
    for n in range(int(sys.argv[1])):
        lines.write(b"%d\\n" % n)
        lines.flush()
        assert lines.readline() == b"%d\\n" % n
        if n % 100 == 0: print(n, flush=True)
print("whole", flush=True)
"""
FETCH = ("curl", "-sS", "-m", "5", "http://allowed.example/p")


@pytest.fixture
def own(tmp_path: Path, internet: Internet) -> Iterator[Online]:
    installation = Online(tmp_path, internet)
    yield installation
    installation.close()


def gateway_pid(online: Online) -> int:
    status = online.status()
    pid = status["gateway_pid"]
    assert isinstance(pid, int)
    return pid


def test_a_stream_goes_on_when_the_daemon_is_killed(own: Online) -> None:
    assert own.cli("create", "--allow-host", "allowed.example", "kept", ".").returncode == 0
    assert own.cli("exec", "kept", "true").returncode == 0
    before = gateway_pid(own)
    with own.spawn("exec", "kept", "/usr/bin/python3", "-c", STREAM, "20000") as stream:
        assert stream.stdout is not None
        assert stream.stdout.readline() == b"0\n"
        for _ in range(3):
            own.kill_daemon()
            assert own.cli("exec", "kept", *FETCH).stdout.startswith(b'{"method"')  # the next daemon governs it too
        rest = stream.stdout.read()
    assert rest.endswith(b"whole\n")
    assert gateway_pid(own) == before


def test_a_killed_gateway_closes_boxes_until_it_is_back(own: Online) -> None:
    assert own.cli("create", "--allow-host", "allowed.example", "kept", ".").returncode == 0
    assert own.cli("exec", "kept", *FETCH).stdout.startswith(b'{"method"')
    before = gateway_pid(own)
    os.kill(before, signal.SIGKILL)
    killed_at = time.monotonic()
    until(lambda: not alive(before), "it is gone")
    until(lambda: own.cli("exec", "kept", *FETCH).stdout.startswith(b'{"method"'), "the box has its network again")
    assert time.monotonic() - killed_at < 5.0
    assert gateway_pid(own) != before
    refused = own.cli("exec", "kept", "curl", "-sS", "-m", "5", "http://other.example/p")
    assert b"paddock policy allow" in refused.stdout  # with the same policy


def test_with_the_gateway_and_the_daemon_gone_nothing_gets_out(own: Online) -> None:
    assert own.cli("create", "--policy", "allow", "kept", ".").returncode == 0
    script = "while :; do curl -sS -m 1 http://allowed.example/p >> seen; echo >> seen; sleep 0.05; done"
    assert own.cli("exec", "-d", "kept", "bash", "-c", script).returncode == 0
    seen = own.workspace / "seen"
    until(lambda: seen.exists() and b'"path"' in seen.read_bytes(), "the box is online")
    gateway = gateway_pid(own)
    own.kill_daemon()
    os.kill(gateway, signal.SIGKILL)
    until(lambda: not alive(gateway), "it is gone")
    time.sleep(0.3)
    count = seen.read_bytes().count(b'"path"')
    time.sleep(1.5)
    assert seen.read_bytes().count(b'"path"') == count
    assert json.loads(own.cli("ls", "--json").stdout)[0]["state"] == "running"  # starts a daemon, and that a gateway
    until(lambda: seen.read_bytes().count(b'"path"') > count, "the box is online again")
    own.cli("stop", "--grace", "0", "kept")


def test_a_policy_change_is_in_force_at_once_and_closes_what_it_no_longer_allows(own: Online) -> None:
    assert own.cli("create", "--allow-host", "allowed.example", "kept", ".").returncode == 0
    with own.spawn("exec", "kept", "/usr/bin/python3", "-c", STREAM, "1000000") as stream:
        assert stream.stdout is not None
        assert stream.stdout.readline() == b"0\n"
        assert own.cli("policy", "deny", "--box", "kept", "allowed.example").returncode == 0
        changed_at = time.monotonic()
        said = stream.stdout.read()
        assert time.monotonic() - changed_at < 2.0
    assert b"whole" not in said
    assert b'"path"' not in own.cli("exec", "kept", *FETCH).stdout
    assert own.cli("policy", "rm", "--box", "kept", "allowed.example").returncode == 0
    assert own.cli("policy", "allow", "--box", "kept", "allowed.example").returncode == 0
    assert b'"path"' in own.cli("exec", "kept", *FETCH).stdout
