"""The SDK on blocking calls, against a real daemon and real boxes."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client import Paddock
from paddock.client._sync import core
from paddock.errors import Unavailable, UserError
from paddock.model import BoxState, ExecSpec, Limits, Mount, TtySize
from paddock.reports import RemovalInfo
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.client import Box, Command
    from tests.support.installation import Installation

pytestmark = pytest.mark.box


@pytest.fixture
def box(paddock: Paddock, installation: Installation) -> Iterator[Box]:
    with paddock.create("sdk", workspace=str(installation.workspace)) as made:
        yield made


# -- run ---------------------------------------------------------------------------------------------------------------


def test_a_run_gives_output_and_exit_code(paddock: Paddock, installation: Installation) -> None:
    done = paddock.run(["sh", "-c", "echo out; echo err >&2; exit 3"], workspace=str(installation.workspace))
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == (b"out\n", b"err\n", 3, False)
    until(lambda: paddock.ls() == [], "the box is gone")


def test_a_run_takes_everything_a_box_and_a_command_have(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("shown")
    done = paddock.run(
        ["sh", "-c", "cat /mnt/extra/file; echo $A; cat; grep -o 'processes *77' /proc/self/limits"],
        workspace=str(installation.workspace),
        env={"A": "value"},
        mounts=[Mount(source=str(tmp_path), target="/mnt/extra", read_only=True)],
        limits=Limits(pids=77),
        stdin=b"input\n",
    )
    assert done.stdout == b"shownvalue\ninput\nprocesses             77\n", done.stderr


def test_a_run_that_takes_too_long_is_a_result(paddock: Paddock, installation: Installation) -> None:
    done = paddock.run(["sleep", "60"], workspace=str(installation.workspace), timeout_s=0.2)
    assert (done.exit_code, done.timed_out) == (124, True)


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"), [(["no-such"], "not-found", 127), (["/etc/passwd"], "not-executable", 126)]
)
def test_a_command_that_cannot_start_is_an_error(
    paddock: Paddock, installation: Installation, argv: list[str], code: str, exit_code: int
) -> None:
    with pytest.raises(UserError) as caught:
        paddock.run(argv, workspace=str(installation.workspace))
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)


def test_runs_side_by_side_in_one_directory(paddock: Paddock, installation: Installation) -> None:
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda n: paddock.run(["echo", str(n)], workspace=str(installation.workspace)), range(16))
        assert [one.stdout for one in done] == [b"%d\n" % n for n in range(16)]


# -- boxes -------------------------------------------------------------------------------------------------------------


def test_a_box_is_made_found_listed_and_removed(paddock: Paddock, installation: Installation) -> None:
    made = paddock.create("mine", workspace=str(installation.workspace), env={"A": "1"})
    assert (made.info.state, made.info.env_names) == (BoxState.CREATED, ("A",))
    assert repr(made) == "<Box mine created>"
    assert [info.name for info in paddock.ls()] == ["mine"]
    assert paddock.get("mine").info.id == made.info.id
    made.remove()
    assert paddock.ls() == []
    with pytest.raises(UserError) as caught:
        paddock.get("mine")
    assert caught.value.code == "no-box"


def test_leaving_a_box_as_a_context_removes_it_running_or_not(paddock: Paddock, installation: Installation) -> None:
    with paddock.create("mine", workspace=str(installation.workspace)) as made:
        made.exec(["true"])
        assert made.refresh().state is BoxState.RUNNING
    assert paddock.ls() == []


def test_a_box_by_name_alone_is_asked_for_only_when_used(paddock: Paddock) -> None:
    named = paddock.named("nobody")
    assert repr(named) == "<Box nobody not asked>"
    with pytest.raises(UserError, match="was not looked up"):
        _ = named.info
    with pytest.raises(UserError) as caught:
        named.exec(["true"])
    assert caught.value.code == "no-box"


def test_a_box_stops_and_starts_with_its_next_command(box: Box) -> None:
    box.exec(["sh", "-c", "echo kept > ~/file"])
    pid = box.refresh().pid
    box.stop()
    assert (box.refresh().state, box.info.pid) == (BoxState.STOPPED, None)
    assert box.exec(["sh", "-c", "cat ~/file"]).stdout == b"kept\n"
    assert box.refresh().pid != pid


def test_the_environment_changes_without_a_restart(box: Box) -> None:
    box.exec(["true"])
    pid = box.refresh().pid
    box.set_env({"A": "1", "B": "2"})
    assert box.exec(["sh", "-c", "echo $A$B"]).stdout == b"12\n"
    box.set_env({"A": "3"}, unset=["B"])
    assert box.exec(["sh", "-c", "echo $A$B"]).stdout == b"3\n"
    assert box.exec(["sh", "-c", "echo $A"], env={"A": "for one command"}).stdout == b"for one command\n"
    assert (box.info.env_names, box.refresh().pid) == (("A",), pid)


def test_prune_and_reset_say_what_they_removed(paddock: Paddock, installation: Installation) -> None:
    for name in ("a", "b"):
        paddock.create(name, workspace=str(installation.workspace))
    stopped = paddock.named("a")
    stopped.exec(["true"])
    stopped.stop()
    assert paddock.prune() == [RemovalInfo(box="a")]
    assert paddock.reset() == [RemovalInfo(box="b")]


def test_a_plan_names_the_workspace(box: Box, installation: Installation) -> None:
    assert any(str(installation.workspace) in line for line in box.plan())


# -- commands ----------------------------------------------------------------------------------------------------------


def test_a_command_has_its_directory_and_its_input(box: Box) -> None:
    assert box.exec(["sh", "-c", "pwd; cat"], cwd="/tmp", stdin=b"in").stdout == b"/tmp\nin"


def test_twenty_megabytes_go_through_cat(box: Box) -> None:
    data = os.urandom(1 << 20) * 20
    done = box.exec(["cat"], stdin=data)
    assert done.stdout == data


def test_input_that_a_command_does_not_read_does_not_keep_it(box: Box) -> None:
    assert box.exec(["true"], stdin=bytes(20 << 20)).exit_code == 0


def test_output_past_the_limit_is_dropped_and_the_command_ends(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "OUTPUT_BYTES_MAX", 1 << 20)
    done = box.exec(["sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"])
    assert done.exit_code == 0
    assert 1 << 20 <= len(done.stdout) < 2 << 20
    assert done.stderr == b"end\n"


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


def test_a_detached_command_runs_on_and_is_journalled(paddock: Paddock, box: Box) -> None:
    job = box.detach(["sh", "-c", "echo out; exit 6"])
    until(lambda: not box.jobs()[0].running, "it ended")
    (info,) = box.jobs()
    assert (info.id, info.argv, info.exit_code) == (job, ("sh", "-c", "echo out; exit 6"), 6)
    found, fds = paddock.journal("sdk", job)
    assert found == info
    assert b"out\n" in os.pread(fds[0], 4096, 0)
    for fd in fds:
        os.close(fd)
    with pytest.raises(UserError) as caught:
        paddock.journal("sdk", "nothing")
    assert caught.value.code == "no-job"


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


def test_the_first_use_of_an_sdk_with_a_home_starts_that_homes_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", "/nonexistent/elsewhere")
    with Paddock(home=str(tmp_path)) as paddock:
        assert paddock.ls() == []
        status = paddock.call("status")
        assert isinstance(status, dict)
        assert status["state"] == f"{tmp_path}/state"
        paddock.call("shutdown")
