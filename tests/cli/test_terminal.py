"""The person's own terminal: its size, its character set, raw mode and the way back."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from paddock.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pty() -> Iterator[tuple[int, int]]:
    master, slave = os.openpty()
    yield master, slave
    for fd in (master, slave):
        try:
            os.close(fd)
        except OSError:
            continue


@pytest.mark.parametrize(
    ("environ", "is_utf8"),
    [
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "de_DE.UTF-8@euro"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "C"}, False),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "LC_ALL": "POSIX"}, False),
        ({"LANG": "C.UTF-8", "LC_ALL": ""}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "de_DE@euro"}, False),
        ({"LANG": "ja_JP.eucJP"}, False),
        ({"LANG": "UTF-8"}, False),
        ({}, False),
    ],
)
def test_the_locale_says_whether_a_terminal_reads_utf8(environ: dict[str, str], is_utf8: bool) -> None:
    assert terminal.is_utf8(environ) is is_utf8


def test_the_first_environment_is_the_callers() -> None:
    """In the C locale Python changes os.environ: that is what this is for."""
    code = "import os, sys; sys.path.insert(0, sys.argv[1]); from paddock.cli import terminal as t; "
    code += "print(os.environ.get('LC_CTYPE'), t.first_environment().get('LC_CTYPE'))"
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(terminal.__file__))))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, source], env={"LANG": "C"}, capture_output=True, check=True
    )
    assert done.stdout == b"C.UTF-8 None\n"


def test_the_size_is_that_of_the_terminal(pty: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from paddock.cli import terminal as t; "
    code += "print(t.size(), t.is_terminal(), file=sys.stderr)"
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(terminal.__file__))))
    fcntl.ioctl(pty[1], termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    argv = [sys.executable, "-I", "-c", code, source]
    for stdin, stdout, said in (
        (pty[1], pty[1], b"(33, 111) True\n"),
        (pty[1], subprocess.DEVNULL, b"(33, 111) False\n"),
        (subprocess.DEVNULL, subprocess.DEVNULL, b"(24, 80) False\n"),
    ):
        done = subprocess.run(argv, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=True)
        assert done.stderr == said


def test_raw_mode_is_entered_and_left(pty: tuple[int, int]) -> None:
    before = termios.tcgetattr(pty[1])
    with terminal.RawMode(pty[1]) as raw:
        assert not termios.tcgetattr(pty[1])[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
        assert repr(raw) == f"<RawMode of {pty[1]}>"
    assert termios.tcgetattr(pty[1]) == before


def test_what_was_typed_ahead_is_kept(pty: tuple[int, int]) -> None:
    os.write(pty[0], b"ahead\n")
    with terminal.RawMode(pty[1]):
        assert os.read(pty[1], 100) == b"ahead\n"


def test_a_terminal_that_is_gone_is_no_accident(pty: tuple[int, int]) -> None:
    with terminal.RawMode(pty[1]) as raw:
        os.close(pty[0])
        raw.enter()
