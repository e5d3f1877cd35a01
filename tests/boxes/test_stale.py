"""What others change under a review box is told before its next command, and what it changes then is no conflict."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.model import ExecSpec, View, WorkspaceMode
from tests.support import contract
from tests.support.installation import IS_ROOT, until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

REVIEW = View(mode=WorkspaceMode.REVIEW)
OTHER_GROUP = 61998


@pytest.fixture
def project(installation: Installation) -> Path:
    place = installation.workspace
    (place / "src/deep").mkdir(parents=True)
    for name in ("top", "src/deep/one", "src/deep/two", "src/deep/three"):
        (place / name).write_text(f"content of {name}\n")
    return place


def reviewing(paddock: Paddock, project: Path, name: str) -> Box:
    return paddock.create(name, workspace=str(project), view=REVIEW)


def said(box: Box, script: str) -> str:
    done = box.exec(["sh", "-c", script])
    assert done.exit_code == 0, (done.stdout, done.stderr)
    return done.stdout.decode()


def warned(installation: Installation, box: Box, script: str = "true") -> str:
    """What the command line says besides the command's own output."""
    done = installation.cli("exec", box.name, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode()


def conflicts(box: Box) -> set[str]:
    return {item.path for item in box.apply(dry_run=True).plan.withheld if item.why.value == "conflict"}


def replace(path: Path, text: str) -> None:
    beside = path.with_name("beside")
    beside.write_text(text)
    if IS_ROOT:
        os.chown(beside, path.parent.stat().st_uid, path.parent.stat().st_gid)
    beside.rename(path)


# -- the host ----------------------------------------------------------------------------------------------------------


def test_an_edit_of_the_host_anywhere_is_told_once_and_what_the_box_does_then_is_no_conflict(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    box = reviewing(paddock, project, "box")
    said(box, "echo early > src/deep/three; cat src/deep/one src/deep/two")
    (project / "src/deep/one").write_text("in place\n")
    replace(project / "src/deep/two", "by rename\n")
    (project / "src/deep/three").write_text("too late\n")
    told = warned(installation, box, "cat src/deep/one src/deep/two > /dev/null")
    assert "the workspace changed on the host at " in told
    assert all(f"src/deep/{name}" in told for name in ("one", "two", "three") if name != "two")
    assert warned(installation, box) == "", "it is said once"
    said(box, "for name in one two three; do echo box >> src/deep/$name; done")
    assert conflicts(box) == {"src/deep/three"}, "the box had changed that before it could know"
    done = box.apply(["src/deep/one", "src/deep/two"])
    assert done.is_whole, done
    assert (project / "src/deep/one").read_text() == "in place\nbox\n"
    assert (project / "src/deep/two").read_text() == "by rename\nbox\n"
    (project / "src/deep/one").write_text("once more\n")
    assert "src/deep/one" in warned(installation, box), "what is watched stays watched"


def test_what_a_running_command_may_have_read_before_stays_a_conflict(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    box = reviewing(paddock, project, "box")
    script = "cat src/deep/one; read line; echo old >> src/deep/one; echo done; read line"
    with box.start(ExecSpec(argv=("sh", "-c", script), stdin=True)) as session:
        output = session.output()
        assert next(output)[1] == b"content of src/deep/one\n"
        for name in ("one", "two"):
            (project / f"src/deep/{name}").write_text("by the host\n")
        assert "src/deep/one" in warned(installation, box), "it is told at once"
        session.write(b"go\n")
        assert next(output)[1] == b"done\n"
        said(box, "echo new >> src/deep/two")
        assert conflicts(box) == {"src/deep/one", "src/deep/two"}, "somebody is there who knew the old ones"
        session.write(b"go\n")
        assert list(output) == [], "it ended"
    box.discard(["src/deep/two"])
    said(box, "echo new >> src/deep/two")
    assert conflicts(box) == {"src/deep/one"}, "whoever knew them is gone"


def test_a_process_that_was_left_behind_counts_as_one_that_runs(paddock: Paddock, project: Path) -> None:
    box = reviewing(paddock, project, "box")
    said(box, "cat src/deep/one; (setsid sleep 600 > /dev/null 2>&1 &)")
    (project / "src/deep/one").write_text("by the host\n")
    said(box, "echo box >> src/deep/one")
    assert conflicts(box) == {"src/deep/one"}


def test_what_changed_while_no_daemon_ran_is_told_by_the_next(own_installation: Installation) -> None:
    project = own_installation.workspace
    (project / "src").mkdir()
    (project / "src/one").write_text("one\n")
    with own_installation.sdk() as paddock:
        box = reviewing(paddock, project, "box")
        said(box, "cat src/one")
    own_installation.kill_daemon()
    (project / "src/one").write_text("by the host\n")
    with own_installation.sdk() as paddock:
        box = paddock.get("box")
        assert "changed on the host at src/one" in warned(own_installation, box, "echo box >> src/one")
        assert conflicts(box) == set()
        assert warned(own_installation, box) == ""


def test_a_live_box_beside_it_is_the_host(installation: Installation, paddock: Paddock, project: Path) -> None:
    box = reviewing(paddock, project, "box")
    said(box, "true")
    said(paddock.create("live", workspace=str(project)), "echo live > src/deep/one")
    told = warned(installation, box)
    assert "the workspace changed on the host at " in told
    assert "src/deep/one" in told


# -- other boxes -------------------------------------------------------------------------------------------------------


def test_an_apply_is_told_by_its_paths_to_those_who_see_them(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    one, other = (reviewing(paddock, project, name) for name in ("one-box", "other-box"))
    inner = reviewing(paddock, project / "src", "inner-box")
    for box in (one, other, inner):
        said(box, "true")
    said(one, "echo by-one > top; mkdir new; echo by-one > new/file")
    one.discard(["new"])
    assert (warned(installation, other), warned(installation, inner)) == ("", ""), "a discard is one's own"
    said(one, "mkdir new; echo by-one > new/file")
    one.apply()
    told = warned(installation, other, "cat new/file")
    assert "changes were applied (one-box) to new, new/file, top: the box sees" in told
    assert "on the host" not in told, "and not a second time"
    assert warned(installation, inner) == "", "what is not in its workspace is not its business"
    said(one, "echo by-one > src/deep/one")
    one.apply()
    assert "changes were applied (one-box) to deep/one" in warned(installation, inner)
    one.undo()
    assert "an apply was undone (one-box) to deep/one" in warned(installation, inner)
    said(other, "echo other > src/deep/one; echo other > new/file")
    assert conflicts(other) == set(), "it was told first"


# -- commands that run -------------------------------------------------------------------------------------------------


def test_what_a_command_writes_to_a_file_while_that_is_applied_is_not_lost(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    box = reviewing(paddock, project, "box")
    script = "exec 9>>top; echo first >&9; echo ready; read line; echo second >&9; echo done; read line"
    with box.start(ExecSpec(argv=("sh", "-c", script), stdin=True)) as session:
        output = session.output()
        assert next(output)[1] == b"ready\n"
        assert box.apply().is_whole
        assert (project / "top").read_text() == "content of top\nfirst\n"
        assert box.diff() == []
        session.write(b"go\n")
        assert next(output)[1] == b"done\n"
        assert [one.path for one in box.diff()] == ["top"]
        assert said(box, "cat top") == "content of top\nfirst\nsecond\n"
        session.write(b"go\n")
    assert box.apply().is_whole
    assert (project / "top").read_text() == "content of top\nfirst\nsecond\n"
    until(lambda: not list((installation.state / "boxes" / box.info.id / "review/upper").iterdir()), "nothing is left")


def test_a_command_that_never_stops_writing_loses_no_line(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    """Every line is in the box, or where we were told that it is, whatever was applied meanwhile."""
    box = reviewing(paddock, project, "box")
    script = "n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n >> log || exit 1; sleep 0.05; done; echo $n"
    tries = applied = 0
    kept: list[str] = []
    with box.start(ExecSpec(argv=("sh", "-c", script))) as session:
        until(lambda: box.diff(lines=False), "it has begun")
        while applied < 15 and tries < 200:
            tries += 1
            done = box.apply()
            applied += bool(done.result and done.result.stale)
            kept += [late.error.rpartition("/review/")[2] for late in done.rewritten if "kept" in late.error]
        said(box, "touch stop")
        last = int(b"".join(data for _, data in session.output()))
    assert applied == 15, "the oracle: it came home while it was written"
    review = installation.state / "boxes" / box.info.id / "review"
    lines = said(box, "cat log") + "".join((review / path).read_text() for path in kept)
    assert {int(line) for line in lines.split()} == set(range(1, last + 1))


# -- what cannot be changed --------------------------------------------------------------------------------------------


def _foreign_group() -> int:
    """A group that a review of ours does not know; root may give a file to any."""
    others = [group for group in os.getgroups() if group != os.getgid()]
    return OTHER_GROUP if IS_ROOT else (others or [-1])[0]


def test_files_of_another_group_are_named_and_cannot_be_changed_in_a_review(
    installation: Installation, project: Path
) -> None:
    group = _foreign_group()
    if group < 0:
        pytest.skip("this user is in one group only")
    os.chown(project / "src/deep/one", -1, group)
    run = ("run", "--review", "--name", "box", "--", "sh", "-c")
    done = installation.cli(*run, "cat src/deep/one; echo box >> src/deep/two; echo box >> src/deep/one")
    assert done.returncode != 0
    assert done.stdout == b"content of src/deep/one\n"
    assert b"src/deep/one belongs to another user or group" in done.stderr
    assert b"src/deep/two" not in done.stderr
    assert installation.cli("diff", "--names", "box").stdout == b" M src/deep/two\n"
    os.chown(project / "src/deep/one", -1, os.getgid())
    installation.cli("stop", "box")
    again = installation.cli("exec", "box", "sh", "-c", "echo box >> src/deep/one")
    assert again.returncode == 0, "the oracle: the group was all there was to it"
    assert b"belongs" not in again.stderr
