"""What is shown of commits: the same as git shows, and little however much a commit says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.workspace import commits, home
from paddock.workspace import git as git_runs
from tests.workspace.scenes import View, git, make_repository

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")

_HEAD = b"tree %s\nauthor " % (b"0" * 40)


def test_a_commit_is_read_as_git_reads_it(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    for message in ("plain", "two\nlines\n\nbody", "\n\nspaced  \n", "ümläut"):
        words = ("-c", "user.name=A  <> B", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", message)
        git(work, *words, "--date=2020-02-03T04:05:06-03:30")
    git(work, "commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "", "--date=2020-02-03T04:05:06+02:00")
    said = git(work, "log", "-z", "--format=%H%x01%an%x01%ae%x01%aI%x01%s").split("\0")[:-1]
    ids = [row.partition("\1")[0] for row in said]
    found = commits.read(git_runs.Place(git_dir=f"{work}/.git"), ids)
    shown = [(row.oid, row.author, row.email, row.date.replace("+00:00", "Z"), row.subject) for row in found]
    assert shown == [tuple(row.replace("+00:00", "Z").split("\1")) for row in said]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"author",
        _HEAD + b"x <y> 99999999999999 +0000\n\n",
        _HEAD + b"x <y> 1 +9999\n\n",
        _HEAD + b"x <y> -1 +0000\n\n",
        _HEAD + b"x 1 +0000\n\n",
    ],
)
def test_a_malformed_commit_has_no_date_and_stops_nobody(data: bytes) -> None:
    found = commits.parse("1" * 40, data)
    assert (found.date, found.subject) == ("", "")


def test_a_signature_is_no_author(tmp_path: Path) -> None:
    data = _HEAD + b"me <me@x> 1 +0000\ngpgsig a\n author you <you@x> 2 +0000\n\nauthor he <he@x> 3 +0000\n"
    assert commits.parse("1" * 40, data).author == "me"


def test_a_commit_with_a_message_without_end_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n\temail = some@example.com\n")
    view = View(make_repository(tmp_path / "work"), tmp_path / "private", user_home=tmp_path)
    view.run(
        "git commit -q --allow-empty -m one;"
        " head -c 20000000 /dev/zero | tr '\\0' x | git commit -q --allow-empty -F -;"
        " git -c i18n.commitEncoding=UTF-16 commit -q --allow-empty -m three"
    )
    view.bring_home()
    everything = git(view.workspace, "log", "--format=%s", "refs/paddock/box/main")
    assert len(everything) > 16 * limits.MIB, "who asks git for the subjects is given all of it"
    assert "three" not in everything, "and git converts what the commit says is UTF-16"
    rows = home.log(view.unit, view.name)
    assert [row.oid for row in rows] == git(view.workspace, "rev-list", "-3", "refs/paddock/box/main").split()
    assert rows[0].subject == "three"
    assert rows[1].subject.endswith("MiB, too long to be shown)")
    assert rows[2].subject == "one"
