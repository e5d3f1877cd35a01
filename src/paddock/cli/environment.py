"""-e, --env-file and what of the caller's own environment goes along. Every `exec` loads this: it stays light."""

from __future__ import annotations

import os

from paddock.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_PASSED = ("LANG", "LANGUAGE", "TZ", "COLORTERM", "NO_COLOR")  # how the caller reads and shows text
_LOCALE = "LC_"
_AT_TERMINAL = ("EDITOR", "VISUAL")  # the box has them if it has the program
_TERM = "xterm-256color"
_FILE_BYTES = 1 << 20


def chosen(options: argparse.Namespace) -> dict[str, str]:
    """What -e and --env-file say, the former last."""
    values: dict[str, str] = {}
    for path in options.env_file:
        values.update(_file(path))
    for word in options.env:
        key, value = pair(word)
        values[key] = value
    return values


def pair(word: str) -> tuple[str, str]:
    """K=V, or K alone with the caller's value."""
    key, equals, value = word.partition("=")
    if equals:
        return key, value
    if key not in os.environ:
        raise UserError(f"{key!r} is not set in your environment", hint=f"give a value: {key}=...", code="no-env")
    return key, os.environ[key]


def of_terminal(*, is_tty: bool) -> dict[str, str]:
    """The caller's locale and time zone; and for a terminal its kind, and the editor of who sits there."""
    passed = {*_PASSED, *(_AT_TERMINAL if is_tty else ())}
    env = {key: value for key, value in os.environ.items() if value and (key in passed or key.startswith(_LOCALE))}
    if is_tty:
        env["TERM"] = os.environ.get("TERM") or _TERM
    return env


def _file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_FILE_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(
            f"cannot read the env file {path!r}: {reason}", hint="give a file of K=V lines", code="bad-env-file"
        ) from error
    if len(text) > _FILE_BYTES:
        raise UserError(f"the env file {path!r} is over 1 MiB", hint="give a file of K=V lines", code="bad-env-file")
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            message = f"{path}:{number}: {stripped[:40]!r} is not K=V"
            raise UserError(message, hint="one K=V a line; # begins a comment", code="bad-env-file")
        values[key.strip()] = value
    return values
