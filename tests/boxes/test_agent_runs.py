"""Runs of agents by the real command line: what is kept of them, whatever is killed, and what people are told."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import contract, scripted
from tests.support.installation import Installation, alive, until
from tests.workspace.scenes import make_repository

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def runs(installation: Installation, *words: str) -> list[dict[str, object]]:
    done = installation.cli("runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def newest(installation: Installation) -> dict[str, object]:
    """Records outlive boxes: there may be others' of before."""
    return runs(installation, "--limit", "1")[0]


def ends(installation: Installation, run: object) -> dict[str, object]:
    def ended() -> dict[str, object] | None:
        done = installation.cli("runs", "show", "--json", str(run))
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found if found["reason"] != "running" else None

    until(ended, "the run ended", 30.0)
    found = ended()
    assert found is not None
    return found


def start(installation: Installation, *words: str) -> subprocess.Popen[bytes]:
    """A client that waits for an agent which says `ready`."""
    client = installation.spawn("run", "--agent-file", "../mine.toml", *words, "--", "go on for ever")
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    return client


def reap(client: subprocess.Popen[bytes]) -> bytes:
    _, stderr = client.communicate(timeout=60)
    return stderr


def test_the_end_of_a_run_tells_what_changed_what_was_refused_what_it_cost_and_what_to_do(
    installation: Installation,
) -> None:
    script = """
    case $* in *bad*) curl -s https://api.mine.test; exit 9;; esac
    echo x > new.py
    curl -s https://spy.mine.test; curl -s https://pypi.org; curl -s https://pypi.org
    echo well done"""
    more = '[hosts]\nallow = ["api.mine.test"]\ntelemetry = ["spy.mine.test"]\n'
    scripted.install(installation.workspace, script, more)
    run = ("run", "--agent-file", "../mine.toml")
    done = installation.cli(*run, "--review", "--name", "looked-at", "--", "please")
    assert done.stdout.decode().splitlines()[-1] == "well done"
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("paddock: ")]
    assert lines == [
        "paddock: changed: 1 file: new.py",
        "paddock: refused: pypi.org (2); telemetry, which it does not need: spy.mine.test",
        "paddock: cost: not counted: the box has no key that we lend, and no budget",
        (
            "paddock: next: `paddock diff looked-at` shows what it changed, `paddock apply looked-at` brings it home; "
            "`paddock policy suggest looked-at` prints rules for what was refused; "
            "`paddock run looked-at -- --continue` goes on"
        ),
    ]
    assert b"paddock: changed" not in installation.cli(*run, "-q", "--", "please").stderr
    mine, first = runs(installation, "--limit", "2")
    assert (first["box"], first["reason"]) == ("looked-at", "done")
    assert str(first["final"]).endswith("\nwell done")
    assert (mine["box"], mine["agent"], mine["mode"]) == ("looked-at", "mine", "headless")
    (line,) = [row for row in installation.cli("ls").stdout.decode().splitlines() if row.startswith("looked-at")]
    assert "idle" in line.split()
    table = installation.cli("runs", "--limit", "1").stdout.decode().splitlines()
    assert table[0].split()[:3] == ["RUN", "STARTED", "(UTC)"]
    assert [row.split()[0] for row in table[1:]] == [mine["id"]]
    shown = installation.cli("runs", "show", str(mine["id"])[:7]).stdout.decode()
    assert "said         well done" in shown
    assert "please" not in shown + json.dumps(runs(installation))
    denied = installation.cli(*run, "--name", "shut", "--block-host", "api.mine.test", "--", "bad")
    assert denied.returncode == 9
    told = denied.stderr.decode()
    assert "denied: it needs api.mine.test, which the policy refused" in told
    assert "`paddock policy suggest shut` prints rules" in told
    with installation.sdk() as sdk:
        (record,) = sdk.runs("shut")
        assert sdk.run_record(record.id) == record
        assert [info.box for info in sdk.runs(limit=2)] == ["shut", "looked-at"]


