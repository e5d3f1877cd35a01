"""Logging in inside a box: only where --allow-login opens the hosts of it, and then the box says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL

ASK = (
    "for host in claude.ai platform.claude.com other.example; do "
    "curl -s -m 20 -o /dev/null -w '%{http_code} ' https://$host/; done"
)


def test_an_agent_logs_in_in_a_box_only_where_that_was_allowed(online: Online, internet: Internet) -> None:
    assert internet.run(["sh", "-c", ASK]).stdout == b"200 200 200 "
    for words in ((), ("--preset", "claude")):
        closed = online.cli("run", *words, "--", "sh", "-c", ASK)
        assert closed.stdout == b"403 403 403 ", closed.stderr
        assert b"token inside" not in closed.stderr
    given = ("--preset", "claude", "--allow-login", "claude", "--name", "inside")
    opened = online.cli("run", *given, "--", "sh", "-c", ASK)
    assert opened.stdout == b"200 200 403 ", opened.stderr
    assert b"token inside: whatever runs in inside can read what a login of claude leaves there" in opened.stderr
    assert online.cli("create", "outside").returncode == 0
    lines = {line.split()[0]: line for line in online.cli("ls").stdout.decode().splitlines()}
    assert ("token inside" in lines["inside"], "token inside" in lines["outside"]) == (True, False)
    assert b"claude: token inside" in online.cli("inspect", "inside").stdout
    assert json.loads(online.cli("inspect", "--json", "inside").stdout)[0]["logins"] == ["claude"]
    unknown = online.cli("run", "--allow-login", "nobody", "--", "true")
    assert (unknown.returncode, b"it is not known where 'nobody' logs in" in unknown.stderr) == (2, True)
    blocked = online.cli("run", "--allow-login", "claude", "--block-host", "claude.ai:443", "--", "sh", "-c", ASK)
    assert blocked.stdout == b"403 200 403 "
