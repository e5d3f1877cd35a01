"""Commands of the SDK on blocking calls."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client._sync import command as commands
from paddock.errors import Unavailable, UserError
from paddock.model import ExecSpec, TtySize
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from paddock.client import Box, Command

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR


def test_a_command_has_its_directory_and_its_input(box: Box) -> None:
    assert box.exec(["sh", "-c", "pwd; cat"], cwd="/tmp", stdin=b"in").stdout == b"/tmp\nin"


def test_twenty_megabytes_go_through_cat(box: Box) -> None:
    data = os.urandom(1 << 20) * 20
    done = box.exec(["cat"], stdin=data)
    assert done.stdout == data


def test_input_that_a_command_does_not_read_does_not_keep_it(box: Box) -> None:
    assert box.exec(["true"], stdin=bytes(20 << 20)).exit_code == 0


def test_output_past_the_limit_is_dropped_and_the_command_ends(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUTPUT_BYTES_MAX", 1 << 20)
    done = box.exec(["sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"])
    assert done.exit_code == 0
    assert 1 << 20 <= len(done.stdout) < 2 << 20
    assert done.stderr == b"end\n"


def test_input_for_a_command_that_has_ended_is_dropped(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sh", "-c", "exit 4"), stdin=True))
    assert list(command.output()) == []
    assert command.channel.receive() is None, "it has hung up"
    command.write(bytes(1 << 20))
    command.close_stdin()
    assert command.result is not None
    assert command.result.exit_code == 4
    command.close()


def test_a_command_is_streamed(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sh", "-c", "echo up; read line; echo got $line; exit 4"), stdin=True))
    output = command.output()
    assert next(output) == (frames.STDOUT, b"up\n")
    command.write(b"it\n")
    command.close_stdin()
    assert list(output) == [(frames.STDOUT, b"got it\n")]
    assert command.result is not None
    assert command.result.exit_code == 4
    assert command.started is not None
    assert repr(command) == f"<Command {command.job} in sdk>"
    command.close()


def test_a_signal_reaches_a_command_whose_input_is_stuck(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sleep", "60"), stdin=True))
    command.wait_started()
    command.channel.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        command.write(bytes(8 << 20))
    command.signal(signal.SIGTERM)
    command.channel.socket.settimeout(20)
    assert _end(command) == 143


def test_a_refused_signal_is_raised_and_the_command_goes_on(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sh", "-c", "read x; exit 5"), stdin=True))
    command.wait_started()
    with pytest.raises(UserError):
        command.signal(99)
    command.write(b"\n")
    assert _end(command) == 5
    with pytest.raises(UserError):
        command.signal(signal.SIGTERM)


def _end(command: Command) -> int:
    for _ in command.output():
        pass
    command.close()
    assert command.result is not None
    return command.result.exit_code


def test_a_terminal_has_its_size(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sh", "-c", "read x; stty size"), tty=TtySize(rows=10, cols=20), stdin=True))
    assert command.wait_started().tty
    command.resize(TtySize(rows=30, cols=40))
    command.write(b"\n")
    assert b"30 40" in b"".join(data for _, data in command.output())
    command.close()


def test_a_running_command_is_connected_to_again(box: Box) -> None:
    first = box.start(ExecSpec(argv=("sh", "-c", "read x; echo $x; exit 7"), stdin=True, keep=True))
    first.wait_started()
    first.close()
    until(lambda: [row["clients"] for row in box.processes()] == [0], "it has no client")
    again = box.connect(first.job)
    again.wait_started()
    again.write(b"again\n")
    assert list(again.output()) == [(frames.STDOUT, b"again\n")]
    assert again.result is not None
    assert again.result.exit_code == 7
    again.close()


def test_a_command_that_never_was_cannot_be_connected_to(box: Box) -> None:
    with pytest.raises(UserError, match="not running"):
        box.connect("nothing")
    box.exec(["true"])
    with box.connect("nothing") as command, pytest.raises(UserError) as caught:
        command.wait_started()
    assert caught.value.code == "no-process"


def test_a_box_that_ends_under_a_command_is_an_error_that_says_why(box: Box) -> None:
    command = box.start(ExecSpec(argv=("sleep", "60")))
    command.wait_started()
    box.stop(grace_s=0)
    with pytest.raises(Unavailable, match="ended: it was stopped") as caught:
        command.finish()
    assert (caught.value.code, caught.value.exit_code) == ("box-ended", 137)


@pytest.mark.parametrize("argv", [[], [""], ["a\0b"]])
def test_a_command_that_is_none_is_refused_before_anything_is_sent(box: Box, argv: list[str]) -> None:
    with pytest.raises(UserError):
        box.exec(argv)
