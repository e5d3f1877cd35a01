"""Joins a person's terminal or pipes to a command in a box, until it ends or they detach.

Pipes are byte-exact. A real terminal gets what the box writes through ScreenFilter, because a terminal can be told to
write clipboards and to type answers. One loop, no threads: nothing is read faster than the other side takes it, and no
side is served so long that another waits. Every `exec` loads this file, so the typed SDK stays out of its way: what
the box says is read here, and handed to client.answers only when it is not what a good box says.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time

from paddock import frames
from paddock.cli import terminal
from paddock.errors import PaddockError, Unavailable
from paddock.limits import FRAME_DATA_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from paddock.cli.prompting import Prompts
    from paddock.cli.screen import DetachKeys, ScreenFilter
    from paddock.client.transport import Channel

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_INTERRUPTS_MAX = 3
_REDRAW_S = 0.1
_OUTPUTS = {frames.STDOUT: 1, frames.STDERR: 2}


class Detached(Exception):
    """The person left, or their terminal did; the command goes on."""


class Running:
    """A command in a box as the CLI holds it: its channel, and the daemon to ask about its end."""

    def __init__(
        self,
        call: Callable[[str, frames.Message], object],
        box: tuple[str, str],
        channel: Channel,
        prompts: Prompts | None = None,
        *,
        budget: bool = False,
    ) -> None:
        self.call = call
        self.box_id, self.box = box
        self.channel = channel
        self.prompts = prompts  # someone is there to be asked
        self.budget = budget  # the box has one

    def __repr__(self) -> str:
        return f"<Running in {self.box}>"


class End:
    """How a command ended."""

    __slots__ = ("exit_code", "timed_out")

    def __init__(self, *, exit_code: int, timed_out: bool) -> None:
        self.exit_code = exit_code
        self.timed_out = timed_out

    def __repr__(self) -> str:
        return f"<End {self.exit_code}{' timed out' if self.timed_out else ''}>"


class Lost(Exception):
    """The channel broke: the box ended, or was ended."""


def attach(running: Running, *, stdin: bool, detachable: bool) -> End:
    """Relay until the command's end. Raises Detached, or Lost when the box goes away."""
    frame = running.channel.receive()
    if frame is None:
        raise Lost
    is_tty, again, job = _started(frame)

    def send(number: int) -> None:
        running.call("signal", {"box": running.box_id, "job": job, "signal": number})

    with contextlib.ExitStack() as stack:
        woken = stack.enter_context(_Signals())
        screens = stack.enter_context(Screens())
        raw = stack.enter_context(terminal.RawMode(0)) if is_tty and os.isatty(0) else None
        keys = _detach_keys() if detachable and is_tty else None
        prompts = running.prompts if raw else None
        relay = _Relay(running.channel, screens, raw, send, is_tty=is_tty, stdin=stdin, keys=keys, prompts=prompts)
        if is_tty:
            relay.announce_size(redraw=again)
        return relay.run(woken)


class _Signals:
    """Signals as bytes on a descriptor, so that the relay's one poll sees them."""

    def __enter__(self) -> int:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        numbers = (*_FORWARDED, signal.SIGWINCH, signal.SIGCONT)
        self._previous = {number: signal.signal(number, lambda *_: None) for number in numbers}
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self._read

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)


class Screens:
    """Writes a command's output, through a filter where it goes to a terminal, and puts that terminal in order."""

    def __init__(self) -> None:
        self._filters: dict[int, ScreenFilter] = {}
        self._used: set[int] = set()
        self._utf8 = False
        self._reduced = False

    def __enter__(self) -> Self:
        if terminals := [fd for fd in _OUTPUTS.values() if os.isatty(fd)]:
            from paddock.cli.screen import ScreenFilter

            self._utf8 = terminal.is_utf8(terminal.first_environment())
            self._filters = {fd: ScreenFilter(utf8=self._utf8) for fd in terminals}
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._used:
            try:
                _write_all(fd, self._filters[fd].restore())
            except OSError:
                pass  # the terminal is gone
        if self._reduced:
            from paddock.cli.main import warn

            warn("your locale is not in UTF-8: some characters were left out; LANG=C.UTF-8 shows them")

    def show(self, fd: int, data: bytes) -> None:
        screen = self._filters.get(fd)
        if screen is not None:
            self._reduced |= not self._utf8 and not data.isascii()
            data = screen.feed(data)
            if b"\x1b" in data:
                self._used.add(fd)
        _write_all(fd, data)

    def flush(self) -> None:
        for fd, screen in self._filters.items():
            _write_all(fd, screen.flush())


