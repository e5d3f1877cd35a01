"""A person at a terminal: ./paddock as a child on a real pty, keys typed into it, what it prints read back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from pathlib import Path
    from typing import Self

    from tests.support.installation import Installation

ROWS, COLS = 30, 100
DETACH = b"\x10\x11"
CTRL_C, CTRL_D, CTRL_Z = b"\x03", b"\x04", b"\x1a"


class Person:
    def __init__(
        self,
        installation: Installation,
        *words: str,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        size: tuple[int, int] = (ROWS, COLS),
    ) -> None:
        self._master, self._slave = os.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self._slave)
        self.output = b""
        self._seen = 0
        self._process = subprocess.Popen(
            installation.command(words),
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=cwd or installation.workspace,
            env={**installation.environ, "LANG": "C.UTF-8", "TERM": "xterm", **(env or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  the test process has no threads
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for fd in (self._master, self._slave):
            with contextlib.suppress(OSError):
                os.close(fd)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def enter(self, line: str) -> None:
        self.type(line.encode() + b"\r")

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def sees(self, wanted: bytes, seconds: float = 40.0) -> bytes:
        """Wait until this is printed, after what was seen before; returns all up to its end."""
        deadline = time.monotonic() + seconds
        while (at := self.output.find(wanted, self._seen)) < 0:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"not printed: {wanted!r}; but: {self.output[self._seen :][-2000:]!r}")
        begun, self._seen = self._seen, at + len(wanted)
        return self.output[begun : self._seen]

    def leaves(self, seconds: float = 40.0) -> int:
        """Wait for the end of ./paddock; returns its exit code. `output` is then complete."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"still running after {seconds:.0f} s: {self.output[-2000:]!r}")
            self._read(0.02)
        while self._read(0.0):
            continue
        return self._process.returncode

    def hang_up(self) -> None:
        """Close the terminal's window."""
        for fd in (self._slave, self._master):
            os.close(fd)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self._slave)[3] & termios.ICANON

    def set_modes(self, modes: list[object]) -> None:
        """As a shell does when it takes its terminal back."""
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)  # type: ignore[arg-type]

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.output += data
        return bool(data)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
