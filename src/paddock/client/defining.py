"""A definition of an agent is its user's word. One that a box can write would soon be the box's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock import fs
from paddock.errors import UserError
from paddock.model import WorkspaceMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.agents import Found
    from paddock.model import BoxInfo


def writable(boxes: Sequence[BoxInfo]) -> set[str]:
    """Directories of the host that boxes can write to."""
    places = {box.workspace for box in boxes if box.mode is WorkspaceMode.LIVE}
    return places | {mount.source for box in boxes for mount in box.mounts if not mount.read_only}


def safe_path(path: str, boxes: Sequence[BoxInfo]) -> str:
    """Of a PATH the entries where no box can have put a program."""
    places = writable(boxes)
    entries = [entry for entry in path.split(":") if entry.startswith("/")]
    return ":".join(
        entry for entry in entries if not any(fs.is_beneath(os.path.realpath(entry), place) for place in places)
    )


def checked(found: Found, boxes: Sequence[BoxInfo], shown: Iterable[str]) -> Found:
    """`shown` are the directories that its box is to have, `boxes` those that there are; UserError for a file there."""
    if not found.source:
        return found
    path = os.path.realpath(found.source)
    places = {os.path.realpath(place) for place in shown}
    for place in sorted(places | writable(boxes)):
        if fs.is_beneath(path, place):
            raise UserError(
                f"the agent file {path} lies in {place}, where a box could change it",
                hint=f"move it to ~/.config/paddock/agents/{found.agent.name}.toml: `paddock run {found.agent.name}`",
                code="unsafe-agent",
            )
    return found
