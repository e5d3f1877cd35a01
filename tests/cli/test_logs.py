"""logs: the two files of a journal in their order, byte for byte, however broken or hostile they are."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.cli.attach import Screens
from paddock.cli.logs import _Printer
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.installation import Installation


def segment(number: object, *pieces: bytes) -> bytes:
    return frames.encode_message({"event": "segment", "sequence": number, "dropped": 0}) + b"".join(pieces)


def out(text: bytes) -> bytes:
    return frames.encode(frames.STDOUT, text)


EXIT = frames.encode_message({"event": "exit", "code": 0})


@pytest.fixture
def read(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[bytes, bytes, bool]]:
    """Print a journal; returns what went out and whether its end was seen."""

    def printed(*files: bytes) -> tuple[bytes, bytes, bool]:
        fds = []
        for number, content in enumerate(files):
            (tmp_path / str(number)).write_bytes(content)
            fds.append(os.open(tmp_path / str(number), os.O_RDONLY))
        with Screens() as screens:
            printer = _Printer(fds, screens)
            printer.print_new()
        for fd in fds:
            os.close(fd)
        captured = capfdbinary.readouterr()
        return captured.out, captured.err, printer.ended

    return printed


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((segment(0, out(b"one"), EXIT), b""), (b"one", b"", True)),
        ((segment(0, out(b"one")), b""), (b"one", b"", False)),
        ((segment(0, out(b"one")), segment(1, out(b"two"), EXIT)), (b"onetwo", b"", True)),
        ((segment(4, out(b"two"), EXIT), segment(3, out(b"one"))), (b"onetwo", b"[older output was dropped]\n", True)),
        ((segment(0, frames.encode(frames.STDERR, b"err"), EXIT), b""), (b"", b"err", True)),
        ((segment(0, out(b"\x1b]52;c;aGk=\x07\xff\0"), EXIT), b""), (b"\x1b]52;c;aGk=\x07\xff\0", b"", True)),
        ((b"", b""), (b"", b"", False)),
    ],
)
def test_a_journal_is_read_in_its_order(
    read: Callable[..., tuple[bytes, bytes, bool]], files: tuple[bytes, ...], expected: tuple[bytes, bytes, bool]
) -> None:
    assert read(*files) == expected


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ((segment(0, out(b"one"))[:-1], b""), b""),  # torn: its end may still come
        ((segment("0", out(b"one")), b""), b""),
        ((segment(True, out(b"one")), b""), b""),
        ((out(b"no header"), b""), b""),
        ((b"\xff" * 5000, b"\0" * 5000), b""),
        ((segment(0, out(b"one"), b"\xff" * 50), segment(1, out(b"two"))), b"one"),
        ((segment(0, out(b"one"), frames.encode(frames.MESSAGE, b"{{"), out(b"two")), b""), b"one"),
        ((segment(0, frames.encode(frames.FILE, b"x"), frames.encode(frames.STDIN, b"y")), b""), b""),
    ],
)
def test_a_torn_or_forged_journal_shows_only_what_is_whole(
    read: Callable[..., tuple[bytes, bytes, bool]], files: tuple[bytes, ...], shown: bytes
) -> None:
    assert read(*files)[0].startswith(shown)
    assert b"Traceback" not in read(*files)[1]


def test_a_command_that_could_not_start_says_so_harmlessly(read: Callable[..., tuple[bytes, bytes, bool]]) -> None:
    refused = frames.encode_message({"event": "error", "code": "not-found", "message": "\x1b[31mx: not found"})
    assert read(segment(0, refused), b"") == (b"", b"error: \\x1b[31mx: not found\n", True)


def test_a_journal_is_followed_through_its_turns(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """As init writes it: each file in turn, the older one emptied when the newer is full."""
    paths = [tmp_path / "0", tmp_path / "1"]
    for path in paths:
        path.write_bytes(b"")
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    with Screens() as screens:
        printer = _Printer(fds, screens)
        for number in range(7):
            target = paths[number % 2]
            target.write_bytes(segment(number, out(b"%d " % number)))
            printer.print_new()
            with target.open("ab") as file:
                file.write(out(b"more "))
            printer.print_new()
        with paths[0].open("ab") as file:
            file.write(EXIT)
        printer.print_new()
    for fd in fds:
        os.close(fd)
    assert capfdbinary.readouterr() == (b"".join(b"%d more " % number for number in range(7)), b"")
    assert printer.ended


# -- with real boxes ---------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_a_job_is_followed_to_its_end(installation: Installation) -> None:
    os.mkfifo(installation.workspace / "fifo")
    script = "echo begun; read x < fifo; echo $x; echo err >&2"
    job = installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", script).stdout.decode().strip()
    with installation.spawn("logs", "-f", job) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == b"begun\n"
        (installation.workspace / "fifo").write_text("goes on\n")
        assert follower.stdout.read() == b"goes on\n"
        assert follower.stderr.read() == b"err\n"
        assert follower.wait(20) == 0
    assert installation.cli("logs", "box").stdout == b"begun\ngoes on\n"


@pytest.mark.box
def test_the_newest_job_is_shown_unless_one_is_named(installation: Installation) -> None:
    first = installation.cli("run", "-d", "--name", "box", "--", "echo", "first").stdout.decode().strip()
    until(lambda: installation.cli("logs", first).stdout == b"first\n", "the first is journalled")
    installation.cli("exec", "-d", "box", "echo", "second")
    until(lambda: installation.cli("logs", "box").stdout == b"second\n", "the second is journalled")
    assert installation.cli("logs", first).stdout == b"first\n"
    listed = installation.cli("logs", "--list", "box").stdout.decode().splitlines()
    assert [line.split()[-1] for line in listed] == ["COMMAND", "first", "second"]


@pytest.mark.box
def test_a_job_of_a_killed_run_is_not_running_again_with_its_box(installation: Installation) -> None:
    job = installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", "echo begun; sleep 600").stdout.decode()
    until(lambda: installation.cli("logs", job.strip()).stdout == b"begun\n", "it runs")
    with installation.sdk() as sdk:
        pid = sdk.get("box").info.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the box is gone")
    until(lambda: b"failed" in installation.cli("ls").stdout, "its end is known")
    assert installation.cli("exec", "box", "true").returncode == 0
    assert b" ended " in installation.cli("logs", "--list", "box").stdout
    assert installation.cli("logs", "-f", job.strip(), timeout_s=20).stdout == b"begun\n"


@pytest.mark.box
def test_commands_in_the_list_are_harmless(installation: Installation) -> None:
    installation.cli("run", "-d", "--name", "box", "--", "echo", "a\x1b]0;title\x07\nb")
    listed = installation.cli("logs", "--list", "box").stdout
    assert b"echo a\\x1b]0;title\\x07\\nb\n" in listed


@pytest.mark.box
def test_a_box_without_jobs_says_how_to_get_one(installation: Installation) -> None:
    installation.cli("create", "box")
    done = installation.cli("logs", "--list", "box")
    assert (done.stdout, done.returncode) == (b"", 0)
    assert done.stderr.startswith(b"no journalled commands")
    assert installation.cli("logs", "box").returncode == 2


@pytest.mark.box
def test_who_interrupts_following_leaves_the_job_alone(installation: Installation) -> None:
    installation.cli("run", "-d", "--name", "box", "--", "sh", "-c", "echo begun; sleep 600")
    with installation.spawn("logs", "-f", "box") as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == b"begun\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 128 + signal.SIGINT
        assert follower.stderr.read() == b""
    assert b"running" in installation.cli("logs", "--list", "box").stdout
