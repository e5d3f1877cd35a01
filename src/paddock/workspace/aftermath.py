"""After an apply: what processes of the box that run on have done to files that had just come home.

A file that came home is taken out of the upper layer, so that the box sees the workspace's. A process that has it open
keeps it in place (see Upper.drop), but there are other ways to it: a name that was looked up a moment ago and leads to
it until the box is remounted, or a descriptor that is only a path. So the box is remounted at once, and what was taken
out is compared with what came home, again and again when somebody looks at the review, until the box is started anew.
What was written there is the box's work: it goes back to its place, or is kept and named if the box has something new
there, which takes two writes within the millisecond of a remount.
"""

from __future__ import annotations

import os

from paddock.fs.lease import is_in_use
from paddock.workspace import place, state
from paddock.workspace.entries import Entry, open_file, seen
from paddock.workspace.runs import Done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.workspace.runs import Run
    from paddock.workspace.upper import Home, Upper

_BACK = "a command that runs in the box wrote to it while it was applied: that is in the box, for the next apply"
_KEPT = "a command that runs in the box wrote to the applied version, and the box has another by now: it is kept as "


class Aftermath:
    """Of one run; `refresh` has the box remounted, if it runs."""

    def __init__(self, run: Run, upper: Upper, aside: int, refresh: Callable[[], None]) -> None:
        self._run = run
        self._upper = upper
        self._aside = aside
        self._refresh = refresh
        self._after = {operation.path: operation.after for operation in run.intent.operations}
        self.found: list[Done] = []

    def drop(self, homes: list[Home]) -> None:
        """Take what came home out of the upper. What is written to it at this moment goes back at once."""
        self._upper.drop(homes, self._aside, self._dropped)
        self._refresh()  # directories went too

    def look(self, homes: list[Home]) -> None:
        """Some time later: give back to the box what it wrote since, and take out what was in use then."""
        now_ns, since_ns = state.coarse_ns(), self._run.looked()
        if not self._run.is_spent:
            missing = [home for home in homes if seen(self._aside, home.name).entry is Entry.NOTHING]
            if stayed := [home for home in missing if self._upper.holds(home)]:
                self.drop(stayed)
        self._give_back(homes, since_ns)
        self._run.look(now_ns)

    def _dropped(self, homes: list[Home]) -> None:
        self._refresh()
        self._give_back(homes, 0)

    def _give_back(self, homes: list[Home], since_ns: int) -> None:
        count = len(self.found)
        for home in homes:
            there = seen(self._aside, home.name)
            if there.entry is not Entry.FILE or there.ctime_ns < since_ns or self._is_left_alone(home):
                continue
            self._upper.restore([home], self._aside)
            is_back = seen(self._aside, home.name).entry is Entry.NOTHING
            kept = _KEPT + os.path.join(self._run.aside, home.name)
            self.found.append(Done(path=home.path, error=_BACK if is_back else kept))
        if len(self.found) > count:
            self._refresh()

    def _is_left_alone(self, home: Home) -> bool:
        found = place.content(self._aside, home.name)
        # What came home may be a merge, and of a change of its mode alone the content was not read in the box.
        expected = home.origin.digest or self._after[home.path].digest
        if found.digest != expected or found.mode != home.origin.mode:
            return False
        fd = open_file(self._aside, home.name)
        try:
            return not is_in_use(fd)
        finally:
            os.close(fd)
