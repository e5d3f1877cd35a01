"""One command of a box: its bytes both ways, its terminal, its clients, its journal and its end."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from paddock import frames, limits
from paddock.engines.guest import command
from paddock.engines.guest.wire import HIGH_BYTES
from tests.support.guest import ENVIRONMENT, new_guest, settled
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.guest import Client, Guest

pytestmark = pytest.mark.box


# -- start -------------------------------------------------------------------------------------------------------------


def test_output_and_exit_code_arrive(guest: Guest) -> None:
    done = guest.sh("echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert done.end == {"event": "exit", "code": 7, "signal": None, "timed_out": False}


def test_the_environment_is_what_was_asked_for_and_nothing_else(guest: Guest) -> None:
    done = guest.run("/usr/bin/env", env={"A": "1", "B": os.fsdecode(b"\xff")})
    assert sorted(done.stdout.splitlines()) == [b"A=1", b"B=\xff"]


def test_a_command_starts_where_it_was_asked_to(guest: Guest, tmp_path: Path) -> None:
    assert guest.run("pwd", cwd=os.fspath(tmp_path)).stdout.decode().strip() == os.fspath(tmp_path)
    assert guest.run("pwd").stdout == b"/\n"


def test_a_command_has_three_descriptors_and_no_more(guest: Guest, tmp_path: Path) -> None:
    """init's listening socket in a command's hands would let it answer the host in init's place."""
    journal = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in "01"]
    with guest.client() as client:
        client.start("sleep", "60", fds=journal, keep=True, journal_bytes=4096)
        listed = guest.sh("ls -l /proc/self/fd").stdout.decode()
    for fd in journal:
        os.close(fd)
    lines = [line.split(" -> ")[1] for line in listed.splitlines()[1:]]
    assert len(lines) == 4, lines
    assert [line for line in lines if line.startswith(("socket:", os.fspath(tmp_path)))] == []


@pytest.mark.parametrize(
    ("argv", "cwd", "code"),
    [
        (["no-such-program"], "/", "not-found"),
        (["/no/such/program"], "/", "not-found"),
        (["/etc/passwd"], "/", "not-executable"),
        (["/"], "/", "not-executable"),
        (["true"], "/no/such/place", "bad-cwd"),
        (["true"], "/etc/passwd", "bad-cwd"),
    ],
)
@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_command_that_cannot_start_is_refused_and_leaves_nothing(
    guest: Guest, argv: list[str], cwd: str, code: str, timeout_s: float | None
) -> None:
    with guest.client() as client:
        client.begin(*argv, cwd=cwd, stdin=True, timeout_s=timeout_s)
        answer = client.message()
        assert (answer["event"], answer["code"]) == ("error", code)
        client.start("true")
        assert client.finish().code == 0, "the connection serves on"
    guest.await_idle()


@pytest.mark.parametrize(
    "request_",
    [
        {"argv": []},
        {"argv": ["a\0b"]},
        {"argv": ["true"], "env": {"A=B": "x"}},
        {"argv": ["true"], "env": {"A": "x\0"}},
        {"argv": ["true"], "env": []},
        {"argv": ["true"], "cwd": ["/"]},
        {"argv": ["true"], "tty": {"rows": 1 << 20, "cols": 1}},
        {"argv": ["true"], "tty": {"rows": 1}},
        {"argv": ["true"], "timeout_s": "soon"},
        {"argv": ["true"], "timeout_s": -1},
        {"argv": ["true"], "timeout_s": 1e300},
    ],
)
def test_a_malformed_start_leaves_no_descriptor_and_no_process(guest: Guest, request_: dict[str, Any]) -> None:
    with guest.client() as client:
        client.send(**{"op": "start", "id": "x", "env": ENVIRONMENT, "cwd": "/", "stdin": True, **request_})
        assert client.message()["event"] == "error"
    guest.await_idle()
    assert guest.ask(op="list")["processes"] == []
    assert len(guest.sh("echo /proc/[0-9]*").stdout.split()) == 2, "init and the shell"


