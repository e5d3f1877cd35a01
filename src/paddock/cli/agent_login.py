"""secret login: an agent's own program gets a long-lived token on your terminal, and we keep it instead of showing it.

The program runs outside of every box, as if you had started it. What it prints is passed on but for the token. Its
terminal is wide, so that it does not break the token into lines.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import sys
import termios
from dataclasses import dataclass
from typing import Final

from paddock import proc, text
from paddock.cli import secrets, terminal
from paddock.errors import Unavailable, UserError
from paddock.secrets.binding import Words, bind
from paddock.secrets.sources import program_of
from paddock.secrets.withheld import Withheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from paddock.secrets.value import Secret

_COLUMNS: Final = 500
_END_S: Final = 10.0  # from the end of its output to its own
_PIECE_BYTES: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    program: str
    words: tuple[str, ...]
    prefix: bytes  # of its tokens


WAYS: Final = {"claude": Way(program="claude", words=("setup-token",), prefix=b"sk-ant-oat")}


def login(options: argparse.Namespace) -> int:
    way = WAYS.get(options.name)
    if way is None:
        hint = f"one of {', '.join(WAYS)}; for others `paddock secret set NAME`"
        raise UserError("this agent has no long-lived token to get", hint=hint, code="usage")
    if not terminal.is_terminal():
        raise UserError("a login needs a terminal", hint="run it in one", code="no-tty")
    program = program_of(os.path.abspath(options.program) if options.program else way.program, os.environ)
    if not program:
        shown = text.neutralise(options.program or way.program, 80)
        hint = f"install it, or give its place: --program /path/to/{way.program}"
        raise UserError(f"there is no program '{shown}'", hint=hint, code="usage")
    daemon = secrets.greet()
    store = secrets.open_store()
    token = _token([program, *way.words], Withheld(way.prefix))
    before = store.find(options.name)
    record = store.put(before.binding if before else bind(options.name, Words()), token)
    print(text.neutralise(secrets.said_of(record), 4 * text.LINE_CHARS))
    secrets.tell_boxes(daemon, [options.name])
    return 0


def _token(argv: list[str], output: Withheld) -> Secret:
    code = _run(argv, output)
    if code:
        raise Unavailable(f"{argv[0]!r} ended with {code}; nothing was kept", hint="see what it said", code="login")
    found = output.tokens()
    if len(found) != 1:
        what = "no token" if not found else f"{len(found)} tokens"
        hint = "run it yourself, and give the token to `paddock secret set`"
        raise Unavailable(f"{argv[0]!r} printed {what}; nothing was kept", hint=hint, code="login")
    return found[0]


def _run(argv: list[str], output: Withheld) -> int:
    """To its end, on a terminal of its own behind ours."""
    near, far = os.openpty()
    try:
        rows, columns = terminal.size()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, max(columns, _COLUMNS), 0, 0))
        child = proc.spawn_on_terminal(argv, env=dict(os.environ), terminal=far)
        os.close(far)
        far = -1
        with child, terminal.RawMode(0):
            _relay(near, output)
            code = child.wait(_END_S)
    finally:
        os.close(near)
        if far >= 0:
            os.close(far)
    return 1 if code is None else code


def _relay(near: int, output: Withheld) -> None:
    """Keys there and what is printed back, until the program closes its terminal."""
    watched = [0, near]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            keys = os.read(0, _PIECE_BYTES)
            if keys:
                _write(near, keys)
            else:
                watched.remove(0)
        if near in ready:
            data = _read(near)
            _write(1, output.feed(data) if data else output.finish())
            if not data:
                sys.stdout.flush()
                return


def _read(near: int) -> bytes:
    try:
        return os.read(near, _PIECE_BYTES)
    except OSError as error:
        if error.errno != errno.EIO:  # the far end has no one left
            raise
        return b""


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
