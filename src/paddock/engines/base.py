"""The engine seam: how the runtime makes, finds and ends a box, whatever isolates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from paddock.model import BoxId, BoxSpec, Evidence, LimitReport, Mount

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection

    from paddock.watch import WatchedBox

LINK = "cover-link"  # the code of the error when what must be covered became a symbolic link


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A box's spec and where its private storage lies."""

    id: BoxId
    spec: BoxSpec
    directory: str
    index: int  # small and unique among living boxes; a root caller's boxes derive their uid from it
    localhost_ports: tuple[int, ...] = ()  # ports of the box's loopback that lead to the gateway from the start
    tools: tuple[Mount, ...] = ()  # programs of its agent, read-only; each has a `bin` for its PATH
    memory: str = ""  # a directory of `Engine.save` to start from: commands go on where they were
    view: tuple[Mount, ...] = ()  # in and over the workspace; one whose source is its target changes what is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One line of doctor: what was tried, whether it works, and the exact fix when it does not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


class Handle(Protocol):
    """A running box."""

    evidence: Evidence
    pidfd: int
    keeps_names: bool  # names that it has used stay what they were, whatever refresh() does

    def ended(self) -> bool:
        """Whether its first process is gone, which its pidfd will soon tell the event loop too."""

    def kill(self) -> None:
        """End every process of the box at once."""

    def refresh(self) -> bool:
        """Let a review box see its workspace as the host has it now; False when it must be started anew for that."""

    def is_idle(self) -> bool:
        """Whether no process but its first is in the box, commands and what they left behind."""

    def close(self) -> None:
        """Let go of descriptors; the box itself stays."""


class Engine(Protocol):
    async def start(
        self, placement: Placement, door: int | None = None, listening: Callable[[], None] | None = None
    ) -> Handle:
        """Make the box; it is ready for commands when this returns, or nothing of it is left.

        `door` is the box's end of a SEQPACKET pair; the gateway must hold the other one already, since a box does not
        start before its seal is proven. The descriptor stays the caller's. Without one a box has its loopback alone.
        `listening` is called as soon as a channel can be opened: what is sent then runs once the box is confined.
        """

    def reseal(self, placement: Placement, door: int) -> None:
        """Give a running box a new door: a new gateway gets its sockets there, the old door is shut. May wait."""

    def connect(self, placement: Placement) -> socket.socket:
        """A new channel to the box's init, from the moment it listens."""

    def adopt(self, placement: Placement, evidence: Evidence | None) -> Handle | None:
        """Find a box that an earlier daemon started; None when it is not running."""

    async def save(self, placement: Placement) -> str:
        """Keep what a running box has in memory, and end it; returns the directory that has it when the box has ended.

        A box whose files are as they are then may start from it. Unavailable, and it runs on, where that cannot be.
        """

    def covered(self, placement: Placement) -> dict[str, tuple[int, ...]]:
        """The host's names over which something lies in the running box, and which file each was (fs.births).

        Who replaces one on the host uncovers it. Of a box that was found again the files are not known: empty.
        """

    async def cover(self, placement: Placement, handle: Handle) -> tuple[str, ...]:
        """Cover again what the host has replaced; says what. Unavailable when the box sees what it must not see."""

    def clean(self, placement: Placement) -> str:
        """Remove what a dead box left outside its storage; says why it died where the engine knows. May wait."""

    def sweep(self, alive: Collection[BoxId]) -> list[str]:
        """Remove what every box that is not `alive` left outside its storage; says what it was. May wait."""

    def environment(self, placement: Placement) -> dict[str, str]:
        """The environment every command of the box starts from."""

    def killed(self, placement: Placement) -> str:
        """What the kernel did to processes of a running box at its limits, as a reason; empty when it did nothing."""

    def processor_s(self, evidence: Evidence) -> float:
        """What a running box used of processors since it started. May wait."""

    def limits(self, placement: Placement, *, running: bool) -> tuple[LimitReport, ...]:
        """Each limit and who holds it."""

    def watched(self, placement: Placement, evidence: Evidence) -> WatchedBox:
        """What the watch must hold because the kernel does not."""

    def describe(self, placement: Placement) -> tuple[str, ...]:
        """The exact plan, one operation a line."""
