"""init as a whole: many commands at once, connecting again, reaping, main commands, shutting down."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from paddock import frames, limits
from paddock.engines.guest import init
from tests.support.guest import ENVIRONMENT, new_guest
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.guest import Client, Guest

pytestmark = pytest.mark.box


# -- many at once ------------------------------------------------------------------------------------------------------


def test_two_hundred_commands_run_side_by_side(guest: Guest) -> None:
    clients = [guest.client() for _ in range(200)]
    for number, client in enumerate(clients):
        client.begin("sh", "-c", f"read line; echo {number} $line; exit {number % 128}", stdin=True)
    for client in clients:
        assert client.message()["event"] == "started"
    assert len(guest.ask(op="list")["processes"]) == 200
    for client in clients:
        client.feed(b"go\n", end=False)
    for number, client in enumerate(clients):
        done = client.finish()
        assert (done.stdout, done.code) == (b"%d go\n" % number, number % 128)
    assert guest.ask(op="list")["processes"] == []


def test_nothing_is_left_of_commands_that_ended(guest: Guest) -> None:
    guest.run("true")
    for _ in range(50):
        guest.run("true", stdin=b"x", timeout_s=60)
        guest.run("true", tty={"rows": 1, "cols": 1})
    guest.await_idle()


def test_a_connection_too_many_is_hung_up_on_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "CONNECTIONS_MAX", 8)
    with new_guest() as guest:
        clients = [guest.client() for _ in range(8)]
        assert clients[-1].hung_up(), "the eighth beside the test's own"
        for client in clients[:7]:
            client.send(op="ping")
            assert client.message()["event"] == "pong"
        clients[0].close()
        guest.catch_up()
        again = guest.client()
        again.send(op="ping")
        assert again.message()["event"] == "pong"


# -- list and connect --------------------------------------------------------------------------------------------------


def test_running_commands_are_listed_with_what_they_are(guest: Guest) -> None:
    with guest.client() as client:
        started = client.start("sleep", "60", tty={"rows": 1, "cols": 1})
        (row,) = guest.ask(op="list")["processes"]
    assert row.pop("started_at") > 1_600_000_000
    assert row == {"id": started["id"], "pid": started["pid"], "argv": ["sleep", "60"], "tty": True, "clients": 1}


def test_a_list_of_many_commands_with_long_words_fits_a_message(guest: Guest) -> None:
    clients = [guest.client() for _ in range(60)]
    for client in clients:
        client.start("sh", "-c", "sleep 60", *["\u20ac" * 300] * 40)
    rows = guest.ask(op="list")["processes"]
    assert len(rows) == 60
    assert {row["argv"][0] for row in rows} == {"sh"}


def test_an_id_is_taken_while_its_command_runs(guest: Guest) -> None:
    client = guest.client()
    client.start("sleep", "60", id="same")
    assert _second(guest, "same") == "exists"
    client.send(op="signal", signal=9)
    client.finish()
    assert _second(guest, "same") == "started"


def _second(guest: Guest, name: str) -> str:
    with guest.client() as client:
        client.begin("true", id=name)
        answer = client.message()
        return str(answer.get("code", answer["event"]))


def test_an_ended_command_still_tells_its_end(guest: Guest) -> None:
    with guest.client() as client:
        started = client.start("sh", "-c", "exit 9")
        client.finish()
    for key in ("id", "pid"):
        client = guest.client()
        client.send(op="connect", **{key: started[key]})
        assert client.message()["id"] == started["id"]
        assert client.message()["code"] == 9


def test_only_the_newest_ended_commands_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "FINISHED_KEPT", 3)
    with new_guest() as guest:
        for number in range(5):
            guest.run("true", id=str(number))
        known = [guest.ask(op="connect", id=str(number))["event"] for number in range(5)]
    assert known == ["error", "error", "started", "started", "started"]


@pytest.mark.parametrize("op", ["connect", "signal"])
def test_a_command_that_never_was_is_refused(guest: Guest, op: str) -> None:
    for what in ({"id": "nobody"}, {"pid": 99999}, {}):
        assert guest.ask(op=op, signal=15, **what)["code"] == "no-process"


def test_a_signal_needs_no_connection_to_the_command(guest: Guest) -> None:
    client = guest.client()
    started = client.start("sleep", "60")
    assert guest.ask(op="signal", id=started["id"], signal=signal.SIGTERM)["event"] == "done"
    assert client.finish().code == 143
    assert guest.ask(op="signal", id=started["id"], signal=signal.SIGTERM)["code"] == "ended"


def test_the_host_ends_a_command_and_all_below_it_and_says_with_which_code(guest: Guest, tmp_path: Path) -> None:
    client = guest.client()
    started = client.start("sh", "-c", f"setsid sleep 60 & echo $! > {tmp_path}/child; wait")
    until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text(), "its child runs")
    for code in (-1, 256):
        assert guest.ask(op="end", id=started["id"], code=code)["code"] == "protocol"
    assert guest.ask(op="end", id="nobody", code=1)["code"] == "no-process"
    assert len(guest.ask(op="list")["processes"]) == 1
    assert guest.ask(op="end", id=started["id"], code=124)["event"] == "done"
    assert client.finish().code == 124
    guest.await_idle()
    assert guest.ask(op="end", id=started["id"], code=3)["event"] == "done"
    assert guest.ask(op="wait", id=started["id"])["code"] == 124, "an end is an end"


def test_a_signal_reaches_a_command_whose_input_is_stuck(guest: Guest) -> None:
    client = guest.client()
    started = client.start("sleep", "60", stdin=True)
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.feed(bytes(4 * limits.MIB))
    assert guest.ask(op="signal", id=started["id"], signal=signal.SIGTERM)["event"] == "done"
    assert client.finish().code == 143


@pytest.mark.parametrize("request_", [{"op": "ping"}, {"op": "start"}, {"op": "stat", "path": "/"}, {"op": "watch"}])
def test_a_connection_does_one_thing_at_a_time(guest: Guest, request_: dict[str, Any]) -> None:
    client = guest.client()
    client.start("sh", "-c", "read x; exit 5", stdin=True)
    client.send(**request_)
    assert client.message()["code"] == "busy"
    client.feed(b"\n", end=False)
    assert client.finish().code == 5


def test_a_connection_serves_one_request_after_another(guest: Guest) -> None:
    with guest.client() as client:
        for _ in range(3):
            client.send(op="stat", path="/")
            assert client.message()["event"] == "entry"


# -- reaping -----------------------------------------------------------------------------------------------------------


def test_orphans_are_reaped(guest: Guest) -> None:
    guest.sh("for i in 1 2 3 4 5 6 7 8; do (setsid true &); done")
    until(lambda: guest.sh("grep -l '^State:.Z' /proc/[0-9]*/status").stdout == b"", "no zombie is left")


def test_a_command_stays_a_zombie_no_longer_than_its_output(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "sleep 0.1 & exit 3")
    assert client.finish().code == 3
    assert guest.ask(op="list")["processes"] == []


# -- the main command --------------------------------------------------------------------------------------------------


def test_the_box_ends_with_its_main_command_after_the_output_was_read(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "head -c 3000000 /dev/zero; exit 6", main=True)
    done = client.finish()
    assert (len(done.stdout), done.code) == (3_000_000, 6)
    assert guest.wait_ended() == 0


def test_the_box_ends_when_the_caller_of_its_main_command_leaves(guest: Guest) -> None:
    client = guest.client()
    client.start("sleep", "60", main=True)
    client.close()
    assert guest.wait_ended() == 0


def test_a_kept_main_command_outlives_its_caller(guest: Guest) -> None:
    client = guest.client()
    started = client.start("sh", "-c", "read x; exit 8", main=True, keep=True, stdin=True)
    client.close()
    guest.catch_up()
    again = guest.client()
    again.send(op="connect", id=started["id"])
    again.message()
    again.feed(b"\n", end=False)
    assert again.finish().code == 8
    assert guest.wait_ended() == 0


def test_a_main_command_that_cannot_start_ends_the_box_and_says_why(guest: Guest) -> None:
    client = guest.client()
    client.begin("no-such-program", main=True)
    assert client.message()["code"] == "not-found"
    assert guest.wait_ended() == 0


def test_other_commands_may_end_while_the_main_one_runs(guest: Guest) -> None:
    client = guest.client()
    client.start("sleep", "60", main=True)
    assert guest.run("true").code == 0
    guest.catch_up()
    assert alive(guest.pid)


def test_a_deadline_of_the_main_command_is_its_end(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "echo before; sleep 60", main=True, timeout_s=0.2)
    done = client.finish()
    assert (done.stdout, done.code) == (b"before\n", 124)
    assert guest.wait_ended() == 0


# -- shutdown ----------------------------------------------------------------------------------------------------------


def _shut_down(guest: Guest, grace_s: float) -> Client:
    client = guest.client()
    client.send(op="shutdown", grace_s=grace_s)
    assert client.message()["event"] == "done"
    return client


def test_an_empty_box_shuts_down_at_once(guest: Guest) -> None:
    _shut_down(guest, 60.0)
    assert guest.wait_ended() == 0


def test_shutting_down_lets_commands_end_by_themselves(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "trap 'echo cleaned up; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    client.read_until(b"up\n")
    _shut_down(guest, 60.0)
    assert client.finish().stdout == b"cleaned up\n"
    assert guest.wait_ended() == 0


def test_shutting_down_wakes_what_is_stopped(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "kill -STOP $$")
    until(lambda: guest.sh("grep -l '^State:.T' /proc/[0-9]*/status").stdout != b"", "it is stopped")
    _shut_down(guest, 60.0)
    assert guest.wait_ended() == 0


def test_what_does_not_end_in_time_ends_with_the_box(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "trap '' TERM; echo up; while :; do sleep 60; done")
    client.read_until(b"up\n")
    _shut_down(guest, 0.1)
    assert guest.wait_ended() == 0
    assert client.hung_up()


@pytest.mark.parametrize("rest", [{}, {"grace_s": "soon"}, {"grace_s": None}])
def test_a_malformed_shutdown_ends_nothing(guest: Guest, rest: dict[str, Any]) -> None:
    client = guest.client()
    client.start("sleep", "60")
    assert guest.ask(op="shutdown", **rest)["event"] == "error"
    assert len(guest.ask(op="list")["processes"]) == 1


def test_frames_of_an_ended_command_are_ignored(guest: Guest) -> None:
    with guest.client() as client:
        client.data(frames.STDIN, b"to nobody")
        client.data(frames.FILE, b"to no file")
        client.send(op="ping")
        assert client.message()["event"] == "pong"


def test_a_detached_command_has_no_client(guest: Guest) -> None:
    with guest.client() as client:
        client.begin("sleep", "60", keep=True, detached=True, env=ENVIRONMENT)
        assert client.message()["event"] == "started"
        client.send(op="ping")
        assert client.message()["event"] == "pong", "the connection is free again"
    (row,) = guest.ask(op="list")["processes"]
    assert row["clients"] == 0
    os.kill(guest.pid, 0)


def test_a_box_without_a_gateway_takes_no_door(guest: Guest) -> None:
    answer = guest.ask(op="seal")
    assert (answer["event"], answer["code"]) == ("error", "not-sealed")
    guest.await_idle()


def test_an_init_without_handles_has_none_to_give(guest: Guest) -> None:
    assert guest.ask(op="handles") == {"event": "done"}
    guest.await_idle()
