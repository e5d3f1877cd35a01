"""The seam between the gateway and whoever counts what requests cost.

A metered request passes here twice: before it is sent, when it may be refused (402), and as its answer streams by. What
is handed over is looked at in the same callback that sends it on, so a reader must be quick and bounded in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paddock.gateway.heads import Head, ResponseHead
    from paddock.gateway.refusal import Refusal


class Metered(Protocol):
    """One metered request. Nothing here may raise for what a client or a server sent."""

    def sent(self, data: bytes) -> None:
        """Bytes of the request's body, as the box sent them."""

    def head(self, head: ResponseHead) -> None:
        """The answer's final head; behind a 101, `sent` and `received` get the bytes of the websocket."""

    def received(self, data: bytes) -> None:
        """Bytes of the answer's body, without their chunking."""

    def end(self, *, complete: bool) -> None:
        """Once, whatever became of the request: not `complete` when either side was cut off."""


class Meter(Protocol):
    """One box's."""

    def request(self, host: str, head: Head) -> Metered | Refusal | None:
        """Before a request to a metered host is sent on: how it is counted, why it is not sent, or None to let it be.

        `head` is as the box wrote it, with placeholders. Of a request that is counted the answer comes uncompressed,
        if the server heeds what it is asked.
        """
