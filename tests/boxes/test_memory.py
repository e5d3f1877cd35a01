"""gVisor boxes are kept as they run: checkpoints, restores and forks go on where their processes were."""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.skipif(not shutil.which("runsc"), reason="gVisor is not installed"),
]
GVISOR = ("--runtime", "runsc")
COUNTER = """
import os, sys, time
n = 0
while True:
    n += 1
    with open('/run/count.new', 'w') as file: file.write(f'{n} {os.getpid()} {sys.argv[1]}')
    os.rename('/run/count.new', '/run/count')
    time.sleep(0.01)
"""
has_ids = ids.of_caller(0).count > 1


@pytest.fixture
def box(installation: Installation, root: Path) -> Iterator[str]:
    """One in which a counter runs, with a word that is nowhere but in its memory."""
    name = installation.cli("create", *GVISOR, "-t", str(root), "shell").stdout.decode().strip()
    start = 'setsid python3 -c "$0" "$1" >/dev/null 2>&1 & until [ -s /run/count ]; do sleep 0.05; done'
    begun = installation.cli("exec", name, "sh", "-c", start, COUNTER, "remembered")
    assert begun.returncode == 0, begun.stderr
    yield name
    for one in installation.cli("ls", "-q").stdout.decode().split():
        if one.startswith(name):
            installation.cli("rm", "-f", one)


def count(installation: Installation, name: str) -> int:
    done = installation.cli("exec", name, "cat", "/run/count")
    number, _, word = done.stdout.split()
    assert word == b"remembered", done.stderr
    return int(number)


def goes_on(installation: Installation, name: str, since: int) -> bool:
    before = count(installation, name)
    assert before >= since
    until(lambda: count(installation, name) > before, f"the counter of {name} goes on")
    return True


@pytest.mark.skipif(not has_ids, reason="with one id nothing of it is kept")
def test_what_runs_goes_on_after_a_checkpoint_a_restore_and_in_two_forks(installation: Installation, box: str) -> None:
    before = count(installation, box)
    assert installation.cli("exec", box, "sh", "-c", "echo then > /etc/when").returncode == 0
    made = installation.cli("checkpoint", "create", box, "one")
    assert made.returncode == 0, made.stderr
    assert goes_on(installation, box, before)
    at = count(installation, box)
    assert installation.cli("exec", box, "sh", "-c", "echo later > /etc/when").returncode == 0
    until(lambda: count(installation, box) > at + 200, "it is far from where it was")
    back = installation.cli("checkpoint", "restore", "--stop", f"{box}@one")
    assert back.returncode == 0, back.stderr
    put_back = count(installation, box)
    assert goes_on(installation, box, before)
    assert put_back < at + 200 + before, "it counts from where it was then"
    assert installation.cli("exec", box, "cat", "/etc/when").stdout == b"then\n", "with the files of then"
    forks = installation.cli("checkpoint", "fork", "-n", "2", f"{box}@one")
    assert forks.returncode == 0, forks.stderr
    names = [name for name in installation.cli("ls", "-q").stdout.decode().split() if name.startswith(f"{box}-fork")]
    assert len(names) == 2
    for name in names:
        assert goes_on(installation, name, before)
    assert installation.cli("exec", names[0], "sh", "-c", "echo mine > /etc/when").returncode == 0
    assert installation.cli("exec", names[1], "cat", "/etc/when").stdout == b"then\n", "forks are apart"


