"""Boxes and their way out: sealed at the start, published ports, and whatever happens to gateway and daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import cgroups
from paddock.engines.process.bounds import Bounds
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.warm import Launcher
from paddock.errors import UserError
from paddock.model import Publish
from paddock.runtime import network
from tests.support.engine import placed
from tests.support.installation import alive, until
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.base import Handle
    from tests.support.installation import Installation
    from tests.support.origin import Origin

SERVE = "import http.server; http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)"
SERVER = ["/usr/bin/python3", "-c", f"{SERVE}.serve_forever()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def gateway_pid(installation: Installation) -> int:
    pid = installation.status()["gateway_pid"]
    assert isinstance(pid, int)
    return pid


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as sock:
            sock.settimeout(5)
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return sock.recv(100).startswith(b"HTTP/1.0 200")
    except OSError:
        return False


@pytest.mark.box
def test_a_box_that_was_made_in_vain_leaves_nothing(tmp_path: Path) -> None:
    """Its gateway refused it, or whoever wanted it has gone, when it was made already."""
    for name in ("state", "boxes/one", "work"):
        (tmp_path / name).mkdir(parents=True)
    held = cgroups.find(f"vain{os.getpid()}")

    async def act() -> None:
        launcher = Launcher(f"{tmp_path}/log")
        engine, placement = ProcessEngine(f"{tmp_path}/state", launcher, Bounds(held)), placed(tmp_path)
        making: asyncio.Task[Handle] = asyncio.create_task(engine.start(placement))
        pid = (await making).evidence.pid
        assert alive(pid)
        assert held.leftovers() or not held.parents
        await network._undo(engine, placement, making)
        until(lambda: not alive(pid), "its process is gone")
        await launcher.close()

    asyncio.run(act())
    assert held.leftovers() == {}
    assert list((tmp_path / "boxes/one/run").iterdir()) == []


# -- ports -------------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        published = Publish(port=holder.getsockname()[1], box_port=80)
        with pytest.raises(UserError) as caught, network._listener(published):
            pass
    assert caught.value.code == "port"
    assert str(published.port) in caught.value.message
    with network._listener(published) as listener:
        assert listener.getsockname() == ("127.0.0.1", published.port)


@pytest.mark.box
def test_a_published_port_answers_on_loopback_and_ends_with_the_box(installation: Installation) -> None:
    port = free_port()
    assert installation.cli("create", "box", "-p", f"{port}:8000").returncode == 0
    assert installation.cli("ports", "box").stdout == f"127.0.0.1:{port} -> 8000\n".encode()
    assert not answers(port)
    assert installation.cli("exec", "-d", "box", *SERVER).returncode == 0
    until(lambda: answers(port), "the box's server answers on the host")
    assert installation.cli("stop", "--grace", "0", "box").returncode == 0
    assert not answers(port)
    assert installation.cli("create", "plain").returncode == 0
    assert installation.cli("ports", "plain").stdout == b""


@pytest.mark.box
def test_two_boxes_cannot_have_one_port(installation: Installation) -> None:
    port = free_port()
    for box in ("one", "two"):
        assert installation.cli("create", box, "-p", f"{port}:8000").returncode == 0
    assert installation.cli("exec", "one", "true").returncode == 0
    done = installation.cli("exec", "two", "true")
    assert (done.returncode, f"127.0.0.1:{port}".encode() in done.stderr) == (2, True)
    assert installation.cli("stop", "one").returncode == 0
    assert installation.cli("exec", "two", "true").returncode == 0


# -- lives -------------------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_a_gateway_that_dies_is_back_within_a_second_with_every_box(
    own_installation: Installation, origin: Origin
) -> None:
    port = free_port()
    assert own_installation.cli("create", "open", "--allow-host", origin.rule, "-p", f"{port}:8000").returncode == 0
    assert own_installation.cli("create", "shut").returncode == 0
    assert own_installation.cli("exec", "-d", "open", *SERVER).returncode == 0
    assert own_installation.cli("exec", "shut", "true").returncode == 0
    assert own_installation.cli("exec", "open", *origin.fetch()).stdout == ANSWER
    before = gateway_pid(own_installation)
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before), "it is gone")
    until(lambda: own_installation.status()["gateway_pid"] not in {None, before}, "another serves", 5.0)
    assert own_installation.cli("exec", "open", *origin.fetch()).stdout == ANSWER
    assert own_installation.cli("exec", "shut", *origin.fetch()).returncode != 0
    until(lambda: answers(port), "its port is published again")


@pytest.mark.box
def test_a_daemon_that_is_killed_or_stopped_leaves_the_gateway_to_the_next(
    own_installation: Installation, origin: Origin
) -> None:
    assert own_installation.cli("create", "box", "--allow-host", origin.rule).returncode == 0
    assert own_installation.cli("exec", "box", *origin.fetch()).stdout == ANSWER
    before = gateway_pid(own_installation)
    own_installation.kill_daemon()
    assert own_installation.cli("ls").returncode == 0
    assert gateway_pid(own_installation) == before
    assert own_installation.cli("exec", "box", *origin.fetch()).stdout == ANSWER
    assert own_installation.cli("daemon", "stop").returncode == 0
    assert alive(before)  # a box runs
    assert own_installation.cli("policy", "deny", "--box", "box", origin.rule).returncode == 0
    assert gateway_pid(own_installation) == before
    assert own_installation.cli("exec", "box", *origin.fetch()).returncode != 0


@pytest.mark.box
def test_without_a_box_the_gateway_ends_with_the_daemon(own_installation: Installation) -> None:
    assert own_installation.cli("run", "--", "true").returncode == 0
    before = gateway_pid(own_installation)
    assert own_installation.cli("daemon", "stop").returncode == 0
    until(lambda: not alive(before), "the gateway ended")


@pytest.mark.box
def test_many_boxes_at_once_each_have_their_own_rules(installation: Installation, origin: Origin) -> None:
    running = [
        installation.spawn("run", *(["--allow-host", origin.rule] if number % 2 else []), "--", *origin.fetch())
        for number in range(6)
    ]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [part == ANSWER for part in said] == [bool(number % 2) for number in range(6)]


@pytest.mark.box
def test_every_box_finds_the_files_of_its_own_authority(installation: Installation) -> None:
    script = "echo $SSL_CERT_FILE; head -2 $SSL_CERT_FILE | tail -1; wc -c < /run/paddock/denials.jsonl"
    first, second = (installation.sh(script).stdout.splitlines() for _ in range(2))
    assert first[0] == b"/run/paddock/ca-bundle.pem"
    assert first[1] != second[1]
    assert (first[2], second[2]) == (b"0", b"0")
    assert b"PRIVATE" not in installation.sh("cat /run/paddock/*.pem").stdout
