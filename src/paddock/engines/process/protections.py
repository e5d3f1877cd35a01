"""What of the user's directories a box must not have: git's own files, our program, host sockets, secret mounts."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from paddock import fs, guard
from paddock.engines.process.operations import MountOp
from paddock.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from paddock.engines.process import hostsockets
    from paddock.engines.process.operations import Ground
    from paddock.model import BoxSpec, Mount


def hidden(spec: BoxSpec, shown: list[Mount], ground: Ground) -> list[MountOp]:
    """What is mounted inside the user's directories and is not for a box: the /proc of a chroot, or ~/.ssh."""
    state = os.path.dirname(os.path.dirname(ground.storage))
    ops = []
    for mount in shown:
        for point in guard.secret_mounts(mount.source, home=spec.caller_home, state_dirs=(state,)):
            ops.append(_covered(mount, point))
    return ops


def protected(shown: list[Mount], sockets: hostsockets.Bound, replaced: Collection[str]) -> list[MountOp]:
    """Sockets of the host covered, git and our program read-only, but for targets that are `replaced` in the box."""
    ops: list[MountOp] = []
    for mount in shown:
        ops += [_covered(mount, path) for path in sockets.beneath(mount.source)]
        if not mount.read_only:
            refuse_repository(mount.source)
            # One that is mounted too, under a second name, is reached under this one as well.
            inner = [one.source for one in shown if fs.is_beneath(one.source, mount.source)]
            places = [f"{place}/.git" for place in inner if _has_git(place)]
            places = [place for place in places if _landing(mount, place) not in replaced]
            for place in [*places, *_own_program(mount.source)]:
                ops += pinned(mount.target, place[len(mount.source) :])
    return list(dict.fromkeys(ops))


def under_other_names(spec: BoxSpec, live: list[Mount], view: Iterable[Mount]) -> list[MountOp]:
    """What is closed or hidden in the workspace, where a mount shows the same files at a second place."""
    kinds: dict[str, Literal["pin", "readonly", "cover"]] = {}
    for mount in view:
        if mount.target != spec.workspace:
            kinds[mount.target] = "pin" if mount.source == mount.target and not mount.read_only else "readonly"
    kinds |= {f"{spec.workspace}/{path}": "cover" for path in spec.masks}
    ops = []
    for mount in live:
        for place, kind in kinds.items():
            if place.startswith(f"{mount.source}/") and _landing(mount, place) != place:
                *way, last = pinned(mount.target, place[len(mount.source) :])
                ops += [replace(op, optional=True) for op in (*way, replace(last, op=kind))]
    return list(dict.fromkeys(ops))


def _covered(mount: Mount, path: str) -> MountOp:
    return MountOp(op="cover", target=_landing(mount, path), optional=True)


def _landing(mount: Mount, path: str) -> str:
    """Where what lies at `path` on the host is in the box."""
    return mount.target + path[len(mount.source) :]


def pinned(top: str, below: str) -> list[MountOp]:
    """`below` read-only, and every directory on the way a mount point: otherwise one of them could be renamed away."""
    names = below.strip("/").split("/")
    steps = ["/".join((top, *names[:depth])) for depth in range(1, len(names) + 1)]
    return [*(MountOp(op="pin", target=step) for step in steps[:-1]), MountOp(op="readonly", target=steps[-1])]


def _own_program(source: str) -> list[str]:
    """Of our own program what the box could change: the host runs it next time, outside every box."""
    clone = [f"{source}/src", f"{source}/paddock"] if os.path.isfile(f"{source}/src/paddock/__main__.py") else []
    places = [place for place in dict.fromkeys([*_running(), *clone]) if os.path.lexists(place)]
    for place in places:
        if fs.is_beneath(source, place):
            hint = "give another directory, or mount it read-only"
            raise UserError(f"{source} is part of paddock's own program", hint=hint, code="own-program")
    return [place for place in places if fs.is_beneath(place, source)]


@functools.cache
def _running() -> tuple[str, ...]:
    """Where the code of this process lies: its directory on sys.path, a clone's script, its virtual environment."""
    code = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
    script = [os.path.join(os.path.dirname(code), "paddock")] if os.path.basename(code) == "src" else []
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    environment = [os.path.realpath(prefix)] if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else []
    return (code, *script, *environment)


def _has_git(directory: str) -> bool:
    git = f"{directory}/.git"
    if os.path.islink(git):
        hint = "move the repository's .git into the workspace, or mount the directory read-only"
        raise UserError(f"{git} is a symbolic link, which cannot be protected", hint=hint, code="git-link")
    return os.path.lexists(git)


def refuse_repository(directory: str) -> None:
    """Hooks and configuration lie in it as plain files, and the host's git would run what a box writes there."""
    inside = ".git" in directory.split("/")
    if inside or all(os.path.lexists(f"{directory}/{name}") for name in ("HEAD", "config", "objects", "refs")):
        hint = "give the directory of its working tree, or mount it read-only"
        raise UserError(f"{directory} is git's own directory", hint=hint, code="git-directory")
