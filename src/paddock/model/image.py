"""What an image says of how it is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRun:
    """Of a box's template; all of it somebody else's words."""

    user: str = ""  # by name or number; empty: root
    uid: int = 0  # which that was in the image: the box's files on the host are this user's inside
    gid: int = 0
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: str = ""
    env: tuple[str, ...] = ()  # its own variables, as K=V
    home: str = "/root"  # of that user: what lies there is in the box's home
    path: str = ""  # where its programs are; empty: where every system has them
