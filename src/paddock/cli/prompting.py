"""Questions of a box that asks, put to the person at the terminal: once, this box, always, no.

TRUST: the host name comes from the box. It is shown neutralised, and no answer is one key: what a person was typing to
the box when the question appeared goes to the box for a moment longer, and then it takes a letter and Enter.
"""

from __future__ import annotations

import time

from paddock import frames, text
from paddock.errors import PaddockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.client._sync.policies import Decision
    from paddock.client.transport import Channel

_QUIET_S = 0.5
_DECISIONS: dict[str, Decision] = {"o": "once", "b": "box", "a": "always", "n": "no", "": "no"}
_CTRL_C, _ERASE = "\x03", "\x08\x7f"
_LINE_CHARS = 8


class Prompts:
    """While `asking`, keys come here and the box's output waits."""

    def __init__(
        self, channel: Channel, answer: Callable[[str, Decision], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._channel = channel
        channel.socket.setblocking(False)
        self._answer = answer
        self._clock = clock
        self._waiting: dict[str, str] = {}  # what is asked, by its name
        self._shown = ""
        self._since = 0.0
        self._line = ""

    def __repr__(self) -> str:
        return f"<Prompts {len(self._waiting)} waiting>"

    def fileno(self) -> int:
        return self._channel.socket.fileno()

    @property
    def asking(self) -> bool:
        return bool(self._shown)

    def takes_keys(self) -> bool:
        """Whether what is typed now is an answer."""
        return self.asking and self._clock() - self._since >= _QUIET_S

    def close(self) -> None:
        self._channel.close()

    def read(self) -> bytes | None:
        """What to print after hearing from the daemon; None when it hung up and there is nothing more to hear."""
        try:
            while (frame := self._channel.receive()) is not None:
                self._hear(frames.decode_message(frame[1]))
        except BlockingIOError:
            return self._next()
        except (OSError, PaddockError):
            pass
        self._waiting.clear()
        return None

    def _hear(self, message: frames.Message) -> None:
        ask = message.get("ask")
        if isinstance(ask, dict):
            host = text.neutralise(str(ask.get("host")), 120)
            shown = f"[{host}]" if ":" in host else host
            self._waiting[str(ask.get("ask"))] = f"{shown}:{ask.get('port')} ({ask.get('protocol')})"
        else:
            self._waiting.pop(str(message.get("settled")), None)

    def _next(self) -> bytes:
        """Go over to the question whose turn it is."""
        if self._shown in self._waiting:
            return b""
        ended = b"\r\n" if self._shown else b""
        self._shown, self._line, self._since = next(iter(self._waiting), ""), "", self._clock()
        if not self._shown:
            return ended
        question = f"paddock: the box asks for {self._waiting[self._shown]}"
        return f"\r\n{question}\r\n  [o]nce, this [b]ox, [a]lways, [n]o, then Enter: ".encode()

    def keys(self, data: bytes) -> bytes:
        """Keys typed as an answer; returns what to print."""
        printed = b""
        for key in data.decode("ascii", "replace"):
            if key in "\r\n" or key == _CTRL_C:
                printed += self._decide("n" if key == _CTRL_C else self._line.lower())
                if not self.asking:
                    break
            elif key in _ERASE:
                printed += b"\b \b" if self._line else b""
                self._line = self._line[:-1]
            elif key.isalpha() and key.isascii() and len(self._line) < _LINE_CHARS:
                self._line += key
                printed += key.encode()
        return printed

    def _decide(self, word: str) -> bytes:
        decision = _DECISIONS.get(word)
        if decision is None:
            self._line = ""
            return b"\r\n  o, b, a or n, then Enter: "
        said: str = decision
        try:
            self._answer(self._shown, decision)
        except PaddockError as error:
            said = text.neutralise(error.message, 200)
        self._waiting.pop(self._shown, None)
        return f" {said}".encode() + self._next()
