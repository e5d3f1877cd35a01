"""The pipes that flows splice through, counted for all of them together: the kernel counts their pages per user."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from paddock.limits import FLOW_LARGE_PIPES_MAX, FLOW_PIPE_BYTES, FLOW_PIPES_MAX

_F_SETPIPE_SZ: Final = 1031


class Pipes:
    def __init__(self, most: int = FLOW_PIPES_MAX) -> None:
        self._most = most
        self._taken = 0

    def __repr__(self) -> str:
        return f"<Pipes {self._taken} of {self._most}>"

    def take(self) -> tuple[int, int] | None:
        if self._taken >= self._most:
            return None
        try:
            pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        self._taken += 1
        if self._taken <= FLOW_LARGE_PIPES_MAX:
            try:
                fcntl.fcntl(pipe[1], _F_SETPIPE_SZ, FLOW_PIPE_BYTES)
            except OSError:
                pass  # the user's pages are used up: the small one works too
        return pipe

    def give_back(self, pipe: tuple[int, int]) -> None:
        self._taken -= 1
        os.close(pipe[0])
        os.close(pipe[1])
