"""doctor: one line for each thing that was tried, with its fix, a verdict, and a rebuild for a damaged database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.cli import doctor
from paddock.engines.base import Probe
from paddock.engines.container import runtimes

if TYPE_CHECKING:
    from tests.support.installation import Installation


def test_a_line_says_what_was_tried_and_its_fix_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        Probe(name="seccomp", ok=True, detail="works", fix="not shown"),
        Probe(name="seccomp", ok=False, detail="broken\x1b[31m", fix="install it"),
        Probe(name="kvm", ok=False, detail="missing"),
    ]
    doctor._print(found, ["box x: \x07 mended"])
    assert capsys.readouterr().out.splitlines() == [
        "ok  seccomp          works",
        "NO  seccomp          broken\\x1b[31m",
        "                     fix: install it",
        "no  kvm              missing",
        "    repaired         box x: \\x07 mended",
    ]


@pytest.mark.box
def test_a_machine_that_works_is_said_to(installation: Installation) -> None:
    done = installation.cli("doctor")
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, lines[-1]) == (0, "process boxes work here")
    assert lines[0].startswith("ok  process engine   a box ran a command in ")
    tried = {line[4:20].strip() for line in lines if line[:2].strip()}
    assert {"user namespaces", "seccomp", "landlock", "cgroups", "nftables", "overlay", "oci runtimes", "kvm"} <= tried
    assert installation.cli("ls", "-q").stdout == b""


@pytest.mark.box
@pytest.mark.container
def test_containers_are_tried_by_each_runtime(installation: Installation) -> None:
    lines = installation.cli("doctor").stdout.decode().splitlines()
    tried = [line for line in lines if line[4:].startswith("container ")]
    assert [line.split()[2] for line in tried] == runtimes.installed()
    assert [line for line in tried if " a box ran a command in " not in line] == []
    assert installation.cli("ls", "-q").stdout == b""


def test_without_a_runtime_it_says_what_installs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "installed", list[str])
    (line,) = doctor._container_engines(Probe(name="daemon", ok=True, detail=""))
    assert (line.ok, line.fix) == (False, "sudo apt install crun")
    assert line.detail == "none of crun, runc, runsc is installed"


@pytest.mark.box
def test_programs_read_the_same(installation: Installation) -> None:
    read = json.loads(installation.cli("doctor", "--json").stdout)
    assert (read["works"], read["repairs"]) == (True, [])
    assert {"name", "ok", "detail", "fix"} == set(read["probes"][0])


@pytest.mark.box
def test_a_broken_machine_is_told_from_a_working_one(installation: Installation) -> None:
    done = installation.cli("doctor", env={"PADDOCK_HOME": "/proc/nowhere"})
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (125, b"")
    assert lines[0].startswith("NO  process engine   needs the daemon")
    assert "/proc/nowhere" in done.stdout.decode()
    assert lines[-1] == "process boxes do not work here: see the lines marked NO"


@pytest.mark.box
def test_a_damaged_database_is_rebuilt_from_the_boxes(own_installation: Installation) -> None:
    own_installation.cli("create", "box", "-e", "A=kept")
    own_installation.cli("exec", "box", "sh", "-c", "echo kept > ~/file")
    own_installation.cli("stop", "box")
    refused = own_installation.cli("doctor", "--rebuild")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (125, b"error: a daemon is running")
    own_installation.cli("daemon", "stop")
    for leftover in own_installation.state.glob("paddock.db-*"):
        leftover.unlink()
    (own_installation.state / "paddock.db").write_bytes(b"no database" * 1000)
    assert own_installation.cli("ls").returncode == 125, "the oracle: it is damaged"

    done = own_installation.cli("doctor", "--rebuild")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"box box: restored" in done.stdout
    assert own_installation.cli("ls", "-q").stdout == b"box\n"
    assert own_installation.cli("exec", "box", "sh", "-c", "cat ~/file; echo $A").stdout == b"kept\nkept\n"
