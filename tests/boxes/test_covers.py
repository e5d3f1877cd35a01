"""Live mode: what is hidden from a box or closed to it stays so when the host replaces the file or directory."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.model import ExecSpec, Mount, WorkspaceMode
from tests.boxes.test_review import on, said
from tests.support import contract
from tests.support.installation import children, until
from tests.workspace.scenes import git, make_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.CORE

LIVE = WorkspaceMode.LIVE
MASKS = (".env", "conf/keys")
# Says over and over what the box can do, until `end` is there.
LOOP = """
n=0
while [ ! -e end ]; do
  n=$((n + 1))
  {
    cat .env conf/keys/* 2>/dev/null
    for file in .envrc .vscode/tasks.json nested/.git/config; do
      (echo x >> $file) 2>/dev/null && echo wrote $file
    done
    [ -e .git/description ] && echo sees the .git of the host
    echo $n
  } > report.new
  mv report.new report
done
"""
EVERYTHING = [
    "secret .env",
    "secret keys",
    *(f"wrote {name}" for name in (".envrc", ".vscode/tasks.json", "nested/.git/config")),
    "sees the .git of the host",
]


def save(path: Path, text: str) -> None:
    """As an editor does: another file under the same name."""
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_text(text)
    fresh.replace(path)


def fill(place: Path) -> None:
    """Whatever is covered, made anew in every way that takes a mount away."""
    save(place / ".env", "secret .env\n")
    save(place / ".envrc", "use nothing\n")
    for name, file in (("conf/keys", "key"), (".vscode", "tasks.json")):
        if (place / name).exists():
            (place / name).rename(place / "away")
            shutil.rmtree(place / "away")
        (place / name).mkdir(parents=True)
        (place / name / file).write_text(f"secret {os.path.basename(name)}\n")
    shutil.rmtree(place / "nested", ignore_errors=True)  # the directory on the way too
    git(place, "init", "-q", "nested")
    shutil.rmtree(place / ".git", ignore_errors=True)
    git(place, "init", "-q")
    (place / ".git/description").touch()


@pytest.fixture
def project(installation: Installation) -> Path:
    return filled(installation)


def filled(installation: Installation) -> Path:
    place = installation.workspace / "project"
    place.mkdir()
    fill(place)
    return place


def report(project: Path) -> list[str]:
    return (project / "report").read_text().splitlines()


def until_the_box_sees(project: Path, wanted: list[str]) -> None:
    """In three reports in a row, all of them made from now on."""
    first = int(report(project)[-1]) + 2
    good: set[int] = set()

    def is_settled() -> bool:
        *lines, number = report(project)
        if int(number) < first:
            return False
        if lines == wanted:
            good.add(int(number))
        else:
            good.clear()
        return len(good) >= 3

    until(is_settled, f"the box sees {wanted}, and not {report(project)}", 20.0)


@pytest.fixture
def looped(own_installation: Installation) -> Iterator[tuple[Installation, Path]]:
    """A box with a command that runs all the time, so that no start of another one helps."""
    project = filled(own_installation)
    with own_installation.sdk() as paddock:
        box = on(paddock, project, LIVE, masks=MASKS, name="looped")
        box.detach(["sh", "-c", LOOP])
    until((project / "report").exists, "the box reports")
    yield own_installation, project
    (project / "end").touch()


def test_whatever_the_host_replaces_is_covered_again_by_this_daemon_or_the_next(
    looped: tuple[Installation, Path],
) -> None:
    installation, project = looped
    until_the_box_sees(project, [])
    for _ in range(2):
        fill(project)
        until_the_box_sees(project, [])
    installation.kill_daemon()
    fill(project)
    until_the_box_sees(project, EVERYTHING)  # so nobody but the daemon covers it
    installation.cli("ls")  # starts another
    until_the_box_sees(project, [])
    fill(project)
    until_the_box_sees(project, [])


def test_no_command_starts_before_what_was_replaced_is_covered(paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, LIVE, masks=MASKS)
    unmasked = on(paddock, project, LIVE)
    for number in range(20):
        save(project / ".env", f"{number}\n")
        assert said(box, "cat .env; ls conf/keys") == ""
        assert said(unmasked, "cat .env") == f"{number}\n"
        save(project / ".envrc", f"{number}\n")
        assert said(box, "(echo x >> .envrc) 2>/dev/null || echo closed") == "closed\n"
    assert (project / ".envrc").read_text() == "19\n"


def test_no_box_renames_a_directory_around_its_workspace(paddock: Paddock, project: Path) -> None:
    """It would take the workspace along, and what is put back by name would lie over something else."""
    box = on(paddock, project, LIVE, masks=MASKS)
    around = [str(place) for place in project.parents][:-1]
    tried = (
        "import os, sys\nfor way in sys.argv[1:]:\n  try: os.rename(way, way + '2'); print(way)\n  except OSError: pass"
    )
    assert said(box, f"cd /; python3 -c {shlex.quote(tried)} {' '.join(around)}") == ""
    save(project / ".env", "secret\n")
    assert said(box, "cat .env") == ""


def test_mounts_and_processes_do_not_pile_up(installation: Installation, paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, LIVE, masks=MASKS)
    count = "wc -l < /proc/self/mountinfo"
    before = said(box, count)
    for number in range(100):
        save(project / ".env", f"{number}\n")
    assert said(box, "cat .env") == ""
    assert said(box, count) == before
    (launcher,) = [pid for pid in children(installation.daemon_pid()) if children(pid)]
    until(lambda: len(children(launcher)) == 1, "only the box is left")


def test_a_box_that_is_stopped_meanwhile_is_stopped_and_covered_when_it_starts(paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, LIVE, masks=MASKS)
    over = threading.Event()

    def go_on_saving() -> None:
        while not over.is_set():
            save(project / ".env", "secret\n")

    saving = threading.Thread(target=go_on_saving)
    saving.start()
    try:
        for _ in range(5):
            said(box, "true")
            box.stop(grace_s=0.0)
    finally:
        over.set()
        saving.join()
    assert said(box, "cat .env") == ""
    assert said(on(paddock, project, LIVE), "cat .env") == "secret\n"


def test_a_covered_file_that_is_renamed_stays_covered_under_its_new_name(paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, LIVE, masks=MASKS)
    assert said(box, "cat .env") == ""
    (project / ".env").rename(project / ".env~")
    (project / ".env").write_text("anew\n")
    (project / ".envrc").replace(project / "conf/keys/key")  # a cover of another kind comes with it
    assert said(box, "cat .env .env~; ls conf/keys") == ""
    assert said(on(paddock, project, LIVE), "cat .env .env~; ls conf/keys") == "anew\nsecret .env\nkey\n"


def test_a_box_whose_git_directory_becomes_a_link_is_ended(paddock: Paddock, project: Path) -> None:
    box = on(paddock, project, LIVE)
    job = box.detach(["sleep", "1000"])
    shutil.move(project / ".git", project / "elsewhere")
    (project / ".git").symlink_to("elsewhere")
    until(lambda: not box.refresh().pid, "the box has ended")
    assert "became a symbolic link" in box.refresh().reason
    assert [row.id for row in box.jobs()] == [job]


def test_that_a_repository_was_replaced_is_told_once(installation: Installation, project: Path) -> None:
    script = "touch .git/mine begun; until [ -e end ]; do :; done; until [ -e .git/mine ]; do :; done"
    words = ("run", "shell", ".", "--", "-c")
    with installation.spawn(*words, script, cwd=project) as run:
        until((project / "begun").exists, "the command runs")
        shutil.rmtree(project / ".git")
        make_repository(project)
        (project / "end").touch()
        told = run.communicate(timeout=20)[1]
    told += installation.cli(*words, "true", cwd=project).stderr  # where it was noticed after the first one's end
    assert told.count(f"{project}/.git was replaced while the box ran".encode()) == 1


def test_a_mask_of_a_review_holds_at_every_moment(paddock: Paddock, project: Path) -> None:
    """There the mount lies over a name of the overlay's own, which no program of the host can rename."""
    box = on(paddock, project, masks=MASKS)
    watch = "until [ -e end ]; do cat .env; done; cat .env"
    said(box, "true")
    with box.start(ExecSpec(argv=("sh", "-c", watch))) as command:
        command.wait_started()
        for number in range(200):
            save(project / ".env", f"{number}\n")
        said(box, "touch end")
        assert command.finish().stdout == b""
    assert said(on(paddock, project), "cat .env") == "199\n"


def test_a_part_that_was_opened_stays_open_and_a_read_only_mount_read_only(paddock: Paddock, project: Path) -> None:
    (project / "data").mkdir()
    mount = Mount(source=f"{project}/data", target=f"{project}/data", read_only=True)
    box = on(paddock, project, LIVE, writable=(".vscode/tasks.json",), mounts=(mount,))
    tries = "for f in .vscode/tasks.json .vscode/new data/new; do (echo x >> $f) 2>/dev/null && echo $f; done; true"

    def is_open() -> bool:
        could = said(box, tries)
        assert could in {"", ".vscode/tasks.json\n"}, "what is closed is so in every moment"
        return could != ""

    for _ in range(3):
        until(is_open, "it is open again")
        fill(project)
        (project / "data").rename(project / "away")
        (project / "data").mkdir()
        shutil.rmtree(project / "away")