def test_a_prompt_is_in_no_file_of_the_state_directory(installation: Installation) -> None:
    scripted.install(installation.workspace, "echo said nothing of it")
    done = installation.cli("run", "--agent-file", "../mine.toml", "--", "the walrus and the carpenter")
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(b"the walrus and the carpenter").hexdigest()
    assert newest(installation)["prompt_sha256"] == digest
    files = [path for path in installation.state.rglob("*") if path.is_file() and not path.is_symlink()]
    holding = {path.name for path in files if b"walrus" in path.read_bytes()}
    assert holding == set()
    assert any(digest.encode() in path.read_bytes() for path in files), "and this is how it would be found"


def test_of_a_clone_the_files_that_the_agent_wrote_are_told_and_not_those_that_it_found(
    installation: Installation,
) -> None:
    make_repository(installation.workspace)
    scripted.install(installation.workspace, "echo x > cloned; echo x >> file")
    committed = installation.shell("git add -A && git -c user.name=x -c user.email=x commit -qm more")
    assert committed.returncode == 0, committed.stderr
    done = installation.cli("run", "--clone", "--agent-file", "../mine.toml", "--", "p")
    assert done.returncode == 0, done.stderr
    info = newest(installation)
    assert info["changed"] == {"count": 2, "names": ["cloned", "file"], "complete": True}
    assert f"`paddock git {info['box']} log` lists the commits that came home" in done.stderr.decode()
    assert not (installation.workspace / "cloned").exists()


def test_a_client_that_is_killed_leaves_a_record_that_ends(installation: Installation) -> None:
    scripted.install(installation.workspace, "echo ready; exec sleep 1000")
    client = start(installation)
    info = newest(installation)
    assert (info["reason"], info["exit_code"]) == ("running", None)
    doing = [row for row in installation.cli("ls").stdout.decode().splitlines() if "mine headless" in row]
    assert len(doing) == 1
    client.kill()
    reap(client)
    found = ends(installation, info["id"])
    assert (found["reason"], found["why"], found["final"]) == ("killed", "signal 1", "ready")


def test_a_box_that_is_killed_or_stopped_or_ended_by_a_limit_ends_its_run(installation: Installation) -> None:
    scripted.install(installation.workspace, "echo ready; exec sleep 1000")
    client = start(installation)
    (box,) = json.loads(installation.cli("ls", "--json").stdout)
    os.kill(box["pid"], signal.SIGKILL)
    assert b"killed: its first process ended unexpectedly" in reap(client)
    client = start(installation)
    assert installation.cli("stop", "--grace", "0", box["name"]).returncode == 0
    assert b"killed: the box was stopped" in reap(client)
    client = start(installation)
    assert installation.cli("rm", "-f", box["name"]).returncode == 0
    assert b"killed: the box was stopped" in reap(client)
    assert newest(installation)["ended"]
    client = start(installation, "--name", "brief", "--timeout", "1s")
    assert b" timeout: " in reap(client)
    assert [run["reason"] for run in runs(installation, "--limit", "4")] == ["timeout", *["killed"] * 3]
    assert newest(installation)["exit_code"] == 124