@pytest.mark.skipif(not has_ids, reason="with one id nothing of it is kept")
def test_the_log_of_a_detached_command_goes_on(installation: Installation, root: Path) -> None:
    """And back to where it was when the box is put back."""
    say = "n=0; until [ -e /run/enough ]; do n=$((n+1)); echo line $n; sleep 0.02; done; echo the end"
    name = installation.cli("create", *GVISOR, "-t", str(root), "shell").stdout.decode().strip()

    def logged() -> list[bytes]:
        return installation.cli("logs", name).stdout.splitlines()

    try:
        begun = installation.cli("exec", "-d", name, "sh", "-c", say)
        assert begun.returncode == 0, begun.stderr
        until(lambda: len(logged()) > 5, "it is logged")
        made = installation.cli("checkpoint", "create", name, "one")
        assert made.returncode == 0, made.stderr
        before = len(logged())
        until(lambda: len(logged()) > before + 10, "it is logged after the checkpoint")
        assert installation.cli("exec", name, "touch", "/run/enough").returncode == 0
        until(lambda: logged()[-1] == b"the end", "and to its end")
        assert [b"line %d" % number for number in range(1, len(logged()))] == logged()[:-1], "with no line lost"
        assert installation.cli("checkpoint", "restore", "--stop", f"{name}@one").returncode == 0
        assert logged()[-1] != b"the end", "it runs again, and has not said so"
        assert installation.cli("exec", name, "touch", "/run/enough").returncode == 0
        until(lambda: logged()[-1] == b"the end", "it ends again")
        assert [b"line %d" % number for number in range(1, len(logged()))] == logged()[:-1]
    finally:
        installation.cli("rm", "-f", name)


@pytest.mark.skipif(not has_ids, reason="with one id nothing of it is kept")
def test_one_that_shares_its_network_is_refused_with_the_reason_and_runs_on(
    installation: Installation, root: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = installation.cli("create", *GVISOR, "-t", str(root), "--publish", f"{port}:8000", "shell")
    assert made.returncode == 0, made.stderr
    name = made.stdout.decode().strip()
    try:
        start = 'setsid python3 -c "$0" "$1" >/dev/null 2>&1 & until [ -s /run/count ]; do sleep 0.05; done'
        assert installation.cli("exec", name, "sh", "-c", start, COUNTER, "remembered").returncode == 0
        kept = installation.cli("checkpoint", "create", name, "one")
        assert kept.returncode == 2
        assert b"published ports" in kept.stderr
        assert goes_on(installation, name, 1)
    finally:
        installation.cli("rm", "-f", name)


@pytest.mark.skipif(not has_ids, reason="with one id nothing of it is kept")
def test_a_box_that_runs_is_forked_and_both_go_on(installation: Installation, box: str) -> None:
    before = count(installation, box)
    forked = installation.cli("checkpoint", "fork", box)
    assert forked.returncode == 0, forked.stderr
    assert goes_on(installation, box, before)
    assert goes_on(installation, f"{box}-fork", before)


@pytest.mark.skipif(not has_ids, reason="with one id nothing of it is kept")
def test_no_secret_is_in_what_is_kept_but_its_placeholder_is(installation: Installation, root: Path) -> None:
    """The search that does not find the one finds the other."""
    real = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz"
    assert installation.cli("secret", "set", "anthropic", stdin=real.encode()).returncode == 0
    made = installation.cli("create", *GVISOR, "-t", str(root), "--secret", "anthropic", "shell")
    assert made.returncode == 0, made.stderr
    name = made.stdout.decode().strip()
    try:
        read = "import os, time; s = os.environ['ANTHROPIC_API_KEY'] + '-kept'"
        hold = f"{read}; open('/run/up', 'w').write(s); time.sleep(600)"
        start = 'setsid python3 -c "$0" >/dev/null 2>&1 & until [ -s /run/up ]; do sleep 0.05; done; cat /run/up'
        begun = installation.cli("exec", name, "sh", "-c", start, hold)
        placeholder = begun.stdout.removesuffix(b"-kept")
        assert placeholder, begun.stderr
        assert real.encode() not in placeholder
        assert installation.cli("checkpoint", "create", name, "one").returncode == 0
        kept = [path.read_bytes() for path in (installation.state / "layers").rglob("*.img")]
        assert any(placeholder + b"-kept" in data for data in kept), "the oracle"
        assert not any(real.encode() in data for data in kept)
    finally:
        installation.cli("rm", "-f", name)
        installation.cli("secret", "rm", "anthropic")


@pytest.mark.skipif(has_ids, reason="with ids it is kept")
def test_with_one_id_it_is_refused_with_the_reason(installation: Installation, box: str) -> None:
    made = installation.cli("checkpoint", "create", box, "one")
    assert made.returncode == 2
    assert b"it has one id" in made.stderr
    assert b"--stop" in made.stderr
    assert count(installation, box), "it runs on"
