"""Every kind of change that a real box makes is told as what it is, and comes home as that."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.model import View, WorkspaceMode
from tests.support import contract
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

ODD = os.fsdecode(b"non-utf8-\xff\xfe")
NEWLINE = "new\nline\033[2J"
# (what the box does, what is told of it): renames of directories are copies, file by file, as between file systems
ACTS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "content": ("echo more >> content", [("content", "modified", "")]),
    "added": ("echo new > added", [("added", "added", "")]),
    "deleted": ("rm deleted", [("deleted", "deleted", "")]),
    "renamed": ("mv renamed other-name", [("other-name", "added", "renamed"), ("renamed", "deleted", "")]),
    "renamed directory": (
        "mv tree moved-tree",
        [
            ("moved-tree", "added", ""),
            ("moved-tree/in", "added", "tree/in"),
            ("tree", "deleted", ""),
            ("tree/in", "deleted", ""),
        ],
    ),
    "deleted directory": (
        "rm -r whole",
        [("whole", "deleted", ""), ("whole/deep", "deleted", ""), ("whole/deep/file", "deleted", "")],
    ),
    "replaced directory": (
        "rm -r swapped; mkdir swapped; echo new > swapped/new",
        [("swapped/new", "added", ""), ("swapped/old", "deleted", "")],
    ),
    "mode alone": ("chmod 600 mode", [("mode", "mode", "")]),
    "mode of a directory": ("chmod 700 dir-mode", [("dir-mode", "mode", "")]),
    "new link": ("ln -s content link", [("link", "added", "")]),
    "changed link": ("ln -sfn elsewhere old-link", [("old-link", "modified", "")]),
    "binary": (r"printf 'a\000b' > binary", [("binary", "modified", "")]),
    "file to directory": (
        "rm was-file; mkdir was-file; echo x > was-file/in",
        [("was-file", "type", ""), ("was-file/in", "added", "")],
    ),
    "directory to file": (
        "rm -r was-dir; echo x > was-dir",
        [("was-dir", "type", ""), ("was-dir/in", "deleted", "")],
    ),
    "link to file": ("rm was-link; echo x > was-link", [("was-link", "type", "")]),
    "file to link": ("rm to-link; ln -s content to-link", [("to-link", "type", "")]),
    "empty directory": ("mkdir -p empty/inner", [("empty", "added", ""), ("empty/inner", "added", "")]),
    "newlines and escapes": (r"""echo x > "$(printf 'new\nline\033[2J')" """, [(NEWLINE, "added", "")]),
    "not UTF-8": (r"""echo x > "$(printf 'non-utf8-\377\376')" """, [(ODD, "added", "")]),
    "nothing after all": ("echo x > undone; rm undone; echo more >> same; cp orig same", []),
}


@pytest.fixture
def project(installation: Installation) -> Path:
    place = installation.workspace
    for directory in ("tree", "whole/deep", "swapped", "dir-mode", "was-dir"):
        (place / directory).mkdir(parents=True)
    names = ("content", "deleted", "renamed", "mode", "binary", "was-file", "to-link", "orig", "same")
    for name in (*names, "tree/in", "whole/deep/file", "swapped/old", "was-dir/in"):
        (place / name).write_text(f"content of {name}\n" if name != "same" else "content of orig\n")
        (place / name).chmod(0o644)
    (place / "dir-mode").chmod(0o755)
    for name in ("old-link", "was-link"):
        (place / name).symlink_to("content")
    return place


def listing(place: Path) -> dict[str, tuple[str, int, bytes]]:
    found = {}
    for path in place.rglob("*"):
        status = path.lstat()
        kind = "dir" if path.is_dir() and not path.is_symlink() else "link" if path.is_symlink() else "file"
        data = os.fsencode(path.readlink()) if kind == "link" else path.read_bytes() if kind == "file" else b""
        found[str(path.relative_to(place))] = (kind, 0 if kind == "link" else stat.S_IMODE(status.st_mode), data)
    return found


def test_every_kind_of_change_is_told_as_what_it_is_and_comes_home(
    installation: Installation, paddock: Paddock, project: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-a", project, plain], check=True)
    script = "umask 022\n" + "\n".join(act for act, _ in ACTS.values())
    subprocess.run(["sh", "-c", script], cwd=plain, check=True, capture_output=True)
    box = paddock.create("box", workspace=str(project), view=View(mode=WorkspaceMode.REVIEW))
    before = listing(project)
    done = box.exec(["sh", "-c", script])
    assert done.exit_code == 0, done.stderr
    assert listing(project) == before
    told = {(one.path, one.kind, one.source) for one in box.diff()}
    assert told == {row for _, rows in ACTS.values() for row in rows}
    rows = json.loads(installation.cli("diff", "--json", "box").stdout)
    assert {row["path"] for row in rows} == {path for path, _, _ in told}, "names survive the wire"
    for words in ([], ["--stat"], ["--names"]):
        out = installation.cli("diff", *words, "box").stdout
        assert b"\033" not in out, words
        assert b"binary" in out
    assert len(installation.cli("diff", "--names", "box").stdout.splitlines()) == len(told), "one line each"
    applied = box.apply(accept=lambda _plan, _danger: True)
    assert applied.is_whole, applied.plan.withheld
    assert listing(project) == listing(plain), "the host has what the same acts make of a plain directory"
    assert box.diff() == []
    box.undo()
    assert listing(project) == before


MANY = 100_000
_MAKE = """
import os
for directory in range(1000):
    os.mkdir(f"d{directory}")
    for number in range(100):
        os.close(os.open(f"d{directory}/{number}", os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_hundred_thousand_files_of_a_box_are_told_in_bounded_memory(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    box = paddock.create("box", workspace=str(project), view=View(mode=WorkspaceMode.REVIEW))
    done = box.exec(["/usr/bin/python3", "-c", _MAKE])
    assert done.exit_code == 0, done.stderr
    told = installation.cli("diff", "--names", "box", timeout_s=120.0)
    assert told.stdout.count(b"\n") == MANY + 1000
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 700 * 1024, "kilobytes of the largest child"
    box.remove(force=True)
    until(lambda: not list((installation.state / "trash").iterdir()), "its files are gone", 120)
