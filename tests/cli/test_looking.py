"""ls, inspect, env: tables for people, JSON for programs, and nothing of a box that acts on a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.cli import looking
from paddock.model import BoxInfo, BoxState, Enforcement, LimitReport, Mount, SecretUse
from tests.support.infos import BOX

if TYPE_CHECKING:
    from tests.support.installation import Installation


INFO = replace(
    BOX,
    state=BoxState.FAILED,
    reason="it \x1b]52;c;aGk=\x07 broke",
    workspace="/w\nx",
    mounts=(Mount(source="/a", target="/b", read_only=True), Mount(source="/c", target="/d")),
    env_names=("A", "B"),
    workdir="/w",
    created_at="2030-01-01T00:00:00+00:00",
)


def test_what_a_box_is_is_shown_line_by_line_and_harmless() -> None:
    lines = looking._shown(replace(INFO, secrets=(SecretUse(name="shop", read_only=True),))).splitlines()
    assert "secret       shop, read-only" in lines
    assert "state        failed (it \\x1b]52;c;aGk=\\x07 broke)" in lines
    assert "workspace    /w\\nx" in lines
    assert "environment  A B" in lines
    assert "mount        /a at /b, read-only" in lines
    assert "mount        /c at /d" in lines
    assert "pid          -" in lines


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        (LimitReport(name="m", value="1GiB", enforcement=Enforcement.KERNEL), "1GiB, held by the kernel"),
        (LimitReport(name="m", value="1GiB", enforcement=Enforcement.PER_PROCESS, note="x"), "1GiB, per process: x"),
        (LimitReport(name="d", value="1GiB", enforcement=Enforcement.WATCHED), "1GiB, watched"),
        (LimitReport(name="c", value="2", enforcement=Enforcement.NONE, note="why"), "2, NOT ENFORCED: why"),
        (LimitReport(name="c", value="all", enforcement=Enforcement.NONE), "all"),
    ],
)
def test_a_limit_says_who_holds_it(report: LimitReport, shown: str) -> None:
    assert looking._limit(report) == shown


@pytest.mark.box
def test_no_boxes_are_an_empty_result_and_a_word_for_people(installation: Installation) -> None:
    done = installation.cli("ls")
    assert (done.stdout, done.stderr) == (b"", b"no boxes; `paddock run shell .` makes one\n")
    assert installation.cli("ls", "-q").stdout == b""
    assert json.loads(installation.cli("ls", "--json").stdout) == []


@pytest.mark.box
def test_boxes_are_listed_for_people_for_scripts_and_for_programs(installation: Installation) -> None:
    installation.cli("create", "one")
    installation.cli("create", "two", "-e", "SECRET=hunter2")
    installation.cli("exec", "two", "true")
    table = installation.cli("ls").stdout.decode().splitlines()
    assert table[0].split() == ["NAME", "AGENT", "ENGINE", "STATE", "DOING", "NETWORK", "MODE", "WORKSPACE", "REASON"]
    assert [line.split()[:7] for line in table[1:]] == [
        ["one", "shell", "process", "created", "-", "deny", "live"],
        ["two", "shell", "process", "running", "idle", "deny", "live"],
    ]
    assert installation.cli("ls", "-q").stdout == b"one\ntwo\n"
    listed = [codec.from_wire(BoxInfo, row) for row in json.loads(installation.cli("ls", "--json").stdout)]
    assert [(box.name, box.state.value, box.env_names) for box in listed] == [
        ("one", "created", ()),
        ("two", "running", ("SECRET",)),
    ]
    assert b"hunter2" not in installation.cli("inspect", "--json", "two").stdout


@pytest.mark.box
def test_inspect_shows_several_boxes_and_their_plans(installation: Installation) -> None:
    installation.cli("create", "one")
    installation.cli("create", "two")
    shown = installation.cli("inspect", "one", "two").stdout.decode()
    assert (shown.count("name         "), shown.count("\n\n")) == (2, 1)
    read = [codec.from_wire(BoxInfo, row) for row in json.loads(installation.cli("inspect", "--json", "one").stdout)]
    assert [limit.name for limit in read[0].limits] == ["memory", "cpus", "pids", "disk", "wall time"]
    plan = installation.cli("inspect", "--plan", "one").stdout.decode().splitlines()
    assert f"bind {installation.workspace} from {installation.workspace} nosuid,nodev" in plan
    assert plan[0].startswith("namespaces ")


@pytest.mark.box
def test_environment_changes_without_a_restart(installation: Installation) -> None:
    installation.cli("create", "box", "-e", "A=1")
    installation.cli("exec", "-d", "box", "sleep", "600")
    with installation.sdk() as sdk:
        before = sdk.get("box").info.pid
    assert installation.cli("env", "box").stdout == b"A\n"
    assert installation.cli("env", "box", "B=2", "C=x=y", "LANG", env={"LANG": "C.UTF-8"}).stdout == b"A\nB\nC\nLANG\n"
    assert installation.cli("env", "box", "-u", "A", "-u", "LANG", "B=3").stdout == b"B\nC\n"
    assert installation.cli("exec", "box", "sh", "-c", "echo [$A] [$B] [$C]").stdout == b"[] [3] [x=y]\n"
    with installation.sdk() as sdk:
        assert sdk.get("box").info.pid == before


@pytest.mark.box
@pytest.mark.parametrize("words", [["NOT_SET_ANYWHERE"], ["=x"], ["A B=1"]])
def test_environment_that_cannot_be_changes_nothing(installation: Installation, words: list[str]) -> None:
    installation.cli("create", "box", "-e", "A=1")
    done = installation.cli("env", "box", "B=2", *words)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 2)
    assert installation.cli("env", "box").stdout == b"A\n"
