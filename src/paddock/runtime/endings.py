"""Why boxes ended, for whoever asks afterwards: a client whose channel broke, or whose command was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.model import BoxId
from paddock.readiness import within
from paddock.runtime.box import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from paddock.engines.base import Engine
    from paddock.runtime.box import Box

KILLED, TIMED_OUT, OVERSPENT = 137, 124, 78
_LOST = 125
_KEPT = 1024
_SETTLE_S = 2.0  # a box that is ending has ended by then


class Endings:
    """The last thousand; `boxes` are those of the register, of which any may end now."""

    def __init__(self, boxes: Mapping[BoxId, Box], engine_of: Callable[[Box], Engine]) -> None:
        self._boxes = boxes
        self._engine_of = engine_of
        self._kept: dict[str, Ending] = {}

    def __repr__(self) -> str:
        return f"<Endings {len(self._kept)}>"

    def keep(self, box: Box, ending: Ending) -> None:
        self._kept[box.row.id] = ending
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    async def of(self, box_id: str) -> Ending:
        """Why a box went away, for a client whose channel broke; waits until we know."""
        box = self._boxes.get(BoxId(box_id))
        if box and not await _settled(box):
            return Ending(reason="its connection broke while the box runs on", exit_code=_LOST)
        return self._kept.get(box_id, Ending(reason="", exit_code=KILLED))

    async def killed(self, box_id: str) -> str:
        """Why processes of a box were killed, where the kernel or the watch did it; an ephemeral box ends first."""
        box = self._boxes.get(BoxId(box_id))
        if box and box.row.spec.ephemeral and not await _settled(box):
            return ""
        if box and box.handle is not None:
            return self._engine_of(box).killed(box.placement)
        return self._kept[box_id].reason if box_id in self._kept else ""


async def _settled(box: Box) -> bool:
    try:
        await within(box.ended.wait(), _SETTLE_S)
    except TimeoutError:
        return False
    return True