def test_a_script_without_a_first_line_runs_in_a_shell(guest: Guest, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo ran with $1\n")
    script.chmod(0o755)
    for timeout_s in (None, 60.0):
        assert guest.run(os.fspath(script), "x", timeout_s=timeout_s).stdout == b"ran with x\n"


# -- input and output --------------------------------------------------------------------------------------------------


def test_input_reaches_the_command_byte_for_byte(guest: Guest) -> None:
    data = os.urandom(50_000)
    assert guest.run("cat", stdin=data).stdout == data


def test_without_input_a_command_reads_nothing(guest: Guest) -> None:
    assert guest.run("cat").stdout == b""


def test_input_after_the_command_closed_its_own_is_dropped(guest: Guest) -> None:
    with guest.client() as client:
        client.start("sh", "-c", "exec <&-; echo closed; sleep 0.2; echo end", stdin=True)
        client.read_until(b"closed\n")
        client.feed(bytes(3 * HIGH_BYTES))
        assert client.finish().stdout == b"end\n"


def test_a_large_input_waits_for_a_slow_command_without_memory(guest: Guest) -> None:
    client = guest.client()
    client.start("sh", "-c", "read line; sleep 0.3; exec wc -c", stdin=True)
    client.feed(b"go\n", end=False)
    before = guest.resident_kib()
    client.socket.settimeout(0.2)
    data = frames.encode(frames.STDIN, bytes(65536))
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 1000:
            client.socket.sendall(data)
            sent += 1
    assert sent < 100, "the socket is full before it would matter"
    assert guest.resident_kib() - before < 4 * 1024
    guest.catch_up()


def test_a_client_that_does_not_read_stops_the_command_and_loses_nothing(guest: Guest, tmp_path: Path) -> None:
    """The command counts what it could write; the count stands still while nobody reads, and then goes on."""
    count = tmp_path / "count"
    program = (
        "import os, sys\n"
        "for n in range(640):\n"
        "    os.write(1, bytes([n % 256]) * 65536)\n"
        f"    open({os.fspath(count)!r}, 'w').write(str(n))\n"
    )
    client = guest.client()
    client.start("python3", "-c", program)
    until(count.exists, "it writes")
    until(lambda: settled(count.read_text, 0.2), "it is stopped")
    assert int(count.read_text() or 0) < 100
    before = guest.resident_kib()
    guest.catch_up()
    assert guest.resident_kib() - before < 1024
    done = client.finish()
    assert len(done.stdout) == 640 * 65536
    assert done.stdout == b"".join(bytes([n % 256]) * 65536 for n in range(640))


def test_output_still_in_the_pipe_arrives_before_the_end(guest: Guest) -> None:
    for _ in range(5):
        assert len(guest.sh("head -c 60000 /dev/zero").stdout) == 60000


def test_output_held_open_by_a_background_child_does_not_delay_the_end(guest: Guest) -> None:
    done = guest.sh("sleep 60 & echo done")
    assert (done.stdout, done.code) == (b"done\n", 0)


def test_a_client_may_leave_while_a_background_child_holds_the_output(guest: Guest) -> None:
    with guest.client() as client:
        client.start("sh", "-c", "sleep 60 & echo $$; exit 0")
        pid = int(client.read_until(b"\n"))
        until(lambda: not _exists(guest, pid), "the command was reaped")
    guest.catch_up()


def _exists(guest: Guest, pid: int) -> bool:
    return bool(guest.ask(op="stat", path=f"/proc/{pid}")["event"] == "entry")


# -- signals and ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_ends_the_command_as_in_a_shell(guest: Guest, number: int) -> None:
    with guest.client() as client:
        client.start("sleep", "60")
        client.send(op="signal", signal=number)
        end = client.finish().end
    assert end == {"event": "exit", "code": 128 + number, "signal": number, "timed_out": False}


def test_a_signal_reaches_the_whole_process_group(guest: Guest) -> None:
    child = "trap 'echo child; exit' TERM; echo up; while :; do sleep 0.02; done"
    with guest.client() as client:
        client.start("sh", "-c", 'trap "echo shell" TERM; sh -c "$0" & wait; wait', child)
        client.read_until(b"up\n")
        client.send(op="signal", signal=signal.SIGTERM)
        assert set(client.finish().stdout.split()) == {b"shell", b"child"}


@pytest.mark.parametrize("number", [-1, 99, 1 << 40])
def test_a_signal_that_does_not_exist_is_refused_and_the_command_goes_on(guest: Guest, number: int) -> None:
    with guest.client() as client:
        started = client.start("sleep", "60")
        assert guest.ask(op="signal", id=started["id"], signal=number)["event"] == "error"
        assert [row["id"] for row in guest.ask(op="list")["processes"]] == [started["id"]]


def test_a_deadline_ends_the_command_with_124(guest: Guest) -> None:
    end = guest.run("sleep", "60", timeout_s=0.1).end
    assert (end["code"], end["timed_out"]) == (124, True)


def test_a_deadline_ends_what_the_command_left_behind(guest: Guest) -> None:
    script = "setsid sh -c 'sleep 601 & sleep 602' >/dev/null 2>&1 & (setsid sleep 603 &) ; sleep 604"
    assert guest.sh(script, timeout_s=0.3).code == 124
    until(lambda: b"sleep" not in guest.sh("cat /proc/[0-9]*/cmdline").stdout.replace(b"\0", b" "), "all of it is gone")


def test_without_a_deadline_what_a_command_left_runs_on(guest: Guest) -> None:
    guest.sh("setsid sleep 605 >/dev/null 2>&1 &")
    assert b"605" in guest.sh("cat /proc/[0-9]*/cmdline").stdout


def test_a_far_deadline_is_a_deadline(guest: Guest) -> None:
    assert guest.run("echo", "x", timeout_s=1e9).stdout == b"x\n"


# -- clients -----------------------------------------------------------------------------------------------------------


def test_a_command_hangs_up_when_its_client_leaves(guest: Guest) -> None:
    with guest.client() as client:
        client.start("sleep", "60")
    until(lambda: guest.ask(op="list")["processes"] == [], "it got SIGHUP")


def test_a_command_that_ignores_the_hang_up_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "HANGUP_S", 0.1)
    with new_guest() as guest:
        with guest.client() as client:
            client.start("sh", "-c", "trap '' HUP; echo up; sleep 60")
            client.read_until(b"up\n")
        until(lambda: guest.ask(op="list")["processes"] == [], "it was killed")


