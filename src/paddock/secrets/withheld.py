"""What a program prints, without the tokens in it: they are kept back whole, however the output is cut into pieces."""

from __future__ import annotations

import re
from typing import Final

from paddock.limits import SECRET_BYTES
from paddock.secrets.value import Secret

_LEAST_CHARS: Final = 16  # after the prefix: less is talk about tokens
MASK: Final = b"[kept by paddock]"


class Withheld:
    """Tokens begin with `prefix` and go on with letters, digits, - and _. Nothing of them is in what `feed` returns."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._token = re.compile(re.escape(prefix) + rb"[A-Za-z0-9_-]*")
        self._rest = b""
        self._found: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<Withheld {len(self._found)} found>"

    def feed(self, data: bytes) -> bytes:
        """What can be shown now; the beginning of a token waits for its end."""
        self._rest += data
        shown = b""
        while match := self._token.search(self._rest):
            if match.end() == len(self._rest) and len(match[0]) <= SECRET_BYTES:
                shown += self._rest[: match.start()]
                self._rest = self._rest[match.start() :]
                return shown
            shown += self._rest[: match.start()] + MASK
            self._found[match[0]] = None
            self._rest = self._rest[match.end() :]
        waits = self._beginning()
        at = len(self._rest) - waits
        shown, self._rest = shown + self._rest[:at], self._rest[at:]
        return shown

    def finish(self) -> bytes:
        """The output has ended."""
        rest, self._rest = self._rest, b""
        if not rest.startswith(self._prefix):
            return rest
        self._found[rest] = None
        return MASK

    def tokens(self) -> list[Secret]:
        """In the order they were printed, each once."""
        whole = [token for token in self._found if len(token) >= len(self._prefix) + _LEAST_CHARS]
        return [Secret(token.decode("ascii"), "the token") for token in whole]

    def _beginning(self) -> int:
        """How many bytes at the end may be the beginning of a prefix."""
        sizes = range(min(len(self._prefix) - 1, len(self._rest)), 0, -1)
        return next((size for size in sizes if self._rest.endswith(self._prefix[:size])), 0)
