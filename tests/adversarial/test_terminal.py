"""TERM-01, TERM-02, TERM-04: what a box writes cannot make the user's terminal act, and pipes stay byte-exact."""

from __future__ import annotations

import termios
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.attack import PYTHON, Terminal

if TYPE_CHECKING:
    from paddock.client import Box
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

# What makes a terminal write a clipboard, type an answer, or take a program: none of it arrives.
ACTS = {
    "clipboard": b"\x1b]52;c;c2VjcmV0\x07",
    "clipboard, other end": b"\x1b]52;p;c2VjcmV0\x1b\\",
    "clipboard, 8 bit": b"\xc2\x9d52;c;c2VjcmV0\xc2\x9c",
    "clipboard asked for": b"\x1b]52;c;?\x07",
    "device control": b'\x1bP$q"p\x1b\\',
    "tmux passthrough": b"\x1bPtmux;\x1b\x1b]52;c;c2VjcmV0\x07\x1b\\",
    "cursor report": b"\x1b[6n",
    "attributes report": b"\x1b[c",
    "secondary attributes": b"\x1b[>c",
    "window report": b"\x1b[21t",
    "answerback": b"\x05",
    "colour asked for": b"\x1b]10;?\x07",
}
SPLIT = """
import sys, time
for byte in bytes.fromhex(sys.argv[1]):
    sys.stdout.buffer.write(bytes([byte]))
    sys.stdout.flush()
    time.sleep(0.002)
"""


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "byte by byte"])
def test_a_terminal_is_not_told_to_act(box: Box, installation: Installation, act: bytes, whole: bool) -> None:
    text = b"before" + act + b"after"
    argv = [PYTHON, "-I", "-c", "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))" if whole else SPLIT]
    terminal = Terminal(installation, "exec", "-t", "target", *argv, text.hex())
    assert terminal.finish() == 0
    assert act not in terminal.seen
    assert b"c2VjcmV0" not in terminal.seen
    assert b"before" in terminal.seen
    assert b"after" in terminal.seen


def test_colours_and_cursor_movement_pass(box: Box, installation: Installation) -> None:
    """The oracle: the filter drops acts, not everything that begins with an escape."""
    terminal = Terminal(installation, "exec", "-t", "target", "printf", "\\033[31mred\\033[0m\\033[2;3Hthere")
    assert terminal.finish() == 0
    assert b"\x1b[31mred\x1b[0m\x1b[2;3Hthere" in terminal.seen


def test_a_pipe_gets_every_byte(installation: Installation, box: Box) -> None:
    text = b"".join(ACTS.values()) + bytes(range(256)) * 4
    program = "import sys; d = bytes.fromhex(sys.argv[1]); sys.stdout.buffer.write(d); sys.stderr.buffer.write(d)"
    done = installation.cli("exec", "target", PYTHON, "-I", "-c", program, text.hex())
    assert (done.stdout, done.stderr) == (text, text)


def test_the_terminal_is_as_before_when_the_box_is_gone(installation: Installation) -> None:
    program = "printf '\\033[?1049h\\033[?1000h\\033[?2004h\\033[?25l'; stty raw -echo; kill -9 $$"
    terminal = Terminal(installation, "run", "--", "sh", "-c", program)
    before = termios.tcgetattr(terminal.master)
    assert terminal.finish(close=False) == 137
    after = termios.tcgetattr(terminal.master)
    terminal.close()
    assert after == before
    for mode in (b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert mode in terminal.seen, terminal.seen


def test_names_and_errors_from_a_box_are_harmless_in_our_own_lines(box: Box, installation: Installation) -> None:
    name = "evil\x1b]0;owned\x07\n\u202e"
    for words in (
        ["exec", "target", name],
        ["exec", "-w", f"/{name}", "target", "true"],
        ["cp", f"target:/{name}", "x"],
    ):
        done = installation.cli(*words)
        assert done.returncode not in {0, 1}
        assert done.stderr.count(b"\n") == 2
        assert all(32 <= byte < 127 or byte == 10 for byte in done.stderr), done.stderr
