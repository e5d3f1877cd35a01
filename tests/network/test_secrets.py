"""A real key never enters a box: the box has a placeholder, and its requests reach the one host with the key."""

from __future__ import annotations

import hashlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.internet import Internet, Online

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

KEY, OTHER_KEY = "live-5f0c2a7741d94e6b9f", "live-9b17e0c3a2d84f55c1"
SET = ("secret", "set", "shop", "--host", "allowed.example", "--header", "X-Api-Key", "--env", "SHOP_KEY")
ALLOW = ("--allow-host", "allowed.example", "--allow-host", "other.example")


def guarded(key: str, host: str = "allowed.example") -> str:
    return f"https://{host}/guarded/{hashlib.sha256(key.encode()).hexdigest()}"


def curl(key: str, host: str = "allowed.example", *, value: str = "$SHOP_KEY") -> str:
    return f'curl -sS -m 20 -H "X-Api-Key: {value}" {guarded(key, host)}'


@pytest.fixture
def shop(online: Online) -> Online:
    done = online.cli(*SET, stdin=KEY.encode())
    assert done.returncode == 0, done.stderr
    return online


def files_with(root: Path, word: bytes) -> list[str]:
    """Everything below that holds the word, but for where the value is kept."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".value" and word in path.read_bytes():
            found.append(str(path))
    return found


def test_a_box_uses_a_key_that_it_never_has(shop: Online, internet: Internet) -> None:
    outside = internet.run(["curl", "-sS", "-H", f"X-Api-Key: {KEY}", guarded(KEY)])
    assert outside.stdout == b"welcome\n"
    script = f"""
        echo "$SHOP_KEY"
        {curl(KEY)}
        {curl(KEY, "other.example")}
        env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'
    """
    done = shop.cli("run", "--secret", "shop", *ALLOW, "--name", "kept", "--", "sh", "-c", script)
    placeholder, welcome, elsewhere, *rest = done.stdout.decode().splitlines()
    assert len(placeholder) > 20
    assert (welcome, elsewhere) == ("welcome", "no such key"), done.stderr
    assert f"SHOP_KEY={placeholder}" in rest
    assert KEY not in done.stdout.decode()
    log = shop.cli("network", "log", "--json", "kept").stdout.decode()
    assert "/guarded/" in log
    assert KEY not in log


def test_where_requests_are_seen_neither_placeholder_nor_key_goes_to_another_host(shop: Online) -> None:
    plain = "curl -sS -m 20 -w '%{http_code}' http://other.example/ -o /dev/null"
    script = f'{plain}; for word in "$SHOP_KEY" {KEY}; do {plain} -H "X-Api-Key: $word"; done'
    done = shop.cli("run", "--secret", "shop", *ALLOW, "--", "sh", "-c", script)
    assert done.stdout == b"200403403", done.stderr


def test_the_value_is_nowhere_on_disk_but_where_it_is_kept(shop: Online) -> None:
    done = shop.cli("run", "--secret", "shop", *ALLOW, "--name", "kept", "--", "sh", "-c", curl(KEY))
    assert done.stdout == b"welcome\n", done.stderr
    shop.cli("inspect", "--json", "kept")
    assert files_with(shop.home, b"allowed.example")  # the same search finds what is there
    assert files_with(shop.home, KEY.encode()) == []
    shown = shop.cli("inspect", "--json", "kept").stdout + shop.cli("secret", "ls", "--json").stdout
    assert b"shop" in shown
    assert KEY.encode() not in shown


def test_without_the_secret_the_same_request_fails_and_without_a_rule_the_run_says_so(shop: Online) -> None:
    twin = shop.cli("run", *ALLOW, "--", "sh", "-c", curl(KEY, value="guess"))
    assert twin.stdout == b"no such key\n"
    closed = shop.cli("run", "--secret", "shop", "--", "sh", "-c", curl(KEY))
    assert b"welcome" not in closed.stdout
    assert b"no rule allows allowed.example, where the secret 'shop' goes" in closed.stderr
    unknown = shop.cli("run", "--secret", "nobody", "--", "true")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (2, b"error: there is no secret 'nobody'")


def test_a_box_that_runs_is_lent_a_secret_without_being_made_anew(shop: Online) -> None:
    assert shop.cli("create", *ALLOW, "plain").returncode == 0
    job = shop.cli("exec", "-d", "plain", "sleep", "60").stdout
    assert shop.cli("exec", "plain", "sh", "-c", curl(KEY)).stdout == b"no such key\n"
    lent = shop.cli("run", "--secret", "shop", "plain", "--", "-c", curl(KEY))
    assert (lent.stdout, b"secret shop: new to plain" in lent.stderr) == (b"welcome\n", True), lent.stderr
    assert shop.cli("exec", "plain", "sh", "-c", curl(KEY)).stdout == b"welcome\n"
    assert job.split(b"/")[1].strip() in shop.cli("logs", "--list", "plain").stdout  # nothing was restarted
    assert shop.cli("exec", "plain", "pgrep", "sleep").returncode == 0


def test_a_placeholder_of_one_box_is_nothing_in_another(shop: Online) -> None:
    first = shop.cli("run", "--secret", "shop", "--", "sh", "-c", "echo $SHOP_KEY").stdout.decode().strip()
    done = shop.cli("run", "--secret", "shop", *ALLOW, "--", "sh", "-c", f"{curl(KEY, value=first)}; {curl(KEY)}")
    assert done.stdout == b"no such key\nwelcome\n"


def test_a_new_value_is_used_without_a_restart_and_a_removed_one_is_named(shop: Online) -> None:
    assert shop.cli("create", "--secret", "shop", *ALLOW, "kept").returncode == 0
    assert shop.cli("exec", "kept", "sh", "-c", curl(KEY)).stdout == b"welcome\n"
    changed = shop.cli("secret", "set", "shop", stdin=OTHER_KEY.encode())
    assert (changed.returncode, changed.stderr) == (0, b"")
    again = shop.cli("exec", "kept", "sh", "-c", f"{curl(OTHER_KEY)}; {curl(KEY)}")
    assert again.stdout == b"welcome\nno such key\n"
    assert shop.cli("secret", "rm", "shop").returncode == 0
    gone = shop.cli("exec", "kept", "sh", "-c", f"{curl(OTHER_KEY)} -w %{{http_code}}")
    assert b"shop" in gone.stdout
    assert gone.stdout.endswith(b"424")


def test_a_key_of_the_shell_stays_in_memory_and_comes_back_with_the_next_run(online: Online) -> None:
    done = online.cli(*SET, "--from-env", "MY_KEY")
    assert done.returncode == 0, done.stderr
    mine = {"MY_KEY": KEY}
    words = ("run", "--name", "kept", *ALLOW)
    first = online.cli(*words, "--secret", "shop", "--", "sh", "-c", curl(KEY), env=mine)
    assert first.stdout == b"welcome\n", first.stderr
    assert files_with(online.home, KEY.encode()) == []
    online.kill_daemon()
    for _ in range(2):  # whoever runs a command is told, each time
        lost = online.cli("exec", "kept", "sh", "-c", curl(KEY))
        assert b"welcome" not in lost.stdout
        assert b"shop" in lost.stdout
        assert b"no value for the secret 'shop': MY_KEY was not set" in lost.stderr
    assert online.cli("exec", "kept", "sh", "-c", curl(KEY), env=mine).stdout == b"welcome\n"
    online.kill_daemon()
    assert online.cli(*words, "--", "sh", "-c", curl(KEY), env=mine).stdout == b"welcome\n"


def test_a_gateway_that_was_killed_gets_the_secrets_again(shop: Online) -> None:
    assert shop.cli("create", "--secret", "shop", *ALLOW, "kept").returncode == 0
    assert shop.cli("exec", "kept", "sh", "-c", curl(KEY)).stdout == b"welcome\n"
    before = shop.status()["gateway_pid"]
    assert isinstance(before, int)
    os.kill(before, signal.SIGKILL)
    until(lambda: shop.status()["gateway_pid"] not in {before, None}, "another gateway serves")
    assert shop.cli("exec", "kept", "sh", "-c", curl(KEY)).stdout == b"welcome\n"


def test_a_secret_that_takes_its_time_delays_nobody_else(online: Online, tmp_path: Path) -> None:
    gate, closed = tmp_path / "gate", tmp_path / "closed"
    os.mkfifo(gate)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n[ -e {closed} ] && exec cat {gate}\necho {KEY}\n")
    program.chmod(0o755)
    done = online.cli(*SET, "--from-command", str(program))
    assert done.returncode == 0, done.stderr
    assert online.cli("create", "--secret", "shop", *ALLOW, "slow").returncode == 0
    assert online.cli("create", *ALLOW, "quick").returncode == 0
    assert online.cli("exec", "slow", "sh", "-c", curl(KEY)).stdout == b"welcome\n"
    reach = "curl -sS -m 20 -o /dev/null -w '%{http_code}' https://other.example/"
    assert online.cli("exec", "quick", "sh", "-c", reach).stdout == b"200"
    closed.touch()
    gateway = online.status()["gateway_pid"]
    assert isinstance(gateway, int)
    online.kill_daemon()  # which remembers values of commands for a moment
    os.kill(gateway, signal.SIGKILL)
    assert online.cli("daemon", "start").returncode == 0
    writing: list[int] = []
    until(lambda: opened_for_writing(gate, writing), "the value is being looked up")
    try:
        assert online.cli("exec", "quick", "sh", "-c", reach).stdout == b"200"
        assert online.cli("run", *ALLOW, "--", "sh", "-c", reach).stdout == b"200"
        allowed = online.cli("policy", "allow", "--box", "slow", "more.example")
        assert allowed.returncode == 0, allowed.stderr
        os.write(writing[0], f"{KEY}\n".encode())
    finally:
        os.close(writing[0])
        closed.unlink()
    assert online.cli("exec", "slow", "sh", "-c", curl(KEY)).stdout == b"welcome\n"
    assert online.cli("policy", "check", "--box", "slow", "more.example").returncode == 0
    refused = online.cli("exec", "slow", "sh", "-c", "curl -sS -m 20 https://more.example/ -o answer; cat answer")
    assert b"is denied" not in refused.stdout, "what was allowed meanwhile is in force"


def opened_for_writing(fifo: Path, into: list[int]) -> bool:
    """Not while nobody reads it."""
    try:
        into.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
