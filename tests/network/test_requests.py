"""Rules about requests, from the user's words to a real TLS origin and back."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from paddock.gateway.certificates import make_authority
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
ENGINES = contract.FULL

HOST = "allowed.example"
CURL = "curl -sS -m 20 -w '%{http_code}\\n' -o answer"


def asks(*requests: str) -> str:
    """A script that makes requests, each `METHOD path`, and prints their statuses."""
    return "; ".join(f"{CURL} -X {method} https://{HOST}{path}" for method, path in map(str.split, requests))


def statuses(online: Online, box: str, *requests: str) -> list[str]:
    return online.cli("exec", box, "sh", "-c", asks(*requests)).stdout.decode().split()


def requests_of(online: Online, box: str) -> list[tuple[object, ...]]:
    lines = online.cli("network", "log", "--json", box).stdout.splitlines()
    records = [record for record in map(json.loads, lines) if record["event"] == "request"]
    return [(each["decision"], each["method"], each["path"], each.get("status")) for each in records]


def test_a_rule_lets_pass_just_the_requests_it_speaks_of(online: Online, internet: Internet) -> None:
    outside = internet.run(["curl", "-sS", "-X", "POST", f"https://{HOST}/repos/me/x"])
    assert b'"path"' in outside.stdout, "the server would take it"
    made = online.cli("create", "--allow-request", f"GET {HOST}/repos/me/x/**", "held", ".")
    assert made.returncode == 0, made.stderr
    all_of_them = ("GET /repos/me/x/1?token=t", "POST /repos/me/x", "GET /repos/me/y", "GET /repos/me/x/%2e%2e/y")
    assert statuses(online, "held", *all_of_them) == ["200", "403", "403", "403"]
    said = online.cli("exec", "held", "sh", "-c", f"{asks('POST /repos/me/x')}; cat answer").stdout.decode()
    assert f"paddock: POST {HOST}/repos/me/x is denied for box held" in said
    assert "why: no request rule of the box policy allows POST here" in said
    command = f"paddock policy allow --box held {HOST}:443 --method POST --path /repos/me/x"
    assert f"to allow it, run outside the box: {command}" in said
    assert command in online.cli("exec", "held", "cat", "/run/paddock/denials.jsonl").stdout.decode()
    log = requests_of(online, "held")
    assert log[:2] == [("allow", "GET", "/repos/me/x/1", 200), ("deny", "POST", "/repos/me/x", 403)]
    assert "token" not in online.cli("network", "log", "--json", "held").stdout.decode()
    plain = f"{CURL} http://{HOST}/repos/me/x; {CURL} http://{HOST}/repos/me/y; curl -sS --fail http://{HOST}:22/"
    done = online.cli("exec", "held", "sh", "-c", plain)
    assert (done.stdout, done.returncode != 0) == (b"200\n403\n", True)
    assert online.cli(*command.split()[1:]).returncode == 0
    assert statuses(online, "held", "POST /repos/me/x", "POST /repos/me/y") == ["200", "403"]


def test_what_check_and_why_say_is_what_happens(online: Online) -> None:
    allow = ("policy", "allow", "--box", "held", HOST, "--method", "GET", "--path", "/a/**", "--path", "/b")
    assert online.cli("create", "held", ".").returncode == 0
    assert online.cli(*allow).returncode == 0
    assert online.cli("policy", "deny", "--box", "held", HOST, "--path", "/a/secret").returncode == 0
    for method, path in (("GET", "/a/x"), ("GET", "/b"), ("GET", "/c"), ("POST", "/b"), ("GET", "/a/SECRET")):
        check = online.cli("policy", "check", "--box", "held", "--method", method, f"https://{HOST}{path}")
        (status,) = statuses(online, "held", f"{method} {path}")
        assert (check.returncode, status) in {(0, "200"), (77, "403")}, (method, path)
    why = online.cli("policy", "why", "--box", "held", f"https://{HOST}/a/secret").stdout.decode()
    assert f"rule: deny * {HOST}/a/secret (from flag: command line)" in why
    shown = online.cli("policy", "show", "held").stdout.decode()
    assert f"GET {HOST}/a/**" in shown
    exported = online.cli("policy", "export", "held").stdout
    (online.workspace / "rules.toml").write_bytes(exported)
    assert online.cli("create", "twin", ".").returncode == 0
    imported = online.cli("policy", "import", "--box", "twin", str(online.workspace / "rules.toml"))
    assert imported.returncode == 0, imported.stderr
    assert statuses(online, "twin", "GET /a/x", "GET /c", "GET /a/secret") == ["200", "403", "403"]
    docker = online.cli("policy", "export", "--format", "docker", "held")
    assert HOST.encode() not in docker.stdout
    assert HOST.encode() in docker.stderr
    assert online.cli("policy", "rm", "--box", "twin", HOST, "--path", "/a/secret").returncode == 0
    assert statuses(online, "twin", "GET /a/secret", "GET /c") == ["200", "403"]
    assert online.cli("policy", "rm", "--box", "twin", HOST).returncode == 0
    assert online.cli("policy", "check", "--box", "twin", HOST).returncode == 77


def test_rules_in_the_users_file_reach_boxes_that_run_and_gateways_that_come(online: Online) -> None:
    assert online.cli("create", "--allow-host", HOST, "open", ".").returncode == 0
    assert statuses(online, "open", "POST /x") == ["200"]
    try:
        assert online.cli("policy", "deny", "--user", HOST, "--method", "POST,PUT").returncode == 0
        assert f'deny-requests = ["POST,PUT {HOST}"]' in (online.home / "config/policy.toml").read_text()
        assert statuses(online, "open", "POST /x", "GET /x") == ["403", "200"]
        gateway = online.status()["gateway_pid"]
        assert isinstance(gateway, int)
        os.kill(gateway, signal.SIGKILL)
        until(lambda: online.status()["gateway_pid"] not in {gateway, None}, "another gateway serves")
        assert statuses(online, "open", "POST /x", "GET /x") == ["403", "200"]
        assert online.cli("network", "proxy", "open", "--bypass-host", HOST).returncode == 0
        assert online.cli("exec", "open", "sh", "-c", asks("GET /x")).stdout == b"403\n", "bypassed and ruled: neither"
    finally:
        assert online.cli("policy", "rm", "--user", HOST).returncode == 0
    unseen = online.cli("exec", "open", "sh", "-c", f"{CURL} -k -X POST https://{HOST}/x")
    assert unseen.stdout == b"200\n", "and without the rule it is as it ever was"


def test_a_projects_file_only_tightens(online: Online) -> None:
    project = online.workspace / "paddock.toml"
    project.write_text(f'[network]\nallow-requests = ["GET {HOST}/docs/**", "GET other.example"]\n')
    try:
        assert online.cli("create", "--allow-host", HOST, "--name", "tight", "shell", ".").returncode == 0
        assert statuses(online, "tight", "GET /docs/x", "GET /x", "POST /docs/x") == ["200", "403", "403"]
        assert online.cli("policy", "check", "--box", "tight", "other.example").returncode == 77, "it widens nothing"
        (waiting,) = json.loads(online.cli("policy", "pending", "--json").stdout)
        assert waiting["asks"] == ["GET other.example"]
        assert online.cli("policy", "approve", "--project", "tight").returncode == 0
        assert online.cli("policy", "check", "--box", "tight", "https://other.example/").returncode == 0
        assert online.cli("policy", "check", "--box", "tight", "--method", "POST", "other.example").returncode == 77
        reopened = online.cli("policy", "allow", "--box", "tight", HOST, "--method", "GET", "--path", "/x")
        assert reopened.returncode == 0, reopened.stderr
        assert statuses(online, "tight", "GET /docs/x", "GET /x", "GET /y") == ["200", "200", "403"]
    finally:
        project.unlink()


def test_roots_of_the_host_that_change_are_taken_in(online: Online, internet: Internet) -> None:
    assert online.cli("create", "--allow-request", f"GET {HOST}", "held", ".").returncode == 0
    assert statuses(online, "held", "GET /x") == ["200"]
    bundle = internet.root / "bundle.pem"
    trusted = bundle.read_bytes()
    try:
        bundle.write_bytes(make_authority("somebody else").certificate_pem)
        until(lambda: statuses(online, "held", "GET /x") == ["502"], "the server is not trusted any more", 20)
    finally:
        bundle.write_bytes(trusted)
    until(lambda: statuses(online, "held", "GET /x") == ["200"], "it is trusted again", 20)
