"""daemon start|stop|status."""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING

from paddock import paths, text
from paddock._version import VERSION
from paddock.client import Paddock, starter
from paddock.client.answers import expect_object
from paddock.errors import Unavailable

if TYPE_CHECKING:
    import argparse

_STOP_TIMEOUT_S = 45.0  # it writes what it has acknowledged, and a disk may be slow
_NOT_RUNNING = 1


def daemon(options: argparse.Namespace) -> int:
    where = paths.Paths()
    running = _runs(where)
    if options.what == "stop":
        said = _stop(where) if running else "no daemon is running"
        print(json.dumps(_status(where, {}), indent=2) if options.json else said)
        return 0
    if not running and options.what == "status":
        _print(_status(where, {}), as_json=options.json)
        return _NOT_RUNNING
    with Paddock() as paddock:  # starts it
        _print(_status(where, expect_object(paddock.call("status"))), as_json=options.json)
    return 0


def _runs(where: paths.Paths) -> bool:
    found = starter.find(where)
    if found is not None:
        found.close()
    return found is not None


def _status(where: paths.Paths, answer: dict[str, object]) -> dict[str, object]:
    """The same keys whether or not it runs."""
    return {
        "daemon": "running" if answer else "stopped",
        "pid": None,
        "version": VERSION,
        "state": where.state,
        "socket": f"{where.run}/{paths.SOCKET}",
        "boxes": None,
        "running": None,
        "starting": None,
        "gateway_pid": None,
        "open_files": None,
        "memory_bytes": None,
        "repairs": [],
        **answer,
    }


def _print(status: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, indent=2))
        return
    repairs = status.pop("repairs")
    for key, value in status.items():
        print(f"{key:12} {'-' if value is None else text.neutralise(str(value), 400)}")
    for line in repairs if isinstance(repairs, list) else []:
        print(f"{'repaired':12} {text.neutralise(str(line), 400)}")


def _stop(where: paths.Paths) -> str:
    with Paddock() as paddock:
        status = expect_object(paddock.call("status"))
        kept, pid = status.get("running"), status.get("pid")
        if not isinstance(pid, int):
            raise Unavailable("the daemon does not say its pid", hint=f"see {where.daemon_log}", code="daemon")
        pidfd = os.pidfd_open(pid)
        try:
            paddock.call("shutdown")
            # Not only its socket: what it still writes it has written when it is gone.
            if not select.select([pidfd], [], [], _STOP_TIMEOUT_S)[0]:
                hint = f"see {where.daemon_log}"
                raise Unavailable(f"the daemon (process {pid}) did not end", hint=hint, code="daemon")
        finally:
            os.close(pidfd)
    boxes = "box keeps" if kept == 1 else "boxes keep"
    return f"stopped; {kept} {boxes} running" if kept else "stopped"