class _Relay:
    def __init__(
        self,
        channel: Channel,
        screens: Screens,
        raw: terminal.RawMode | None,
        send: Callable[[int], object],
        *,
        is_tty: bool,
        stdin: bool,
        keys: DetachKeys | None,
        prompts: Prompts | None = None,
    ) -> None:
        self._channel = channel
        self._socket = channel.socket
        self._socket.setblocking(False)
        self._screens = screens
        self._raw = raw
        self._send = send
        self._is_tty = is_tty
        self._stdin_open = stdin
        self._keys = keys
        self._prompts = prompts
        self._unsent = bytearray()
        self._fed = False
        self._interrupts = 0
        self._redraw_at: float | None = None
        self._more = True  # the first read may have brought more than the first frame

    def run(self, woken: int) -> End:
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        if self._prompts:
            poll.register(self._prompts, select.POLLIN)
        while True:
            asking = self._prompts is not None and self._prompts.asking
            hear = 0 if asking else select.POLLIN  # a question stays readable until it is answered
            poll.register(self._socket, hear | (select.POLLOUT if self._unsent else 0))
            if self._stdin_open and len(self._unsent) < FRAME_DATA_BYTES:
                poll.register(0, select.POLLIN)
            else:
                _unregister(poll, 0)
            for fd, _ in poll.poll(self._timeout_ms()):
                if fd == woken:
                    self._signals(os.read(woken, 512))
                elif fd == 0:
                    self._read_stdin()
                elif self._prompts and fd == self._prompts.fileno():
                    self._hear_prompts(poll, self._prompts)
            if self._redraw_at is not None and time.monotonic() >= self._redraw_at:
                self.announce_size()
            self._flush()
            end = self._read_box() if self._prompts is None or not self._prompts.asking else None
            if end is not None:
                return end

    def _hear_prompts(self, poll: select.poll, prompts: Prompts) -> None:
        was_asking = prompts.asking
        shown = prompts.read()
        if shown is None:  # the daemon went away, and the box's connections with it are refused
            poll.unregister(prompts)
            self._prompts = None
        elif shown:
            _write_all(1, shown)
        if was_asking and (shown is None or not prompts.asking):
            self._after_prompt()

    def _after_prompt(self) -> None:
        self._more = True
        self.announce_size(redraw=True)

    def _timeout_ms(self) -> float | None:
        if self._more and not (self._prompts and self._prompts.asking):
            return 0
        return None if self._redraw_at is None else max(0.0, self._redraw_at - time.monotonic()) * 1000

    # -- towards the box -----------------------------------------------------------------------------------------------

    def announce_size(self, *, redraw: bool = False) -> None:
        """Tell the box our size; a smaller one first makes a program draw again on a screen that is not its own yet."""
        rows, cols = terminal.size()
        self._redraw_at = time.monotonic() + _REDRAW_S if redraw else None
        self._message({"op": "resize", "rows": max(1, rows - redraw), "cols": cols})

    def _signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGCONT:
                if self._raw:
                    self._raw.enter()
                    self.announce_size(redraw=True)
            elif number == signal.SIGWINCH:
                if self._is_tty:
                    self.announce_size()
            elif number == signal.SIGHUP and self._keys:
                raise Detached
            elif number == signal.SIGINT:
                self._interrupt()
            elif number in _FORWARDED:
                self._signal(number)

    def _interrupt(self) -> None:
        """Ctrl-c from a terminal that is not raw: the third kills, the fourth leaves a box that ignores even that."""
        self._interrupts += 1
        if self._interrupts > _INTERRUPTS_MAX:
            raise KeyboardInterrupt
        self._signal(signal.SIGKILL if self._interrupts == _INTERRUPTS_MAX else signal.SIGINT)

    def _signal(self, number: int) -> None:
        """Through the daemon once there was input: behind it, a signal would not reach a command that does not read."""
        if self._fed:
            try:
                self._send(int(number))
            except PaddockError:
                pass  # it went with the command, or with the daemon: behind the input is better than not at all
            else:
                return
        self._message({"op": "signal", "signal": int(number)})

    def _message(self, message: frames.Message) -> None:
        self._unsent += frames.encode_message(message)
        self._flush()

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, FRAME_DATA_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        if data and self._prompts and self._prompts.takes_keys():
            _write_all(1, self._prompts.keys(data))
            if not self._prompts.asking:
                self._after_prompt()
            return
        detached = False
        if self._keys:
            data, detached = self._keys.feed(data) if data else (b"", True)
        elif not data:
            self._stdin_open = False
            self._unsent += frames.encode(frames.STDIN, b"")
        if data:
            self._fed = True
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

    # -- from the box --------------------------------------------------------------------------------------------------

    def _read_box(self) -> End | None:
        """What is there now, but not for so long that a key or a signal waits; the command's end, if it is among it."""
        shown = 0
        while shown < FRAME_DATA_BYTES:
            try:
                frame = self._channel.receive()
            except BlockingIOError:
                self._more = False
                return None
            if frame is None:
                raise Lost
            kind, payload = frame
            if kind == frames.MESSAGE:
                end = _ended(payload)
                if end is not None:
                    self._screens.flush()
                    return end
            elif kind in _OUTPUTS:
                self._screens.show(_OUTPUTS[kind], payload)
            shown += len(payload) + frames.HEADER.size
        self._more = True
        return None


def _detach_keys() -> DetachKeys:
    from paddock.cli.screen import DetachKeys

    return DetachKeys()


def _started(frame: tuple[int, bytes]) -> tuple[bool, bool, str]:
    """Whether the command has a terminal, whether it had been running before we came, and its name in the box."""
    if frame[0] == frames.MESSAGE:
        message = frames.decode_message(frame[1])
        if message.get("event") == "started":
            return message.get("tty") is True, message.get("again") is True, str(message.get("id"))
    raise _refusal(*frame)


def _ended(payload: bytes) -> End | None:
    message = frames.decode_message(payload)
    if message.get("event") == "error":  # a refused signal or resize: the command goes on
        return None
    code = message.get("code")
    if message.get("event") != "exit" or type(code) is not int or not 0 <= code <= 255:
        raise _refusal(frames.MESSAGE, payload)
    return End(exit_code=code, timed_out=message.get("timed_out") is True)


def _refusal(kind: int, payload: bytes) -> PaddockError:
    """What is wrong with a message: init's own refusal, or that it makes no sense."""
    from paddock.client import answers

    try:
        answers.message((kind, payload))
    except PaddockError as error:
        return error
    return Unavailable("the box sent a message out of turn", code="protocol")


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
        except OSError as error:
            if error.errno == errno.EIO:  # a terminal that was hung up
                raise BrokenPipeError(error.errno, error.strerror) from error
            raise
