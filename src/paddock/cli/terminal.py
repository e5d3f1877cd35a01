"""The person's own terminal: its size, its character set, raw mode and the way back."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_USUAL_SIZE = (24, 80)


def is_terminal() -> bool:
    """Whether a person types to us and reads what we print."""
    return os.isatty(0) and os.isatty(1)


def size() -> tuple[int, int]:
    """Rows and columns."""
    for fd in (1, 0, 2):
        try:
            rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            continue
        if rows and cols:
            return rows, cols
    return _USUAL_SIZE


def is_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the caller's locale, and so their terminal, is in UTF-8.

    In doubt no: to any other terminal each byte from 80 to 9F is a control, and text could hide one from the filter.
    The terminal's own IUTF8 flag says nothing: recent kernels set it on all of them.
    """
    locale = next((value for key in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(key))), "")
    charset = locale.partition("@")[0].partition(".")[2]
    return charset.lower().replace("-", "") == "utf8"


def first_environment() -> dict[str, str]:
    """As our caller gave it: where the locale is C, Python has since made it C.UTF-8 in os.environ (PEP 538)."""
    with open("/proc/self/environ", encoding="utf-8", errors="surrogateescape") as file:
        pairs = (word.partition("=") for word in file.read().split("\0"))
    return {key: value for key, _, value in pairs}


class RawMode:
    """Keys go to the box one by one, also ctrl-c; leaving it puts the terminal back as it was."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved = termios.tcgetattr(fd)

    def __repr__(self) -> str:
        return f"<RawMode of {self._fd}>"

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        except termios.error:
            pass  # the terminal is gone

    def enter(self) -> None:
        """Also after a stop: the shell that stopped us has set its own modes."""
        import tty

        try:
            tty.setraw(self._fd, termios.TCSADRAIN)  # what was typed ahead is for the command
        except termios.error:
            pass
