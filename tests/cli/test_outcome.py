"""What a person is told when a command is over, or when its box is."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.cli import outcome
from paddock.cli.attach import Running
from paddock.client.transport import Channel
from paddock.errors import Unavailable, UserError
from paddock.model import Enforcement

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.frames import Message
    from tests.support.installation import Installation

STARTED = frames.encode_message({"event": "started", "pid": 2, "id": "x", "tty": False})
GREEDY = "x = bytearray(300_000_000); print(len(x))"


def finish(data: bytes, call: Callable[[str, Message], object], *, budget: bool = False) -> int:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(STARTED + data)
        theirs.shutdown(socket.SHUT_WR)
        return outcome.finish(Running(call, ("id", "box"), Channel(ours.detach()), budget=budget), stdin=False)


def ended(code: int, *, timed_out: bool = False) -> bytes:
    return frames.encode_message({"event": "exit", "code": code, "timed_out": timed_out})


def never(_verb: str, _args: Message) -> object:
    raise AssertionError


@pytest.mark.parametrize("code", [0, 1, 124, 125, 143])
def test_a_command_that_ended_by_itself_is_not_commented(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(ended(code), never) == code
    assert capsys.readouterr().err == ""


def test_a_timeout_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(ended(124, timed_out=True), never) == 124
    assert capsys.readouterr().err == "warning: the command was ended: its time was over\n"


@pytest.mark.parametrize(
    ("answer", "message", "hint", "code"),
    [
        ({"reason": "", "exit_code": 137}, "the box 'box' ended: it was stopped", "run the command again", 137),
        (
            {"reason": "memory limit: 2 GiB used, 1 GiB allowed", "exit_code": 137},
            "2 GiB used",
            "allow the box more with --memory",
            137,
        ),
        (
            {"reason": "disk limit: 2 GiB used, 1 GiB allowed", "exit_code": 137},
            "2 GiB used",
            "allow the box more with --disk",
            137,
        ),
        (
            {"reason": "wall time limit: 5 s are over", "exit_code": 124},
            "5 s are over",
            "allow the box more with --timeout",
            124,
        ),
        ({"reason": "its connection broke", "exit_code": 125}, "its connection broke", "run the command again", 125),
        ({"exit_code": "137"}, "it was stopped", "run the command again", 125),
        (None, "it was stopped", "run the command again", 125),
    ],
)
def test_the_end_of_a_box_is_explained(answer: object, message: str, hint: str, code: int) -> None:
    with pytest.raises(Unavailable) as caught:
        finish(b"", lambda _verb, _args: answer)
    error = caught.value
    assert (message in error.message, error.hint.startswith(hint), error.exit_code) == (True, True, code)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("memory limit: 1 of its processes ended", "error: memory limit: 1 of its processes ended\nhint: allow"),
        ("", ""),
    ],
)
def test_a_kill_at_the_memory_limit_is_told_from_any_other(
    capsys: pytest.CaptureFixture[str], reason: str, said: str
) -> None:
    asked = []

    def call(verb: str, args: Message) -> object:
        asked.append((verb, args))
        return reason

    assert finish(ended(137), call) == 137
    assert asked == [("killed", {"box": "id"})]
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert bool(err) is bool(said)


@pytest.mark.parametrize("code", [0, 1, 137])
@pytest.mark.parametrize("reason", ["the budget of 5 requests is spent", ""])
def test_a_command_that_was_refused_more_ends_with_the_code_of_budgets_whatever_it_made_of_it(
    capsys: pytest.CaptureFixture[str], code: int, reason: str
) -> None:
    def call(verb: str, args: Message) -> object:
        assert args == {"box": "id"}
        return {"spent": reason, "killed": ""}[verb]

    assert finish(ended(code), call, budget=True) == (78 if reason else code)
    hint = "hint: allow the box more with --max-cost, --max-tokens or --max-requests"
    assert capsys.readouterr().err == (f"error: {reason}\n{hint}\n" if reason else "")


def test_a_daemon_that_cannot_say_why_leaves_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def call(_verb: str, _args: Message) -> object:
        raise UserError("no box", code="no-box")

    assert finish(ended(137), call) == 137
    assert finish(ended(1), call, budget=True) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.box
@pytest.mark.parametrize("words", [("run", "-m", "100m", "--"), ("exec", "box")])
def test_a_memory_bomb_is_named_by_its_limit(installation: Installation, words: tuple[str, ...]) -> None:
    installation.cli("create", "box", "-m", "100m")
    with installation.sdk() as sdk:
        held = next(report for report in sdk.get("box").info.limits if report.name == "memory")
    done = installation.cli(*words, "/usr/bin/python3", "-c", GREEDY)
    if held.enforcement is Enforcement.KERNEL:
        assert done.returncode == 137
        assert b"error: memory limit: " in done.stderr
    else:
        assert b"MemoryError" in done.stderr, "each process is held by its rlimit"
    free = installation.cli("run", "-m", "2g", "--", "/usr/bin/python3", "-c", GREEDY)
    assert (free.returncode, free.stdout) == (0, b"300000000\n"), "the oracle: with more memory it works"


@pytest.mark.box
def test_a_plain_kill_is_not_blamed_on_memory(installation: Installation) -> None:
    done = installation.cli("run", "-m", "1g", "--", "sh", "-c", "kill -9 $$")
    assert (done.returncode, done.stderr) == (137, b"")


@pytest.mark.box
def test_a_box_that_is_stopped_meanwhile_says_so(installation: Installation) -> None:
    process = installation.spawn("run", "--name", "box", "--", "sh", "-c", "echo ready; exec sleep 600")
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        assert installation.cli("stop", "--grace", "0", "box").returncode == 0
        assert process.wait(20) == 137
        assert process.stderr.read().splitlines()[0] == b"error: the box 'box' ended: it was stopped"
