"""After an apply: what processes of the box that run on have done to files that had just come home.

A file that came home is taken out of the upper layer, so that the box sees the workspace's. A process that has it open
keeps it in place (see Upper.drop), but there are other ways to it: a name that was looked up a moment ago and leads to
it until the box is remounted, or a descriptor that is only a path. So what was taken out is compared with what came
home once the box is remounted, and whenever somebody looks at the review, until the box is started anew. What was
written there is the box's work: it goes back to its place, or is kept and named if the box has something new there.
"""

from __future__ import annotations

import os

from paddock.fs.lease import is_in_use
from paddock.workspace import place, state
from paddock.workspace.entries import Entry, open_file, seen
from paddock.workspace.runs import Done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.workspace.entries import Seen
    from paddock.workspace.runs import Run
    from paddock.workspace.upper import Home, Upper

_BACK = "a command that runs in the box wrote to it while it was applied: that is in the box, for the next apply"
_KEPT = "a command that runs in the box wrote to the applied version, and the box has another by now: it is kept as "


def look(run: Run, homes: list[Home], upper: Upper, aside: int) -> list[Done]:
    """Give back to the box what it wrote since; and take out what was in use then."""
    now_ns = state.coarse_ns()
    since_ns = run.looked()
    if not run.is_spent:
        stayed = [home for home in homes if seen(aside, home.name).entry is Entry.NOTHING]
        upper.drop([home for home in stayed if upper.holds(home)], aside)
    after = {operation.path: operation.after for operation in run.intent.operations}
    found = []
    for home in homes:
        there = seen(aside, home.name)
        if there.entry is not Entry.FILE or there.ctime_ns < since_ns or _is_left_alone(aside, home, after[home.path]):
            continue
        upper.restore([home], aside)
        is_back = seen(aside, home.name).entry is Entry.NOTHING
        found.append(Done(path=home.path, error=_BACK if is_back else _KEPT + os.path.join(run.aside, home.name)))
    run.look(now_ns)
    return found


def _is_left_alone(aside: int, home: Home, after: Seen) -> bool:
    found = place.content(aside, home.name)
    # What came home may be a merge, and of a change of its mode alone the content was not read in the box.
    if found.digest != (home.origin.digest or after.digest) or found.mode != home.origin.mode:
        return False
    fd = open_file(aside, home.name)
    try:
        return not is_in_use(fd)
    finally:
        os.close(fd)
