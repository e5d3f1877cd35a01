"""A person at a real terminal: what they see, what their keys do, and that the terminal is theirs again afterwards."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import alive, until
from tests.support.terminal import COLS, CTRL_C, CTRL_D, CTRL_Z, DETACH, ROWS, Person

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

PROMPT = b"ready$ "
SHELL_ENV = ("-e", "PROMPT_COMMAND=PS1='ready$ '")  # a prompt that tests can wait for, whatever the profile says


# Prints its terminal's size at each SIGWINCH; a shell would wait for the end of its `read` first.
DRAWING = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("begun", flush=True)
while signal.sigwait([signal.SIGWINCH]):
    print("drawn at %d x %d" % os.get_terminal_size()[::-1], flush=True)
"""
PYTHON = "/usr/bin/python3"


@pytest.fixture
def person(installation: Installation) -> Callable[..., Person]:
    def sit_down(*words: str, env: dict[str, str] | None = None) -> Person:
        return Person(installation, *words, env=env)

    return sit_down


def shell(person: Callable[..., Person], *words: str) -> Person:
    someone = person("run", *SHELL_ENV, *words, "shell", ".")
    someone.sees(PROMPT)
    return someone


# -- what a command sees -----------------------------------------------------------------------------------------------


def test_a_command_has_a_terminal_of_the_callers_size_and_kind(person: Callable[..., Person]) -> None:
    with person("run", "--", "sh", "-c", "stty size; echo $TERM; tty; exit 6", env={"TERM": "xterm-kitty"}) as someone:
        assert someone.leaves() == 6
        assert f"{ROWS} {COLS}\r\nxterm-kitty\r\n/dev/pts/".encode() in someone.output


def test_exec_gives_a_terminal_only_when_asked(person: Callable[..., Person], installation: Installation) -> None:
    installation.cli("create", "box")
    for options, expected in (((), b"not a tty"), (("-t",), b"/dev/pts/"), (("-it",), b"/dev/pts/")):
        with person("exec", *options, "box", "tty") as someone:
            someone.leaves()
            assert expected in someone.output


def test_a_terminal_without_a_kind_gets_a_usual_one(person: Callable[..., Person]) -> None:
    with person("run", "--", "sh", "-c", "echo kind=$TERM", env={"TERM": ""}) as someone:
        assert someone.leaves() == 0
        assert b"kind=xterm-256color\r\n" in someone.output


def test_a_new_size_reaches_the_command(person: Callable[..., Person]) -> None:
    with person("run", "--", PYTHON, "-c", DRAWING) as someone:
        someone.sees(b"begun")
        someone.resize(41, 132)
        someone.sees(b"drawn at 41 x 132")
        someone.resize(ROWS, COLS)
        someone.sees(f"drawn at {ROWS} x {COLS}".encode())
        someone.type(CTRL_C)
        assert someone.leaves() == 128 + signal.SIGINT


def test_the_tier_and_the_box_are_named(person: Callable[..., Person]) -> None:
    with person("run", "--", "true") as someone:
        someone.leaves()
        tier = b"container" if contract.current().template else b"process"
        tier = b"gvisor" if contract.own_kernel() else tier
        assert someone.output.startswith(b"paddock: %s box run-workspace, network: deny\r\n" % tier)
    with person("run", "-q", "--", "true") as someone:
        someone.leaves()
        assert someone.output == b""


# -- keys --------------------------------------------------------------------------------------------------------------


def test_ctrl_c_goes_to_the_command(person: Callable[..., Person]) -> None:
    with person("run", "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; read x") as someone:
        someone.sees(b"ready")
        someone.type(CTRL_C)
        assert someone.leaves() == 3
        assert b"caught" in someone.output


def test_ctrl_c_ends_a_command_that_floods_the_terminal(person: Callable[..., Person]) -> None:
    with person("run", "--", "yes") as someone:
        someone.sees(b"y\r\n" * 100)
        someone.type(CTRL_C)
        assert someone.leaves() == 128 + signal.SIGINT


