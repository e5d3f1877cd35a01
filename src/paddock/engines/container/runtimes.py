"""The programs that start a bundle, and what each of them has to be told."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Final

from paddock.engines.container import gvisor
from paddock.errors import Unavailable, UserError

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # root's programs are nobody's secret
DESCRIPTORS: Final = 2  # that init has besides the standard ones (guest/standalone.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    name: str
    options: tuple[str, ...]
    needs_root: bool  # it starts no box that has no id 0
    hides_cgroups: bool  # an empty directory in place of the host's tree, in which it would find what it refuses
    tasks: int  # of its own, at most, until init runs
    own_kernel: bool = False  # see gvisor.py, which has its words

    def argv(self, program: str, place: str) -> tuple[str, ...]:
        """`place` is where the bundle lies, and where the runtime may keep notes of its own."""
        state = ("--root", f"{place}/state")
        words = ("--bundle", place, "--pid-file", f"{place}/pid", "--preserve-fds", str(DESCRIPTORS), "box")
        return (program, *state, *self.options, "run", "--detach", *words)


# Our own cgroups hold a box's limits, and the whole of the runtime is in them.
_KNOWN: Final = {
    "crun": Runtime(name="crun", options=("--cgroup-manager=disabled",), needs_root=False, hides_cgroups=True, tasks=8),
    "runc": Runtime(name="runc", options=("--rootless=true",), needs_root=True, hides_cgroups=False, tasks=64),
    gvisor.NAME: Runtime(name=gvisor.NAME, options=(), needs_root=True, hides_cgroups=False, tasks=0, own_kernel=True),
}
NAMES: Final = tuple(_KNOWN)
_ANY: Final = tuple(name for name in NAMES if not _KNOWN[name].own_kernel)  # one with its own kernel is asked for


def installed() -> list[str]:
    """Those of this machine."""
    return [name for name in NAMES if shutil.which(name, path=_PATH)]


def check(name: str) -> str:
    if name and name not in _KNOWN:
        raise UserError(f"runtime {name[:40]!r} is not known", hint=f"known: {', '.join(NAMES)}", code="no-runtime")
    return name


def find(name: str = "") -> tuple[Runtime, str]:
    """The one that was asked for, or the first that is installed; and its program."""
    for known in (check(name),) if name else _ANY:
        if program := shutil.which(known, path=_PATH):
            if _KNOWN[known].own_kernel:
                gvisor.check(program)
            return _KNOWN[known], program
    wanted = name or " nor ".join(_ANY)
    hint = f"install one, as by `apt install {name or NAMES[0]}`"
    raise Unavailable(f"a container box needs a runtime, and {wanted} is not installed", hint=hint, code="no-runtime")
