"""doctor: one line per engine and per layer, each tried for real, with the exact fix; and --rebuild."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from paddock import codec, paths, text
from paddock.client import Paddock
from paddock.client.answers import expect_list, expect_object
from paddock.engines.base import Probe
from paddock.errors import PaddockError, Unavailable
from paddock.limits import DISK_FLOOR_BYTES

if TYPE_CHECKING:
    import argparse

_NEEDED = {"process engine", "user namespaces", "/proc mount", "seccomp", "nftables", "daemon"}


def doctor(options: argparse.Namespace) -> int:
    from paddock.engines.process import probes

    where = paths.Paths()
    if options.rebuild:
        return _rebuild(where)
    daemon, repairs = _daemon()
    found = [
        _process_engine(daemon),
        *_container_engines(daemon),
        daemon,
        *probes.all_probes(),
        _disk(where),
        _groups(),
    ]
    works = all(probe.ok for probe in found if probe.name in _NEEDED)
    if options.json:
        wire = {"works": works, "probes": [codec.to_wire(probe) for probe in found], "repairs": repairs}
        print(json.dumps(wire, indent=2))
    else:
        _print(found, repairs)
        print("process boxes work here" if works else "process boxes do not work here: see the lines marked NO")
    return 0 if works else Unavailable.exit_code


def _print(found: list[Probe], repairs: list[str]) -> None:
    for probe in found:
        mark = "ok" if probe.ok else "NO" if probe.name in _NEEDED else "no"
        print(f"{mark:3} {probe.name:16} {text.neutralise(probe.detail, 400)}")
        if probe.fix and not probe.ok:
            print(f"    {'':16} fix: {probe.fix}")
    for line in repairs:
        print(f"    repaired         {text.neutralise(line, 400)}")


def _process_engine(daemon: Probe) -> Probe:
    """The whole thing at once: a box, a command in it, and its end."""
    if not daemon.ok:
        return Probe(name="process engine", ok=False, detail="needs the daemon", fix=daemon.fix)
    import tempfile

    begun = time.perf_counter()
    try:
        with Paddock() as paddock, tempfile.TemporaryDirectory(prefix="paddock-doctor-") as directory:
            result = paddock.run(["true"], workspace=directory, timeout_s=20.0)
    except PaddockError as error:
        return Probe(name="process engine", ok=False, detail=error.message, fix=error.hint or "see the lines below")
    took_ms = (time.perf_counter() - begun) * 1000
    ok = result.exit_code == 0
    detail = f"a box ran a command in {took_ms:.0f} ms" if ok else f"`true` ended with {result.exit_code}"
    return Probe(name="process engine", ok=ok, detail=detail)


def _container_engines(daemon: Probe) -> list[Probe]:
    """The same on an empty root, by each runtime that is installed: the command is our own interpreter."""
    from paddock.engines.container import runtimes

    present = runtimes.installed()
    if not present:
        detail = f"none of {', '.join(runtimes.NAMES)} is installed"
        return [Probe(name="container engine", ok=False, detail=detail, fix="sudo apt install crun")]
    return [_container_engine(daemon, name) for name in present]


def _container_engine(daemon: Probe, runtime: str) -> Probe:
    name = f"container {runtime}"
    if not daemon.ok:
        return Probe(name=name, ok=False, detail="needs the daemon", fix=daemon.fix)
    import tempfile

    from paddock.engines.container import interpreter
    from paddock.model import BoxRequest, EngineName, ExecSpec

    begun = time.perf_counter()
    try:
        with Paddock() as paddock, tempfile.TemporaryDirectory(prefix="paddock-doctor-") as directory:
            for place in ("work", "root"):
                os.mkdir(f"{directory}/{place}")
            request = BoxRequest(
                workspace=f"{directory}/work",
                ephemeral=True,
                engine=EngineName.CONTAINER,
                template=f"{directory}/root",
                runtime=runtime,
            )
            spec = ExecSpec(argv=interpreter.words("/run/paddock/python", "pass"), timeout_s=20.0)
            result = paddock.start_run(request, spec).finish(b"")
    except PaddockError as error:
        return Probe(name=name, ok=False, detail=error.message, fix=error.hint or "see the lines below")
    took_ms = (time.perf_counter() - begun) * 1000
    detail = f"a box ran a command in {took_ms:.0f} ms" if result.ok else f"a command ended with {result.exit_code}"
    return Probe(name=name, ok=result.ok, detail=detail)


def _daemon() -> tuple[Probe, list[str]]:
    try:
        with Paddock() as paddock:
            status = expect_object(paddock.call("status"))
    except PaddockError as error:
        return Probe(name="daemon", ok=False, detail=error.message, fix=error.hint), []
    detail = f"pid {status.get('pid')}, {status.get('boxes')} boxes, {status.get('running')} running"
    return Probe(name="daemon", ok=True, detail=detail), [str(line) for line in expect_list(status.get("repairs"))]


def _disk(where: paths.Paths) -> Probe:
    path = where.state
    while not os.path.exists(path):
        path = os.path.dirname(path)
    values = os.statvfs(path)
    free = values.f_bavail * values.f_frsize
    ok = free > 2 * DISK_FLOOR_BYTES
    fix = "" if ok else f"free some space: boxes are stopped below {text.size(DISK_FLOOR_BYTES)}"
    return Probe(name="disk", ok=ok, detail=f"{text.size(free)} free at {path}", fix=fix)


def _groups() -> Probe:
    """Only newgidmap could drop an ordinary caller's groups, so files they open stay open to a box."""
    extra = set(os.getgroups()) - {os.getgid()}
    if os.getuid() == 0 or not extra:
        return Probe(name="groups", ok=True, detail="a box has no group of yours but the first")
    detail = (
        f"boxes keep your supplementary groups {sorted(extra)}: files shown to a box and readable by them are readable"
    )
    return Probe(
        name="groups", ok=False, detail=detail, fix="show a box no directory whose group files it must not read"
    )


def _rebuild(where: paths.Paths) -> int:
    from paddock.runtime.rebuild import rebuild

    report = rebuild(where)
    for line in report:
        print(text.neutralise(line, 400))
    sys.stdout.flush()
    return 0
