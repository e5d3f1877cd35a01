"""Keeping what a box has in memory, from the host's side: its keeper is asked, and what a start needs is laid out.

What was saved is written by the box's own kernel, beside the box's changes. A box that starts from it gets the same
files by other names: nothing is copied, and nobody writes to them. It is good only with the program that wrote it and
the files that init runs on, which are named in it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from paddock import frames, limits
from paddock.engines.container import gvisor, ids
from paddock.engines.container.removal import remove_tree
from paddock.engines.process import init_socket
from paddock.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.engines.base import Placement

_FILES: Final = ("checkpoint.img", "pages.img", "pages_meta.img")
_ORIGIN: Final = "origin"
_ORIGIN_BYTES: Final = 200


def save(placement: Placement, origin: Callable[[], str]) -> str:
    if why := _unable(placement):
        raise Unavailable(f"{placement.spec.name!r} cannot be kept as it runs: {why}", code="no-memory")
    place = _place(placement)
    remove_tree(place)
    _ask(placement)
    with open(f"{place}/{_ORIGIN}", "x", encoding="ascii") as file:
        file.write(origin())
    return place


def lay_out(placement: Placement, origin: Callable[[], str]) -> None:
    """Before a start: what it starts from, or nothing."""
    place, source = _place(placement), placement.memory
    if source == place:
        return
    remove_tree(place)
    if not source:
        return
    _check(placement, origin())
    os.mkdir(place, 0o755)
    os.chmod(place, 0o755)  # noqa: S103  as the layers of the box are
    for name in _FILES:
        os.link(f"{source}/{name}", f"{place}/{name}", follow_symlinks=False)


def _place(placement: Placement) -> str:
    return f"{placement.directory}/root/{gvisor.MEMORY}"


def _unable(placement: Placement) -> str:
    spec = placement.spec
    if spec.runtime != gvisor.NAME:
        return "only boxes of the runtime runsc can"
    if ids.of_caller(placement.index).count == 1:
        return "it has one id; with subordinate ids (`paddock doctor`) it could"
    if spec.network.publish:
        return "it has published ports, for which it shares its network with its keeper"
    return ""


def _check(placement: Placement, origin: str) -> None:
    said = b""
    with contextlib.suppress(OSError), open(f"{placement.memory}/{_ORIGIN}", "rb") as file:
        said = file.read(_ORIGIN_BYTES)
    if said != origin.encode():
        raise Unavailable(
            f"what {placement.spec.name!r} had in memory was kept by another version of runsc or Paddock",
            hint="its files are as they were: the next command starts it without what ran",
            code="other-memory",
        )


def _ask(placement: Placement) -> None:
    try:
        with init_socket.connect(placement, init_socket.KEEPER) as channel:
            channel.sendall(frames.encode_message({"op": "save"}))
            answer = init_socket.first_message(channel, limits.SAVE_S)
    except (OSError, ValueError, Unavailable) as error:
        raise _not_saved(placement, str(error) or "no answer") from error
    if answer.get("event") != "done":
        raise _not_saved(placement, str(answer.get("message"))[:400])


def _not_saved(placement: Placement, why: str) -> Unavailable:
    hint = "wait for what runs in it, or end it with --stop"
    return Unavailable(f"{placement.spec.name!r} cannot be kept as it runs: {why}", hint=hint, code="not-saved")