def test_a_daemon_that_is_killed_is_followed_by_one_that_waits_for_the_run_or_ends_its_record(
    own_installation: Installation,
) -> None:
    """Three runs: one goes on, one ends while nobody listens, and one is killed with its box."""
    home = own_installation.workspace
    script = 'case "$*" in *one*) n=one;; *two*) n=two;; *) n=three;; esac; echo up > up.$n; cat < go.$n; exit 6'
    scripted.install(home, script)
    ids = {}
    for name in ("one", "two", "three"):
        os.mkfifo(home / f"go.{name}")
        done = own_installation.cli("run", "-d", "--name", name, "--agent-file", "../mine.toml", "--", name)
        assert done.returncode == 0, done.stderr
        ids[name] = done.stdout.decode().strip().partition("/")[2]
    until(lambda: all((home / f"up.{name}").exists() for name in ids), "all three run")
    pids = {box["name"]: box["pid"] for box in json.loads(own_installation.cli("ls", "--json").stdout)}
    own_installation.kill_daemon()
    release(home / "go.two")
    os.kill(pids["three"], signal.SIGKILL)
    until(lambda: not alive(pids["three"]), "its box is gone")
    journals = list((own_installation.state / "boxes").glob(f"*/journal/{ids['two']}.0"))
    until(lambda: b'"code":6' in journals[0].read_bytes().replace(b" ", b""), "the second ended")
    found = {run["id"]: run for run in runs(own_installation)}
    assert found[ids["one"]]["reason"] == "running"
    second = ends(own_installation, ids["two"])
    assert (second["reason"], second["exit_code"]) == ("failed", 6)
    third = ends(own_installation, ids["three"])
    assert (third["reason"], third["exit_code"]) == ("killed", 137)
    own_installation.kill_daemon()
    release(home / "go.one")
    first = ends(own_installation, ids["one"])
    assert (first["reason"], first["exit_code"]) == ("failed", 6)
    assert "up.one" in str(first["changed"])


def test_a_silent_run_is_stuck_and_one_that_works_is_not(installation: Installation) -> None:
    """The agent works until it is told to rest; what is waited for is an event each time."""
    scripted.install(installation.workspace, "echo ready; while test ! -e rest; do :; done; exec sleep 1000")
    client = start(installation, "--stuck-after", "4s")
    info = newest(installation)
    until(lambda: seconds(installation) >= 9, "it worked for longer than it may be silent", 30.0)
    assert client.poll() is None
    (installation.workspace / "rest").touch()
    told = reap(client).decode()
    assert client.returncode == 79
    assert f"run {info['id']} stuck: no output, no request and no work for 4s" in told
    assert f"`paddock logs mine-workspace/{info['id']}` shows what it wrote; --stuck-after TIME" in told
    assert newest(installation)["reason"] == "stuck"
    bad = installation.cli("run", "--stuck-after", "soon", "--agent-file", "../mine.toml", "--", "p")
    assert (bad.returncode, b"--stuck-after" in bad.stderr) == (2, True)


def seconds(installation: Installation) -> float:
    from datetime import UTC, datetime

    started = datetime.fromisoformat(str(newest(installation)["started"]))
    return (datetime.now(UTC) - started).total_seconds()


def release(fifo: Path) -> None:
    with open(fifo, "w", encoding="utf-8"):
        pass


def test_agents_at_work_on_one_checkout_are_told_apart_and_change_nothing_of_each_other(
    installation: Installation,
) -> None:
    names = ("one", "two", "three")
    for name in names:
        os.mkfifo(installation.workspace / name)
    script = 'for last; do :; done; echo "$last" > shared; echo ready; read go < "$last"; cat shared'
    scripted.install(installation.workspace, script)
    run = ("run", "-q", "--review", "--agent-file", "../mine.toml")
    clients = {name: installation.spawn(*run, "--name", name, "--", name) for name in names}
    for client in clients.values():
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
    rows = [row.split() for row in installation.cli("ls").stdout.decode().splitlines()[1:]]
    assert {row[0] for row in rows if row[4:6] == ["mine", "headless"]} == set(names), "each is seen at work"
    assert not (installation.workspace / "shared").exists(), "the host sees nothing of it"
    for name in names:
        assert installation.cli("exec", name, "sh", "-c", f"echo go > {name}").returncode == 0
    for name, client in clients.items():
        assert client.communicate(timeout=60)[0] == f"{name}\n".encode(), "what it wrote itself"
        assert client.returncode == 0
        assert installation.cli("diff", "--names", name).stdout == b" A shared\n"
