"""The keeper's end of the line to an init that cannot listen itself (guest/sleep.py), and the saving of such a box.

Theory. Who calls at the box's socket is accepted here and sent along. Nothing that the box does, or leaves undone,
holds up the keeper: it never waits for a line. While the line takes nothing, callers wait in the socket's own queue.

A save goes through steps that each have a time to end in: init lets go of the host's sockets and says so, the saver has
the runtime save the box, whose kernel ends with that; and the keeper says that it is done and ends too. When a step
fails the box goes on, if it lives: over a new line.
"""

from __future__ import annotations

import json
import os
import socket
import time

from paddock.engines.container import saver
from paddock.engines.guest.sleep import CLIENT, QUIET
from paddock.engines.guest.wire import READABLE, WRITABLE, Refused, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.guest.wire import Connection, Loop

QUIET_S = 10.0
_ANSWER_BYTES = 4096


class Line:
    def __init__(self, loop: Loop, listener: socket.socket, line: socket.socket, saving: socket.socket | None) -> None:
        self._loop = loop
        self._listener = listener
        self._line = line
        self._saver = saving
        self._waits: socket.socket | None = None  # accepted, and not taken yet
        self._client: Connection | None = None  # who asked for a save
        self._timer = 0  # the step that a timer was set for
        self.is_over = False  # the box's kernel has ended
        listener.setblocking(False)
        self._tie()

    @property
    def is_saving(self) -> bool:
        return self._client is not None

    def _tie(self) -> None:
        self._line.setblocking(False)
        self._loop.want(self._line.fileno(), READABLE, self._heard)
        self._loop.want(self._listener.fileno(), READABLE, self._called)

    # -- callers -------------------------------------------------------------------------------------------------------

    def _called(self, _events: int) -> None:
        try:
            self._waits, _ = self._listener.accept()
        except OSError:
            return
        self._pass_on()

    def _pass_on(self) -> None:
        assert self._waits is not None
        try:
            socket.send_fds(self._line, [CLIENT], [self._waits.fileno()])
        except BlockingIOError:  # it has more than it takes: nobody is accepted until it does
            self._loop.want(self._line.fileno(), READABLE | WRITABLE, self._heard)
            self._loop.want(self._listener.fileno(), 0, self._called)
            return
        except OSError:
            pass  # its end is heard
        self._waits.close()
        self._waits = None

    def _heard(self, events: int) -> None:
        if events & WRITABLE and self._waits is not None and not self.is_saving:
            self._tie()
            self._pass_on()
        if events & ~WRITABLE:
            self._read()

    def _read(self) -> None:
        try:
            said = self._line.recv(1)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said == QUIET and self.is_saving:
            self._have_it_saved()
        elif not self.is_saving:
            os._exit(0)  # an init that hangs up, or says what it was not asked, is no init
        elif not said:
            self._loop.forget(self._line.fileno())

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, client: Connection) -> None:
        if self._saver is None:
            raise Refused(
                "no-memory",
                "it has no network of its own: localhost rules need its keeper's, or this kernel has no links",
            )
        if self.is_saving:
            raise Refused("busy", "this box is being saved")
        self._client = client
        self._loop.want(self._listener.fileno(), 0, self._called)
        try:
            self._line.send(QUIET)
        except OSError as error:
            self._client = None
            self._tie()
            raise Refused("not-quiet", "the init of this box takes no requests") from error
        self._within(QUIET_S, self._not_quiet)

    def _have_it_saved(self) -> None:
        assert self._saver is not None
        self._loop.forget(self._line.fileno())
        self._line.close()
        self._saver.send(saver.SAVE)
        self._loop.want(self._saver.fileno(), READABLE, self._saved)
        self._within(saver.RUN_S + QUIET_S, self._give_up)

    def _saved(self, _events: int) -> None:
        why = self._verdict()
        if not why:
            self._answer(message({"event": "done"}))
            os._exit(0)
        self._say(why)
        if self.is_over:
            os._exit(0)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line = ours
        assert self._saver is not None
        with theirs:
            socket.send_fds(self._saver, [saver.WAKE], [theirs.fileno()])
        self._loop.want(self._saver.fileno(), READABLE, self._woken)

    def _woken(self, _events: int) -> None:
        self._timer += 1
        if self._verdict() or self.is_over:
            os._exit(0)
        assert self._saver is not None
        self._loop.forget(self._saver.fileno())
        self._client = None
        self._tie()

    def _verdict(self) -> str:
        """Why what the saver did failed; empty when it did not."""
        assert self._saver is not None
        answer = json.loads(self._saver.recv(_ANSWER_BYTES) or b'{"ok": false, "error": "the saver is gone"}')
        return "" if answer["ok"] else answer["error"] or "it does not say why"

    def _not_quiet(self) -> None:
        """It may still become so; then it hangs up, and the box ends."""
        self._say("its init does not let go of its clients")
        self._client = None
        self._tie()

    def _give_up(self) -> None:
        self._say("it was not saved in time")
        os._exit(0)

    def _say(self, why: str) -> None:
        self._answer(message(Refused("not-saved", why).reply))

    def _answer(self, data: bytes) -> None:
        self._timer += 1
        if self._client is not None:
            self._client.send(data)

    def _within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._timer += 1
        step = self._timer

        def late() -> None:
            if self._timer == step:
                otherwise()

        self._loop.at(time.monotonic() + seconds, late)
