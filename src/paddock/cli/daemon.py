"""daemon start|stop|status, version."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from paddock import paths
from paddock._version import VERSION
from paddock.client import Paddock, starter
from paddock.client.answers import expect_list, expect_object
from paddock.errors import Unavailable

if TYPE_CHECKING:
    import argparse

_STOP_TIMEOUT_S = 10.0


def version(_options: argparse.Namespace) -> int:
    print(f"paddock {VERSION}")
    return 0


def daemon(options: argparse.Namespace) -> int:
    if options.what == "start":
        return _status(options)
    where = paths.Paths()
    found = starter.find(where)
    if found is None:
        print(json.dumps({"running": False}) if options.json else "no daemon is running")
        return 0 if options.what == "stop" else 1
    found.close()
    return _stop(where) if options.what == "stop" else _status(options)


def _status(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        status = expect_object(paddock.call("status"))
    if options.json:
        print(json.dumps({"running_daemon": True, **status}, indent=2))
        return 0
    for key in ("pid", "version", "socket", "state", "boxes", "running", "starting"):
        print(f"{key:8} {status.get(key)}")
    for line in expect_list(status.get("repairs")):
        print(f"repaired {line}")
    return 0


def _stop(where: paths.Paths) -> int:
    with Paddock() as paddock:
        running = expect_object(paddock.call("status")).get("running")
        paddock.call("shutdown")
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        found = starter.find(where)
        if found is None:
            print(f"stopped; {running} boxes keep running" if running else "stopped")
            return 0
        found.close()
        time.sleep(0.02)
    raise Unavailable("the daemon did not end", hint=f"see {where.daemon_log}", code="daemon")
