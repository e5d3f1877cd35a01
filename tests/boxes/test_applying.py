"""A review from its first change to its last apply, by the command line and the SDK, with real boxes."""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import ExecSpec, View, WorkspaceMode
from paddock.workspace import state
from tests.boxes.test_review import seen
from tests.support import contract
from tests.support.installation import until
from tests.support.terminal import Person
from tests.workspace.scenes import commit, git

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

REVIEW = View(mode=WorkspaceMode.REVIEW)
MANY = 1500


@pytest.fixture
def project(installation: Installation) -> Path:
    place = installation.workspace
    for name in ("one", "two", "shared"):
        (place / name).write_text(f"content of {name}\n")
    return place


def reviewing(paddock: Paddock, project: Path, name: str) -> Box:
    return paddock.create(name, workspace=str(project), view=REVIEW)


def said(box: Box, script: str) -> str:
    done = box.exec(["sh", "-c", script])
    assert done.exit_code == 0, (done.stdout, done.stderr)
    return done.stdout.decode()


# -- one box -----------------------------------------------------------------------------------------------------------


def test_changes_come_home_when_they_are_applied_and_go_when_that_is_undone(
    installation: Installation, project: Path
) -> None:
    before = {name: (project / name).read_bytes() for name in os.listdir(project)}
    script = "echo more >> one; rm two; echo new > three; echo 'all:' > Makefile"
    assert installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", script).returncode == 0
    assert {name: (project / name).read_bytes() for name in os.listdir(project)} == before
    names = installation.cli("diff", "--names", "box").stdout.decode().splitlines()
    assert names == ["!A Makefile", " M one", " A three", " D two"]
    applied = installation.cli("apply", "--all", "box")
    assert (applied.returncode, b"danger: Makefile" in applied.stderr) == (1, True), applied.stderr
    assert sorted(os.listdir(project)) == ["one", "shared", "three"]
    assert (project / "one").read_text() == "content of one\nmore\n"
    assert installation.cli("diff", "--names", "box").stdout == b"!A Makefile\n"
    undone = installation.cli("apply", "--undo", "box")
    assert undone.returncode == 0, undone.stderr
    assert {name: (project / name).read_bytes() for name in os.listdir(project)} == before
    assert installation.cli("diff", "--names", "box").stdout.decode().splitlines() == names


def test_what_is_dangerous_comes_home_by_its_own_path_alone(installation: Installation, project: Path) -> None:
    script = "mkdir .vscode; echo '{}' > .vscode/tasks.json; echo fine > plain"
    installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", script)
    for words in (["--all", "box"], ["box", ".vscode"], ["box", "."]):
        assert installation.cli("apply", *words).returncode == 1, words
        assert not (project / ".vscode" / "tasks.json").exists(), words
    assert (project / "plain").read_text() == "fine\n"
    done = installation.cli("apply", "box", ".vscode", ".vscode/tasks.json")
    assert done.returncode == 0, done.stderr
    assert (project / ".vscode" / "tasks.json").read_text() == "{}\n"


def test_a_person_is_asked_about_each_danger(installation: Installation, project: Path) -> None:
    script = "echo 'all:' > Makefile; echo 'all:' > justfile; echo plain > plain"
    installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", script)
    with Person(installation, "apply", "box") as someone:
        someone.sees(b"apply these 3 changes? [y/N]")
        someone.enter("y")
        someone.sees(b"Makefile: build: ")
        someone.sees(b"apply it? [y/N]")
        someone.enter("y")
        someone.sees(b"justfile: build: ")
        someone.enter("n")
        assert someone.leaves() == 1
    assert sorted(os.listdir(project)) == ["Makefile", "one", "plain", "shared", "two"]


def test_nothing_is_applied_where_nothing_was_chosen(installation: Installation, project: Path) -> None:
    installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", "echo x > new")
    before = seen(project)
    assert installation.cli("apply", "box").returncode == 2
    dry = installation.cli("apply", "--dry-run", "box")
    assert (dry.returncode, dry.stdout) == (0, b"write new (2 bytes, mode 0644)\n"), dry.stderr
    assert seen(project) == before


def test_what_is_discarded_is_gone_from_the_box_and_the_rest_is_not(paddock: Paddock, project: Path) -> None:
    box = reviewing(paddock, project, "box")
    said(box, "echo x > one; echo y > two; rm shared")
    box.discard(["one", "shared"])
    assert said(box, "cat one two shared") == "content of one\ny\ncontent of shared\n"
    assert [one.path for one in box.diff()] == ["two"]
    box.discard()
    assert box.diff() == []
    assert said(box, "cat two") == "content of two\n"