def test_ctrl_z_stops_a_job_of_the_shell_in_the_box(person: Callable[..., Person]) -> None:
    with shell(person) as someone:
        someone.enter("echo begin$((1)); cat")
        someone.sees(b"begin1")
        someone.enter("echoed")
        someone.sees(b"echoed\r\nechoed")
        someone.type(CTRL_Z)
        someone.sees(PROMPT)
        someone.enter("fg")
        someone.sees(b"\rcat\r\n")
        someone.enter("once more")
        someone.sees(b"once more\r\nonce more")
        someone.type(CTRL_C)
        someone.sees(PROMPT)
        someone.enter("exit 4")
        assert someone.leaves() == 4


def test_ctrl_d_ends_the_input(person: Callable[..., Person]) -> None:
    with person("run", "--", "sh", "-c", "cat; echo end") as someone:
        someone.enter("line")
        someone.sees(b"line\r\nline\r\n")
        someone.type(CTRL_D)
        assert someone.leaves() == 0
        assert someone.output.endswith(b"end\r\n")


def test_a_full_screen_program_gets_each_key_at_once_and_unechoed(person: Callable[..., Person]) -> None:
    script = "stty raw -echo; printf READY; dd bs=1 count=4 2>/dev/null | od -An -tx1; stty sane"
    with person("run", "--", "sh", "-c", script) as someone:
        someone.sees(b"READY")
        someone.type(b"\x1b\x03\x04x")
        assert someone.leaves() == 0
        assert someone.output.split(b"READY")[1].split() == [b"1b", b"03", b"04", b"78"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_to_the_cli_reaches_the_command(person: Callable[..., Person], number: signal.Signals) -> None:
    script = f"trap 'echo got it; exit 7' {number.name.removeprefix('SIG')}; echo ready; read x"
    with person("run", "--", "sh", "-c", script) as someone:
        someone.sees(b"ready")
        someone.signal(number)
        assert someone.leaves() == 7
        assert b"got it" in someone.output


def test_a_command_that_does_not_listen_is_killed_by_the_third_interrupt(installation: Installation) -> None:
    process = installation.spawn("run", "--", "sh", "-c", "trap 'echo no' INT; echo ready; while :; do sleep 0.1; done")
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"ready\n"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == b"no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 128 + signal.SIGKILL


# -- leaving and coming back -------------------------------------------------------------------------------------------


def test_an_agent_is_left_running_and_found_again(person: Callable[..., Person], installation: Installation) -> None:
    with shell(person) as someone:
        someone.enter("here=still; echo kept > ~/file")
        someone.sees(PROMPT)
        someone.type(DETACH)
        assert someone.leaves() == 0
        assert b"detached; `paddock run shell-workspace` returns" in someone.output
    assert installation.cli("ls", "-q").stdout == b"shell-workspace\n"

    for way in (("run", "shell", "."), ("run", "shell-workspace")):
        with person(*way) as someone:
            someone.enter("echo it is $here")
            someone.sees(b"it is still\r\n")
            someone.type(DETACH)
            assert someone.leaves() == 0

    with person("run", "shell", ".") as someone:
        someone.enter("exit 9")
        assert someone.leaves() == 9
    assert installation.cli("exec", "shell-workspace", "cat", "/home/agent/file").stdout == b"kept\n"


def test_who_comes_back_sees_the_screen_drawn_again(person: Callable[..., Person], installation: Installation) -> None:
    (installation.workspace / "drawing.py").write_text(DRAWING)
    with shell(person) as someone:
        someone.enter(f"{PYTHON} drawing.py")
        someone.sees(b"begun")
        someone.type(DETACH)
        someone.leaves()
    with person("run", "shell", ".") as someone:
        someone.sees(f"drawn at {ROWS} x {COLS}".encode())
        someone.type(DETACH)
        someone.leaves()


def test_while_someone_sits_there_another_gets_a_session_of_their_own(person: Callable[..., Person]) -> None:
    with shell(person) as first:
        first.enter("who=first")
        first.sees(PROMPT)
        with shell(person) as second:
            second.enter("echo who=[$who]")
            second.sees(b"who=[]")
            second.enter("exit")
            assert second.leaves() == 0
        first.enter("echo who=[$who]; exit")
        first.sees(b"who=[first]")
        assert first.leaves() == 0


def test_what_an_agent_wrote_while_nobody_looked_is_in_its_journal(
    person: Callable[..., Person], installation: Installation
) -> None:
    with shell(person) as someone:
        someone.enter("sleep 0.3; echo in the$((1 + 1)) dark")
        someone.type(DETACH)
        someone.leaves()
    until(lambda: b"in the2 dark" in installation.cli("logs", "shell-workspace").stdout, "it was journalled")


def test_a_lost_terminal_leaves_an_agent_running(person: Callable[..., Person], installation: Installation) -> None:
    with shell(person) as someone:
        someone.enter("here=still")
        someone.sees(PROMPT)
        someone.hang_up()
    with person("run", "shell", ".") as someone:
        someone.enter("echo it is $here; exit")
        someone.sees(b"it is still\r\n")
        assert someone.leaves() == 0


def test_a_lost_terminal_ends_a_command(person: Callable[..., Person], installation: Installation) -> None:
    with person("run", "--", "sh", "-c", "trap '' HUP; echo ready; while :; do sleep 0.1; echo more; done") as someone:
        someone.sees(b"ready")
        someone.hang_up()
        until(lambda: installation.cli("ls", "-q").stdout == b"", "the box of a command nobody sees is gone")


def test_a_detached_box_is_not_removed_by_rm(person: Callable[..., Person], installation: Installation) -> None:
    with shell(person, "--rm") as someone:
        someone.type(DETACH)
        assert someone.leaves() == 0
    assert installation.cli("ls", "-q").stdout == b"shell-workspace\n"
    with person("run", "--rm", "shell-workspace") as someone:
        someone.enter("exit 5")
        assert someone.leaves() == 5
    assert installation.cli("ls", "-q").stdout == b""


# -- the terminal afterwards -------------------------------------------------------------------------------------------
MESS = r"\033[?1049h\033[?1003h\033[?2004h\033[?25l\033[5;10r\033=drawn"
RESTORED = (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?25h", b"\x1b[r", b"\x1b>")


def init_pid(installation: Installation) -> int:
    with installation.sdk() as sdk:
        pid = sdk.ls()[0].pid
    assert pid is not None
    return pid


@pytest.mark.parametrize("name", [(), ("--name", "kept")])
def test_after_a_killed_box_the_terminal_is_as_it_was(
    person: Callable[..., Person], installation: Installation, name: tuple[str, ...]
) -> None:
    with person("run", *name, "--", "sh", "-c", f"stty raw; printf '{MESS}'; exec cat") as someone:
        someone.sees(b"drawn")
        assert someone.is_raw(), "the oracle: the terminal is not as it was"
        pid = init_pid(installation)
        os.kill(pid, signal.SIGKILL)
        assert someone.leaves() == 128 + signal.SIGKILL
        assert someone.modes() == someone.before
        after = someone.output.split(b"drawn")[1]
        assert all(piece in after for piece in RESTORED)
        why = b"its first process ended unexpectedly" if name else b"it was stopped"
        assert b" ended: " + why + b"\r\nhint: " in after
        assert after.rindex(b"\x1b") < after.index(b"error: ")
    until(lambda: not alive(pid), "the box is gone")


def test_after_a_command_that_made_a_mess_the_terminal_is_as_it_was(person: Callable[..., Person]) -> None:
    with person("run", "--", "sh", "-c", f"stty raw; printf '{MESS}'; exit 2") as someone:
        assert someone.leaves() == 2
        assert someone.modes() == someone.before
        assert all(piece in someone.output.split(b"drawn")[1] for piece in RESTORED)


def test_a_plain_command_adds_nothing_to_its_output(person: Callable[..., Person]) -> None:
    with person("run", "-q", "--", "echo", "plain") as someone:
        assert someone.leaves() == 0
        assert someone.output == b"plain\r\n"


def test_after_a_stop_the_terminal_is_raw_again(person: Callable[..., Person]) -> None:
    with person("run", "--", "cat") as someone:
        until(someone.is_raw, "the terminal is raw")
        someone.signal(signal.SIGSTOP)
        someone.set_modes(someone.before)
        someone.signal(signal.SIGCONT)
        until(someone.is_raw, "the terminal is raw again")
        someone.type(CTRL_C)
        assert someone.leaves() == 128 + signal.SIGINT
        assert someone.modes() == someone.before


# -- what a box may print ----------------------------------------------------------------------------------------------
CLIPBOARD = b"\x1b]52;c;cGFkZG9jaw==\x07"
REQUESTS = b"\x1b[6n\x1b[c\x1b[5n\x1b]11;?\x07\x1bP$qm\x1b\\\x1b[21t"


def test_clipboard_writes_and_requests_pass_a_pipe_but_no_terminal(
    person: Callable[..., Person], installation: Installation
) -> None:
    hostile = b"one " + CLIPBOARD + b"two " + REQUESTS + b"\x1b[31mred\x1b[m three"
    (installation.workspace / "data").write_bytes(hostile)
    assert installation.cli("run", "--", "cat", "data").stdout == hostile, "the oracle: a pipe is byte-exact"
    installation.cli("create", "box")
    for words in (("run", "-q", "--"), ("exec", "box"), ("exec", "-it", "box")):
        with person(*words, "cat", "data") as someone:
            assert someone.leaves() == 0
            assert someone.output.startswith(b"one two \x1b[31mred\x1b[m three")
            assert CLIPBOARD not in someone.output


def test_a_journal_on_a_terminal_is_filtered_too(person: Callable[..., Person], installation: Installation) -> None:
    (installation.workspace / "data").write_bytes(b"one " + CLIPBOARD + b"two\n")
    installation.cli("run", "-d", "--name", "box", "--", "cat", "data")
    until(lambda: b"two" in installation.cli("logs", "box").stdout, "it is journalled")
    assert installation.cli("logs", "box").stdout == b"one " + CLIPBOARD + b"two\n", "the oracle: a pipe is byte-exact"
    with person("logs", "box") as someone:
        assert someone.leaves() == 0
        assert someone.output == b"one two\r\n"


REDUCED = b"warning: your locale is not in UTF-8: some characters were left out; LANG=C.UTF-8 shows them\r\n"


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ({"LANG": "C.UTF-8"}, "caf\u00e9 \u011b".encode()),
        ({"LANG": "C.UTF-8", "LC_ALL": "de_DE.ISO-8859-1"}, b"caf\xc3\xa9 \xc4" + REDUCED),
        ({"LANG": "C"}, b"caf\xc3\xa9 \xc4" + REDUCED),
        ({"LANG": ""}, b"caf\xc3\xa9 \xc4" + REDUCED),
    ],
)
def test_where_the_terminal_may_not_read_utf8_no_control_hides_in_it(
    person: Callable[..., Person], installation: Installation, locale: dict[str, str], shown: bytes
) -> None:
    # The second byte of U+011B is 9B, which is CSI to a terminal that does not read UTF-8.
    (installation.workspace / "data").write_bytes("caf\u00e9 \u011b".encode())
    with person("run", "-q", "--", "cat", "data", env=locale) as someone:
        assert someone.leaves() == 0
        assert someone.output == shown
