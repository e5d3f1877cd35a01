"""Joins a person's terminal or pipes to a command in a box, until it ends or they detach.

Pipes are byte-exact. A real terminal gets what the box writes through ScreenFilter, because a terminal can be told to
write clipboards and to type answers. One loop, no threads: nothing is read faster than the other side takes it.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import tty
from typing import TYPE_CHECKING

from paddock import frames
from paddock.cli.screen import RESTORE, DetachKeys, ScreenFilter
from paddock.client.answers import exited, started
from paddock.limits import FRAME_DATA_BYTES
from paddock.model import ExecResult, TtySize

if TYPE_CHECKING:
    from paddock.client import Command

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Detached(Exception):
    """The person left; the command goes on."""


def terminal_size() -> TtySize:
    for fd in (1, 0, 2):
        try:
            rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            continue
        if rows and cols:
            return TtySize(rows=rows, cols=cols)
    return TtySize(rows=24, cols=80)


def is_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def attach(command: Command, *, stdin: bool, detachable: bool) -> ExecResult:
    """Relay until the command's end. Raises Detached, or Unavailable when the box goes away."""
    frame = command.channel.receive()
    if frame is None:
        raise command.gone()
    is_tty = started(frame).tty
    relay = _Relay(command, stdin=stdin, is_tty=is_tty, detachable=detachable)
    saved = termios.tcgetattr(0) if is_tty and os.isatty(0) else None
    try:
        if saved:
            tty.setraw(0)
        with _Signals() as woken:
            return relay.run(woken)
    finally:
        if saved:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)
        if is_tty and os.isatty(1):
            os.write(1, RESTORE)


class _Signals:
    """Signals as bytes on a descriptor, so that the relay's one poll sees them."""

    def __enter__(self) -> int:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._previous = {number: signal.signal(number, lambda *_: None) for number in (*_FORWARDED, signal.SIGWINCH)}
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self._read

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)


class _Relay:
    def __init__(self, command: Command, *, stdin: bool, is_tty: bool, detachable: bool) -> None:
        self._command = command
        self._socket = command.channel.socket
        self._socket.setblocking(False)
        self._is_tty = is_tty
        self._keys = DetachKeys() if is_tty and detachable else None
        self._filters = {kind: ScreenFilter() for kind, fd in _OUTPUTS.items() if os.isatty(fd)}
        self._stdin_open = stdin
        self._unsent = bytearray()
        self._interrupts = 0
        self._size = terminal_size()
        if is_tty:
            self._resize()

    def run(self, woken: int) -> ExecResult:
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        while True:
            self._flush()
            result = self._read_box()  # before the first poll: output may have come together with the start
            if result is not None:
                return result
            mask = select.POLLIN | (select.POLLOUT if self._unsent else 0)
            poll.register(self._socket, mask)
            if self._stdin_open and len(self._unsent) < FRAME_DATA_BYTES:
                poll.register(0, select.POLLIN)
            else:
                _unregister(poll, 0)
            for fd, _ in poll.poll():
                if fd == woken:
                    self._signals(os.read(woken, 512))
                elif fd == 0:
                    self._read_stdin()

    def _signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                if self._is_tty:
                    self._resize()
            elif number == signal.SIGINT and self._interrupts:
                self._message({"op": "signal", "signal": int(signal.SIGKILL)})  # asked twice: no more waiting
            elif number in _FORWARDED:
                self._interrupts += number == signal.SIGINT
                self._message({"op": "signal", "signal": number})

    def _resize(self) -> None:
        size = terminal_size()
        self._message({"op": "resize", "rows": size.rows, "cols": size.cols})

    def _message(self, message: frames.Message) -> None:
        self._unsent += frames.encode_message(message)
        self._flush()

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, FRAME_DATA_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._stdin_open = False
            self._unsent += frames.encode(frames.STDIN, b"")
            return
        detached = False
        if self._keys:
            data, detached = self._keys.feed(data)
        if data:
            self._unsent += frames.encode(frames.STDIN, data)
        if detached:
            self._flush()
            raise Detached

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()  # the end is already on its way to us

    def _read_box(self) -> ExecResult | None:
        """Everything that is there now; the command's end, when it is among it."""
        while True:
            try:
                frame = self._command.channel.receive()
            except BlockingIOError:
                return None
            if frame is None:
                raise self._command.gone()
            kind, payload = frame
            if kind == frames.MESSAGE:
                result = self._message_from_box(payload)
                if result is not None:
                    return result
            elif kind in _OUTPUTS:
                self._show(kind, payload)

    def _message_from_box(self, payload: bytes) -> ExecResult | None:
        message = frames.decode_message(payload)
        if message.get("event") == "error":  # a refused signal or resize: the command goes on
            return None
        result = exited(payload)
        for kind, screen in self._filters.items():
            _write_all(_OUTPUTS[kind], screen.flush())
        return result

    def _show(self, kind: int, payload: bytes) -> None:
        screen = self._filters.get(kind)
        _write_all(_OUTPUTS[kind], screen.feed(payload) if screen else payload)


_OUTPUTS = {frames.STDOUT: 1, frames.STDERR: 2}


def _unregister(poll: select.poll, fd: int) -> None:
    try:
        poll.unregister(fd)
    except KeyError:
        pass


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # a caller handed us a non-blocking pipe
            select.select([], [fd], [])


def report_detach(name: str) -> None:
    print(f"\r\ndetached; `paddock run {name}` returns", file=sys.stderr)
