"""Runs one verb and turns every error into `error:` and `hint:` lines and an exit code."""

from __future__ import annotations

import os
import sys

from paddock import text
from paddock.errors import PaddockError, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PIPE = 128 + 13
_INTERRUPT = 128 + 2


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    debug = bool(os.environ.get("PADDOCK_DEBUG"))
    try:
        from paddock.cli import parser

        action, options = parser.parse(words)
        code = action(options)
        sys.stdout.flush()
    except PaddockError as error:
        if debug:
            raise
        return fail(error)
    except KeyboardInterrupt:
        return _INTERRUPT
    except BrokenPipeError:
        # Whoever read our output is gone; keep the interpreter from saying so again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE
    return code


def fail(error: PaddockError) -> int:
    print(f"error: {text.neutralise(error.message)}", file=sys.stderr)
    hint = error.hint or (
        "`paddock --help` lists the commands" if isinstance(error, UserError) else "run `paddock doctor`"
    )
    print(f"hint: {text.neutralise(hint)}", file=sys.stderr)
    return error.exit_code


def warn(message: str) -> None:
    print(f"warning: {text.neutralise(message)}", file=sys.stderr)