def test_a_session_goes_on_from_what_was_applied(paddock: Paddock, project: Path) -> None:
    box = reviewing(paddock, project, "box")
    script = "while read line; do echo $line >> one; echo done $line; done"
    with box.start(ExecSpec(argv=("sh", "-c", script), stdin=True)) as session:
        output = session.output()
        for number in ("first", "second", "third"):
            session.write(f"{number}\n".encode())
            assert next(output)[1] == f"done {number}\n".encode()
            done = box.apply()
            assert done.is_whole, done
        session.close_stdin()
    assert (project / "one").read_text() == "content of one\nfirst\nsecond\nthird\n"


def test_a_live_box_has_nothing_to_review(paddock: Paddock, project: Path, installation: Installation) -> None:
    box = paddock.create("box", workspace=str(project))
    for act in (box.diff, box.apply, box.undo, box.discard):
        with pytest.raises(UserError, match="live box"):
            act()
    assert b"nothing to review" in installation.cli("diff", "box").stderr


def test_an_existing_box_keeps_its_mode(installation: Installation) -> None:
    named = ("run", "--name", "kept")
    installation.cli(*named, "--review", "shell", ".", "--", "-c", "true")
    for words in (["--clone"], ["--mask", "file"], ["--branch", "x"]):
        (installation.workspace / "file").touch()
        done = installation.cli(*named, *words, "shell", ".", "--", "-c", "true")
        assert (done.returncode, b"exists with other" in done.stderr) == (2, True), (words, done.stderr)
    for words in (["--review"], []):
        assert installation.cli("run", *words, "shell", ".", "--", "-c", "echo x > new").returncode == 0
    assert not (installation.workspace / "new").exists()
    assert installation.cli("ls", "-q").stdout.split() == [b"kept"]


def test_hostile_names_and_lines_reach_no_terminal(installation: Installation, project: Path) -> None:
    script = r"""printf 'x\033]0;owned\007\n' > "$(printf 'a\nb\033[31m')"; printf '\033[2J\n' >> one"""
    installation.cli("run", "--review", "--name", "box", "--", "sh", "-c", script)
    for words in (["diff"], ["diff", "--stat"], ["diff", "--names"], ["diff", "--json"], ["apply", "--all"]):
        done = installation.cli(*words, "box")
        assert b"\033" not in done.stdout + done.stderr, words
    assert json.loads(installation.cli("diff", "--json", "box").stdout)[0]["path"] == "a\nb\033[31m"


def test_a_removed_box_waits_for_its_apply(installation: Installation, paddock: Paddock, project: Path) -> None:
    from paddock.fs import FileLock

    box = reviewing(paddock, project, "box")
    said(box, "echo x > one")
    lock = installation.state / "boxes" / box.info.id / "review" / "state" / "lock"
    with ThreadPoolExecutor(1) as pool:
        with FileLock(str(lock)):
            gone = pool.submit(box.remove, force=True)
            with pytest.raises(TimeoutError):
                gone.result(0.3)
        gone.result(30)


# -- several boxes -----------------------------------------------------------------------------------------------------


def test_ten_boxes_apply_their_own_changes_and_nothing_is_lost(paddock: Paddock, project: Path) -> None:
    boxes = [reviewing(paddock, project, f"box-{number}") for number in range(10)]
    together = threading.Barrier(len(boxes))

    def work(number: int) -> str:
        together.wait(60)
        return said(boxes[number], f"echo {number} > own-{number}; echo {number} >> shared; rm -f two")

    with ThreadPoolExecutor(len(boxes)) as pool:
        list(pool.map(work, range(len(boxes))))
    winners = []
    for number, box in enumerate(boxes):
        done = box.apply()
        assert (project / f"own-{number}").read_text() == f"{number}\n"
        if done.is_whole:
            winners.append(number)
        else:
            assert {item.path for item in done.plan.withheld} == {"shared"}
            assert {item.why.value for item in done.plan.withheld} == {"conflict"}
    assert winners == [0], "the first to come changes what all others started from"
    assert (project / "shared").read_text() == "content of shared\n0\n"
    assert not (project / "two").exists()
    for number, box in enumerate(boxes[1:], 1):
        assert said(box, "cat shared").endswith(f"\n{number}\n"), "what did not come home is still in its box"
        assert said(box, "ls own-* | wc -l") == "10\n", "and it sees what the others brought home"


