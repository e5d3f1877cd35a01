"""Whether this machine can mount what a box stands on after a checkpoint, found out by doing it."""

from __future__ import annotations

import functools
import os
import sys
from typing import Final

from paddock import fs, proc
from paddock.engines.process.warm import package_root
from paddock.errors import PaddockError, Unavailable

_TRY_S: Final = 20.0
# A program of its own: namespaces are for a process without threads.
_TRY: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
from paddock.engines.process import kernel
uid, gid = os.getuid(), os.getgid()
kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
os.chdir(sys.argv[2])
for name in ("lower", "upper", "work", "view"):
    os.mkdir(name)
kernel.mount("overlay", "view", "overlay", 0, "userxattr,lowerdir=lower,upperdir=upper,workdir=work")
os.mkdir("view/made")  # for which it is marked
"""


@functools.cache
def require(place: str) -> None:
    """Unavailable if no directory in this one can be the changes of an overlay that a box's namespace mounts."""
    scratch = f"{place}/try-{os.urandom(8).hex()}"
    try:
        os.mkdir(scratch, 0o700)
        argv = [sys.executable, "-I", "-S", "-c", _TRY, package_root(), scratch]
        done = proc.run(argv, env={"LC_ALL": "C.UTF-8"}, timeout_s=_TRY_S, cwd="/")
        problem = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] if done.code else ""
    except (OSError, PaddockError) as error:
        problem = str(error)
    finally:
        fs.remove_tree(scratch)
    if problem:
        raise Unavailable(
            f"no checkpoint here: no overlay can be mounted on {os.path.dirname(place)}: {problem[:200]}",
            hint="`paddock doctor` tries it: if its line `overlay` is ok, put PADDOCK_HOME on ext4, xfs or btrfs",
            code="no-overlay",
        )
