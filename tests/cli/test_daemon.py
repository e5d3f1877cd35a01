"""daemon start|stop|status: the same words whether or not it runs, and boxes that do not care."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import __version__
from tests.support import contract
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def status(installation: Installation) -> dict[str, object]:
    value = json.loads(installation.cli("daemon", "status", "--json").stdout)
    assert isinstance(value, dict)
    return value


def test_status_starts_nothing(own_installation: Installation) -> None:
    done = own_installation.cli("daemon", "status")
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"daemon       stopped\npid          -\n")
    assert list(own_installation.home.iterdir()) == []
    assert own_installation.cli("daemon", "stop").stdout == b"no daemon is running\n"
    assert list(own_installation.home.iterdir()) == []
    own_installation.cli("daemon", "start")


def test_status_has_the_same_keys_always(own_installation: Installation) -> None:
    stopped = status(own_installation)
    assert own_installation.cli("daemon", "start").returncode == 0
    running = status(own_installation)
    assert list(stopped) == list(running)
    assert (stopped["daemon"], stopped["pid"], stopped["boxes"]) == ("stopped", None, None)
    assert (running["daemon"], running["version"], running["boxes"], running["running"]) == (
        "running",
        __version__,
        0,
        0,
    )
    assert running["socket"] == f"{own_installation.state}/run/daemon.sock" == stopped["socket"]
    assert isinstance(running["pid"], int)
    assert alive(running["pid"])


def test_start_twice_is_one_daemon(own_installation: Installation) -> None:
    first, second = (own_installation.cli("daemon", "start", "--json") for _ in range(2))
    assert json.loads(first.stdout)["pid"] == json.loads(second.stdout)["pid"]


def test_boxes_outlive_a_stopped_daemon(own_installation: Installation) -> None:
    job = own_installation.cli("run", "-d", "--name", "box", "--", "sleep", "600").stdout.decode().strip()
    with own_installation.sdk() as sdk:
        before = sdk.get("box").info.pid
    done = own_installation.cli("daemon", "stop")
    assert (done.stdout, done.returncode) == (b"stopped; 1 box keeps running\n", 0)
    assert status(own_installation)["daemon"] == "stopped"
    assert before is not None
    assert alive(before)
    assert b"running" in own_installation.cli("logs", "--list", "box").stdout
    with own_installation.sdk() as sdk:
        assert sdk.get("box").info.pid == before
    assert job.startswith("box/")
    assert status(own_installation)["running"] == 1


def test_a_killed_daemon_is_not_running(own_installation: Installation) -> None:
    own_installation.cli("daemon", "start")
    pid = own_installation.kill_daemon()
    assert status(own_installation)["daemon"] == "stopped"
    own_installation.cli("daemon", "start")
    until(lambda: status(own_installation)["pid"] not in {pid, None}, "another one runs")


def test_stop_says_the_state_to_programs(own_installation: Installation) -> None:
    own_installation.cli("daemon", "start")
    assert json.loads(own_installation.cli("daemon", "stop", "--json").stdout)["daemon"] == "stopped"
    own_installation.cli("daemon", "start")