def test_a_kept_command_goes_on_without_its_client(guest: Guest) -> None:
    with guest.client() as client:
        started = client.start("sh", "-c", "read line; echo got $line", stdin=True, keep=True)
    again = guest.client()
    again.send(op="connect", id=started["id"])
    assert again.message() == {**started, "again": True}
    again.feed(b"it\n", end=False)
    assert again.finish().stdout == b"got it\n"


def test_two_clients_see_the_same_output_from_when_they_came(guest: Guest) -> None:
    first, second = guest.client(), guest.client()
    started = first.start("sh", "-c", "echo one; read x; echo two", stdin=True)
    assert first.read_until(b"one\n") == b"one\n"
    second.send(op="connect", id=started["id"])
    second.message()
    first.feed(b"\n", end=False)
    assert (first.finish().stdout, second.finish().stdout) == (b"two\n", b"two\n")


# -- terminals ---------------------------------------------------------------------------------------------------------


def _terminal(guest: Guest, script: str) -> Client:
    client = guest.client()
    assert client.start("sh", "-c", script, tty={"rows": 10, "cols": 20})["tty"] is True
    return client


def test_a_terminal_has_its_size_and_is_resized(guest: Guest) -> None:
    client = _terminal(guest, "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.02; done")
    assert client.read_until(b"\n").strip() == b"10 20"
    client.send(op="resize", rows=30, cols=40)
    assert client.finish().stdout.strip() == b"30 40"


def test_a_terminal_turns_control_c_into_a_signal(guest: Guest) -> None:
    client = _terminal(guest, "trap 'echo interrupted; exit 3' INT; echo up; while :; do sleep 0.02; done")
    client.read_until(b"up")
    client.feed(b"\x03", end=False)
    done = client.finish()
    assert b"interrupted" in done.stdout
    assert done.code == 3


def test_the_end_of_input_on_a_terminal_is_control_d(guest: Guest) -> None:
    client = _terminal(guest, "cat; echo ended")
    client.feed(b"typed\n")
    assert client.finish().stdout.replace(b"\r\n", b"\n") == b"typed\ntyped\nended\n"


def test_a_terminal_carries_much_output_whole(guest: Guest) -> None:
    client = _terminal(guest, "stty -opost; seq 1 200000")
    assert client.finish().stdout == b"".join(b"%d\n" % n for n in range(1, 200001))


def test_a_command_that_closes_its_terminal_before_it_exits_has_its_own_exit_code(guest: Guest) -> None:
    """As cat does: hanging up then would end it with SIGHUP."""
    done = _terminal(guest, "exec <&- >&- 2>&-; sleep 0.2; exec >/dev/tty; echo again; exit 3").finish()
    assert (done.stdout.strip(), done.code) == (b"again", 3)


def test_a_command_on_a_terminal_hangs_up_when_its_client_leaves(guest: Guest) -> None:
    client = _terminal(guest, "echo up; sleep 60")
    client.read_until(b"up")
    client.close()
    until(lambda: guest.ask(op="list")["processes"] == [], "it got SIGHUP")


# -- journals ----------------------------------------------------------------------------------------------------------


def _journalled(guest: Guest, directory: Path, *argv: str, **options: Any) -> list[tuple[int, bytes]]:
    fds = [os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in "01"]
    with guest.client() as client:
        client.begin(*argv, fds=fds, keep=True, detached=True, **options)
        client.message()
    for fd in fds:
        os.close(fd)
    until(lambda: guest.ask(op="list")["processes"] == [], "it ended")
    return [frame for name in "01" for frame in frames.Decoder().feed((directory / name).read_bytes())]


def test_a_detached_command_is_journalled_from_start_to_end(guest: Guest, tmp_path: Path) -> None:
    found = _journalled(guest, tmp_path, "sh", "-c", "echo out; exit 4", journal_bytes=1 << 20)
    messages = [frames.decode_message(payload) for kind, payload in found if kind == frames.MESSAGE]
    assert [message["event"] for message in messages] == ["segment", "started", "exit"]
    assert messages[-1]["code"] == 4
    assert (frames.STDOUT, b"out\n") in found


def test_a_journal_is_bounded_and_holds_the_newest(guest: Guest, tmp_path: Path) -> None:
    _journalled(guest, tmp_path, "seq", "1", "100000", journal_bytes=128 * limits.KIB)
    sizes = [(tmp_path / name).stat().st_size for name in "01"]
    assert sum(sizes) <= 128 * limits.KIB + 65536
    assert b"99999\n100000\n" in (tmp_path / "0").read_bytes() + (tmp_path / "1").read_bytes()


def test_a_command_that_could_not_start_says_so_in_its_journal(guest: Guest, tmp_path: Path) -> None:
    found = _journalled(guest, tmp_path, "no-such-program", journal_bytes=4096)
    last = frames.decode_message(found[-1][1])
    assert (last["event"], last["code"]) == ("error", "not-found")