def test_ten_boxes_that_apply_at_the_same_moment_lose_nothing(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    """Ten processes on one checkout: of what all changed one comes home, whoever it is, and nine are told."""
    boxes = [reviewing(paddock, project, f"box-{number}") for number in range(10)]
    (project / "gone").mkdir()
    (project / "gone/file").write_text("in all their ways\n")
    state.await_tick()
    for number, box in enumerate(boxes):
        said(box, f"mkdir own-{number}; echo {number} > own-{number}/file; echo {number} >> shared; rm -r gone")
    applies = [installation.spawn("apply", "--all", box.name) for box in boxes]
    ended = [(process.communicate(timeout=60), process.returncode) for process in applies]
    told = [(out.decode() + err.decode(), code) for (out, err), code in ended]
    winners = [number for number, (text, _) in enumerate(told) if "applied shared\n" in text]
    assert len(winners) == 1, told
    assert (project / "shared").read_text() == f"content of shared\n{winners[0]}\n"
    assert not (project / "gone").exists()
    for number, (text, code) in enumerate(told):
        assert (project / f"own-{number}/file").read_text() == f"{number}\n"
        assert f"applied own-{number}/file\n" in text
        if number != winners[0]:
            assert (code, "conflict: shared: " in text) == (1, True), text
            assert said(boxes[number], "cat shared") == f"content of shared\n{number}\n", "it is still in its box"
    assert not list(project.rglob(".paddock*"))


def test_a_box_says_that_its_workspace_changed_before_its_next_command(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    one, other = (reviewing(paddock, project, name) for name in ("one-box", "other-box"))
    said(one, "echo by-one > one")
    assert said(other, "cat one") == "content of one\n"
    one.apply()
    done = installation.cli("exec", "other-box", "cat", "one")
    assert (done.stdout, b"changes were applied (one-box)" in done.stderr) == (b"by-one\n", True), done.stderr
    assert installation.cli("exec", "other-box", "cat", "one").stderr == b"", "it is said once"
    said(other, "echo by-other >> one")
    assert other.apply().is_whole, "it had seen what it changed"
    said(one, "true")
    (project / "by-host").touch()
    assert b"the workspace changed on the host" in installation.cli("exec", "one-box", "ls").stderr


def test_changes_of_both_sides_are_merged_where_they_do_not_touch(installation: Installation, paddock: Paddock) -> None:
    project = installation.workspace / "project"
    lines = [f"line {number}\n" for number in range(20)]
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    commit(project, "file", "".join(lines))
    commit(project, "other", "one\n")
    box = reviewing(paddock, project, "box")
    said(box, "sed -i 's/line 15/of the box/' file; echo 'of the box' > other")
    (project / "file").write_text("".join(["of the host\n", *lines[1:]]))
    (project / "other").write_text("of the host\n")
    plain = installation.cli("apply", "--all", "box")
    assert plain.stderr.count(b"conflict: ") == 2, plain.stderr
    done = installation.cli("apply", "--all", "--merge", "box")
    assert (done.returncode, done.stdout) == (1, b"merged file\n"), done.stderr
    assert b"conflict: other" in done.stderr
    wanted = ["of the host\n", *lines[1:15], "of the box\n", *lines[16:]]
    assert (project / "file").read_text() == "".join(wanted)
    assert (project / "other").read_text() == "of the host\n"
    assert [one.path for one in box.diff()] == ["other"]
    assert installation.cli("apply", "--undo", "box").returncode == 0
    assert (project / "file").read_text() == "".join(["of the host\n", *lines[1:]])


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_a_killed_apply_leaves_each_file_before_or_after_and_the_next_says_which(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    for number in range(MANY):
        (project / f"file-{number}").write_text("before\n")
    box = reviewing(paddock, project, "box")
    said(box, f"for n in $(seq 0 {MANY - 1}); do echo after > file-$n; done; echo new > new")
    files = [project / f"file-{number}" for number in range(MANY)]
    process = installation.spawn("apply", "--all", "box")
    until(lambda: any(file.read_text() == "after\n" for file in files), "the apply has begun")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    after = [file.name for file in files if file.read_text() == "after\n"]
    assert all(file.read_text() in {"before\n", "after\n"} for file in files)
    assert 0 < len(after) < MANY, "the oracle: it was killed in the middle"
    done = installation.cli("apply", "--all", "box")
    told = done.stdout.decode().splitlines()
    assert set(after) <= {line.split()[-1] for line in told if line.startswith("applied before the interruption")}
    assert all(file.read_text() == "after\n" for file in files), done.stderr
    assert [one.path for one in box.diff(lines=False)] == []
    assert not [name for name in os.listdir(project) if name.startswith(".paddock")]
    assert (project / "new").read_text() == "new\n"
    box.remove(force=True)
    until(lambda: not list((installation.state / "trash").iterdir()), "its many files are gone", 60)
