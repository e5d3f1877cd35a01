"""A new container box around one command, beside the bare runtimes on the same root."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from benches import yardsticks
from benches.figures import Figure, Target, Yardstick
from benches.timing import interleave
from paddock.engines.container import runtimes
from paddock.model import BoxRequest, EngineName, ExecSpec

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 40
TARGETS = {"crun": 60, "runc": 60, "runsc": 300}  # p50, in ms
_PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARY = re.compile(r"(/\S+) \(0x")


def measure(installation: Installation) -> list[Figure]:
    place = os.path.dirname(installation.workspace)
    root = _root(f"{place}/root")
    present = [name for name in runtimes.NAMES if shutil.which(name, path=_PATH)]
    actions = {name: functools.partial(_run, installation, root, name) for name in present}
    bare = _bare_runc(f"{place}/bundle", root)
    taken = interleave({**actions, **({"bare": bare} if bare else {})}, ROUNDS, between=installation.rest)
    beside = (
        (Yardstick(name="bare `runc run`", samples=taken["bare"]),)
        if bare
        else (Yardstick(name="bare `runc run`", absent="needs root and runc"),)
    )
    return [
        Figure(
            name=f"container_{name}",
            what=f"new container box by {name}, first command done, box gone (SDK run)",
            unit="ms",
            samples=taken[name],
            target=Target(p50_most=TARGETS[name]),
            yardsticks=beside,
        )
        for name in present
    ]


def _run(installation: Installation, root: str, runtime: str) -> None:
    request = BoxRequest(
        workspace=installation.workspace,
        ephemeral=True,
        engine=EngineName.CONTAINER,
        template=root,
        runtime=runtime,
    )
    command = installation.sdk.start_run(request, ExecSpec(argv=("/bin/true",)))
    assert command.finish(b"").ok


def _root(place: str) -> str:
    """`true` and what it is linked with."""
    os.makedirs(f"{place}/bin")
    for name in ("etc", "proc", "dev", "sys", "tmp"):
        os.mkdir(f"{place}/{name}")
    shutil.copy("/bin/true", f"{place}/bin/true")
    linked = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True, check=True).stdout
    for path in _LIBRARY.findall(linked):
        os.makedirs(f"{place}{os.path.dirname(path)}", exist_ok=True)
        shutil.copy(os.path.realpath(path), f"{place}{path}")
    return place


def _bare_runc(bundle: str, root: str) -> functools.partial[None] | None:
    program = shutil.which("runc", path=_PATH)
    if not program or os.getuid():
        return None
    os.mkdir(bundle)
    subprocess.run([program, "spec"], cwd=bundle, check=True)
    with open(f"{bundle}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    config["root"] = {"path": root, "readonly": True}
    config["process"] |= {"args": ["/bin/true"], "terminal": False}
    with open(f"{bundle}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    state = ("--root", f"{bundle}/state")
    return functools.partial(yardsticks.run, [program, *state, "run", "--bundle", bundle, f"bench-{os.getpid()}"])
