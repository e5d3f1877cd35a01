"""Runs one verb and turns every error into `error:` and `hint:` lines and an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys

from paddock.errors import PaddockError, Unavailable, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import TextIO

_PIPE = 128 + 13
_INTERRUPT = 128 + 2
_GARBAGE_AFTER = 50_000
_LINE_CHARS = 600  # two paths of some length and what is wrong with them
_REPORT = "please report it, with what PADDOCK_DEBUG=1 shows"

# What init says about a command has no hint of its own: it does not know who asks.
_HINTS = {
    "not-found": "a box has the host's /usr and your toolchains, or its template: see `paddock inspect --plan BOX`; "
    "agents that it lacks come by `paddock agent install NAME`",
    "not-executable": "it needs to be a program, or a script with execute permission",
    "bad-cwd": "-w names a directory inside the box",
}
_EXIT_CODES = {"not-found": 127, "not-executable": 126, "bad-cwd": 126}  # as shells


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    gc.set_threshold(_GARBAGE_AFTER)  # what is loaded is no garbage, and looking for some takes 5 ms of a start
    _prepare_standard_streams()
    try:
        from paddock.cli import parser

        action, options = parser.parse(words)
        code = action(options)
        for _, stream in _streams():
            stream.flush()
    except KeyboardInterrupt:
        return _INTERRUPT
    except BrokenPipeError:
        return _discard_output(_PIPE)
    except SystemExit as leaving:  # argparse, after --help
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:
        if os.environ.get("PADDOCK_DEBUG"):
            raise
        return _discard_output(fail(_translate(error)))
    return code


def _prepare_standard_streams() -> None:
    # A caller may start us with 0, 1 or 2 closed: the next file or socket we open must not become one of them.
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(fd)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path may hold what the locale has no character for
        sys.stdout.reconfigure(errors="backslashreplace")


def _streams() -> list[tuple[int, TextIO]]:
    return [(fd, stream) for fd, stream in ((1, sys.stdout), (2, sys.stderr)) if stream is not None]  # None: was closed


def _discard_output(code: int) -> int:
    """Whoever read our output is gone, or it cannot be written: keep the interpreter from saying so again at exit."""
    for fd, stream in _streams():
        try:
            stream.flush()
        except OSError:
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, fd)
            os.close(void)
    return code


def _translate(error: Exception) -> PaddockError:
    match error:
        case PaddockError():
            return error
        case OSError():
            where = f" {error.filename}" if error.filename else ""
            return Unavailable(f"{error.strerror or error}{where}", hint="run `paddock doctor`", code="os")
        case _:
            return Unavailable(f"{type(error).__name__}: {error}", hint=_REPORT, code="bug")


def fail(error: PaddockError) -> int:
    from paddock import text

    usual = "`paddock --help` lists the verbs" if isinstance(error, UserError) else "run `paddock doctor`"
    hint = error.hint or _HINTS.get(error.code, usual)
    _say(f"error: {text.neutralise(error.message, _LINE_CHARS)}\nhint: {text.neutralise(hint, _LINE_CHARS)}")
    return _EXIT_CODES.get(error.code, error.exit_code)


def warn(message: str) -> None:
    from paddock import text

    _say(f"warning: {text.neutralise(message, _LINE_CHARS)}")


def tell(lines: Iterable[str], options: argparse.Namespace) -> None:
    """What we have to say of a box, unless it is to be quiet."""
    from paddock import text

    for line in lines if not getattr(options, "quiet", False) else ():
        print(f"paddock: {text.neutralise(line, 4 * text.LINE_CHARS)}", file=sys.stderr)


def say_open(network: str) -> None:
    """Observe mode lets everything through, to learn what is used: nobody may overlook that."""
    if network == "observe":
        warn("OBSERVE MODE IS OPEN: this box reaches every public host; rules only note what they would refuse")


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody is there to read it; the exit code still tells
