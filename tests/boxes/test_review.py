"""Review mode: a box works on the whole workspace, and the host sees nothing of it until it is applied."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxRequest, ExecSpec, WorkspaceMode
from tests.support import contract
from tests.support.installation import IS_ROOT, until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.CORE

# One line for every way to change a tree.
WORK = """
set -e
echo changed > kept && echo more >> deep/er/file
echo made > new && mkdir -p made/dirs && echo x > made/dirs/file
rm removed && rm -r gone && rm -r swapped && mkdir swapped && echo other > swapped/other
mv moved moved-here && mv deep/dir ./dir-here && mv replaced-by kept-name
chmod 600 mode && chmod 700 deep && ln -sf nowhere link && ln -s kept new-link && rm unlinked
rm -r was-a-directory && echo file > was-a-directory
rm was-a-file && mkdir was-a-file && echo in > was-a-file/in
touch -d 2001-02-03 times && truncate -s 3 long && ln kept hard
echo odd > "$(printf 'a\\nb\\033[31m')"
"""
LISTING = r"""export LC_ALL=C
find . -path ./.git -prune -o -printf '%P|%y|%m|%s|%l\n' | sed 's/\(|d|[0-7]*|\)[0-9]*|/\1|/' | sort
find . -type f ! -path './.git/*' -print0 | sort -z | xargs -0 sha256sum"""


def _fill(place: Path) -> None:
    for directory in ("deep/er", "deep/dir", "gone/sub", "swapped", "was-a-directory"):
        (place / directory).mkdir(parents=True)
    names = ("kept", "removed", "moved", "replaced-by", "kept-name", "mode", "was-a-file", "times", "long")
    for name in (*names, "deep/er/file", "deep/dir/in", "gone/sub/file", "swapped/old", "was-a-directory/in"):
        (place / name).write_text(f"content of {name}\n")
    (place / "link").symlink_to("kept")
    (place / "unlinked").symlink_to("kept")


def seen(place: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that a box could have changed; what we keep or bring home for it is not the box's."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (place, *place.rglob("*")):
        if re.search(r"/\.git/(refs$|(logs/)?refs/paddock|logs(/refs)?$|objects/pack)", str(path)):
            continue
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        link = path.readlink() if stat.S_ISLNK(status.st_mode) else None
        owner = (status.st_uid, status.st_gid)
        found[str(path)] = (status.st_mode, owner, status.st_mtime_ns, status.st_ctime_ns, content, link)
    return found


def on(paddock: Paddock, workspace: Path, mode: WorkspaceMode = WorkspaceMode.REVIEW, **rest: object) -> Box:
    """A box of its own; `open` would give the one that is there."""
    request = BoxRequest(workspace=str(workspace), mode=mode, **rest)  # type: ignore[arg-type]
    return paddock.box(paddock.call("create", request=request))


def said(box: Box, script: str) -> str:
    done = box.exec(["sh", "-c", script])
    assert done.exit_code == 0, (done.stdout, done.stderr)
    return done.stdout.decode()


@pytest.fixture
def project(installation: Installation) -> Path:
    place = installation.workspace / "project"
    place.mkdir()
    _fill(place)
    return place


@pytest.fixture
def box(paddock: Paddock, project: Path) -> Box:
    return on(paddock, project)


# -- what the host sees ------------------------------------------------------------------------------------------------


def test_the_host_sees_nothing_of_a_review_and_everything_of_a_live_box(paddock: Paddock, project: Path) -> None:
    before = seen(project)
    said(on(paddock, project), WORK)
    assert seen(project) == before
    said(on(paddock, project, WorkspaceMode.LIVE), WORK)
    assert seen(project) != before


def test_inside_every_change_is_as_on_a_plain_directory(box: Box, project: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(project, plain, symlinks=True)
    subprocess.run(["sh", "-c", f"umask 022; {WORK}"], cwd=plain, check=True)
    wanted = subprocess.run(["sh", "-c", LISTING], cwd=plain, check=True, capture_output=True).stdout.decode()
    assert said(box, f"umask 022; {WORK}") == ""
    assert said(box, LISTING) == wanted


def test_a_review_box_finds_its_work_after_a_stop(box: Box, project: Path) -> None:
    said(box, WORK)
    before = said(box, LISTING)
    for _ in range(2):
        box.stop()
        assert said(box, LISTING) == before
    box.stop(grace_s=0.0)
    assert said(box, f"rm moved-here; {LISTING}") == "".join(
        line for line in before.splitlines(keepends=True) if "moved-here" not in line
    )
    assert (project / "moved").exists()


def test_a_review_box_outlives_the_daemon_with_its_work(own_installation: Installation) -> None:
    project = own_installation.workspace
    _fill(project)
    with own_installation.sdk() as paddock:
        box = on(paddock, project)
        said(box, WORK)
        before = said(box, LISTING)
    own_installation.kill_daemon()
    with own_installation.sdk() as paddock:
        box = paddock.get(box.name)
        assert said(box, LISTING) == before
        said(box, "cat mode; cat later || true")
        _replace(project / "mode", "by the host\n")
        (project / "later").write_text("by the host too\n")
        assert said(box, "cat later") == "by the host too\n", "the new daemon can let it look again"


def test_ten_boxes_review_one_checkout_at_once(paddock: Paddock, project: Path) -> None:
    before = seen(project)
    boxes = [on(paddock, project) for _ in range(10)]
    together = threading.Barrier(len(boxes))

    def work(number: int) -> str:
        together.wait(30)
        return said(boxes[number], f"{WORK}\necho {number} > own; echo {number} >> kept; mv own own-{number}; ls own-*")

    with ThreadPoolExecutor(len(boxes)) as pool:
        assert list(pool.map(work, range(len(boxes)))) == [f"own-{number}\n" for number in range(len(boxes))]
    for number, box in enumerate(boxes):
        assert said(box, "cat kept own-*") == f"changed\n{number}\n{number}\n", "and none sees another's"
    assert seen(project) == before


def test_nothing_of_a_review_is_left_when_its_box_is_removed(
    installation: Installation, paddock: Paddock, project: Path
) -> None:
    box = on(paddock, project)
    said(box, WORK)
    layers = installation.state / "boxes" / box.info.id / "review"
    assert {entry.name for entry in (layers / "upper").iterdir()} >= {"kept", "new", "swapped"}
    box.remove(force=True)
    until(lambda: not list((installation.state / "trash").iterdir()), "the trash is empty")
    assert not layers.exists()


# -- who owns it -------------------------------------------------------------------------------------------------------


def test_files_of_a_review_belong_to_the_workspaces_owner(installation: Installation, paddock: Paddock) -> None:
    project = installation.workspace / "owned"
    project.mkdir()
    (project / "kept").write_text("a\n")
    (project / "sub").mkdir()
    owner = (61234, 61233) if IS_ROOT else (os.getuid(), os.getgid())
    for path in (project, project / "kept", project / "sub"):
        os.chown(path, *owner)
    box = on(paddock, project)
    said(box, "echo b >> kept; touch made sub/made; mkdir dir; ln -s x link; rm -r sub; mkdir sub")
    upper = installation.state / "boxes" / box.info.id / "review" / "upper"
    found = {path: (os.lstat(path).st_uid, os.lstat(path).st_gid) for path in (upper, *upper.rglob("*"))}
    assert len(found) > 5
    assert set(found.values()) == {owner}
    inside = (0, 0) if contract.current().template else (1000, 1000) if IS_ROOT else owner
    seen = [f"{inside[0]}:{inside[1]}"] * 4 + [str(inside[0]), str(inside[1])]
    assert said(box, "stat -c %u:%g . kept made dir; id -u; id -g").split() == seen


@pytest.mark.privileged
def test_what_belongs_to_others_stays_theirs(paddock: Paddock, project: Path) -> None:
    for path in (project, *project.rglob("*")):
        os.chown(path, 61234, 61234, follow_symlinks=False)
    secret = project / "secret"
    secret.write_text("root's own\n")
    secret.chmod(0o600)
    os.chown(secret, 0, 0)
    box = on(paddock, project)
    assert box.exec(["cat", "secret"]).exit_code != 0
    assert box.exec(["sh", "-c", "echo x >> secret"]).exit_code != 0
    said(box, "chmod 600 kept; cat kept")


# -- what the host changes meanwhile -----------------------------------------------------------------------------------


def _replace(path: Path, text: str) -> None:
    """As editors, git and `apply` do."""
    beside = path.with_name(f"{path.name}.beside")
    beside.write_text(text)
    if IS_ROOT:
        os.chown(beside, path.parent.stat().st_uid, path.parent.stat().st_gid)
    beside.rename(path)


def test_the_next_command_sees_what_the_host_changed(box: Box, project: Path) -> None:
    said(box, "ls -R; cat kept mode removed deep/er/file; cat later || true; echo mine > new")
    _replace(project / "kept", "replaced\n")
    (project / "mode").write_text("in place\n")
    (project / "removed").unlink()
    (project / "later").write_text("later\n")
    shutil.rmtree(project / "deep")
    told = said(box, "cat kept mode later new; ls removed deep || true")
    assert told == "replaced\nin place\nlater\nmine\n"


def test_a_command_that_runs_goes_on_when_another_lets_the_box_look_again(box: Box, project: Path) -> None:
    script = "cat mode > /dev/null; exec 9<kept; echo open; read line; cat <&9; cat kept mode"
    with box.start(ExecSpec(argv=("sh", "-c", script), stdin=True)) as waiting:
        output = waiting.output()
        assert next(output)[1] == b"open\n"
        _replace(project / "kept", "replaced\n")
        _replace(project / "mode", "replaced too\n")
        said(box, "true")
        waiting.write(b"go\n")
        told = b"".join(data for _, data in output)
    assert told == b"content of kept\ncontent of kept\nreplaced too\n", "what is open stays what it is"


def test_what_the_box_changed_stays_when_the_host_changes_it_too(box: Box, project: Path) -> None:
    said(box, "echo mine > kept; rm removed; mkdir both; echo mine > both/file")
    _replace(project / "kept", "theirs\n")
    _replace(project / "removed", "theirs\n")
    (project / "both").mkdir()
    (project / "both/other").write_text("theirs\n")
    box.stop()
    assert said(box, "cat kept; ls both; ls removed || true") == "mine\nfile\nother\n"


# -- what is not in a review -------------------------------------------------------------------------------------------


def test_a_socket_or_pipe_of_the_host_does_not_answer(box: Box, project: Path) -> None:
    at = project / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(at))
        server.listen()
        with socket.socket(socket.AF_UNIX) as oracle:
            oracle.connect(str(at))
        code = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('socket')"
        done = box.exec(["/usr/bin/python3", "-c", code])
    assert (done.exit_code, b"ConnectionRefused" in done.stderr) == (1, True)
    os.mkfifo(project / "pipe")
    if IS_ROOT:
        os.chown(project / "pipe", 0, 0)
    said(box, "(echo through > pipe &) ; cat pipe")
    reader = os.open(project / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert os.read(reader, 10) == b""
    os.close(reader)


@pytest.mark.privileged
def test_a_workspace_with_a_mount_in_it_is_refused_by_name(paddock: Paddock, project: Path) -> None:
    inner = project / "deep" / "er"
    subprocess.run(["mount", "-t", "tmpfs", "none", inner], check=True)
    try:
        with pytest.raises(UserError, match=str(inner)) as caught:
            on(paddock, project).exec(["true"])
        assert "review" in caught.value.message
        assert on(paddock, project, WorkspaceMode.LIVE).exec(["true"]).exit_code == 0
    finally:
        subprocess.run(["umount", inner], check=True)


def test_a_box_cannot_forge_the_layers_own_marks(box: Box, installation: Installation, project: Path) -> None:
    code = """
import os
os.setxattr("deep", "user.overlay.opaque", b"y")
open("kept", "a").close()
try:
    os.mknod("whiteout", 0o020000, 0)
except PermissionError:
    print("refused")
print(sorted(os.listdir("deep")))
"""
    assert said(box, f"/usr/bin/python3 -c '{code}'").split("\n")[0] == "refused"
    box.stop()
    assert said(box, "ls deep") == "dir\ner\n"
    upper = installation.state / "boxes" / box.info.id / "review" / "upper"
    assert "user.overlay.opaque" not in os.listxattr(upper / "deep")


# -- git ---------------------------------------------------------------------------------------------------------------


def test_git_works_in_a_review(paddock: Paddock, project: Path) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    if IS_ROOT:
        git += ["-c", "safe.directory=*"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=project, check=True, capture_output=True)
    before = seen(project / ".git")
    box = on(paddock, project)
    assert said(box, "git status --porcelain") == ""
    said(box, "echo more >> kept; rm removed; echo new > new")
    assert said(box, "git status --porcelain") == " M kept\n D removed\n?? new\n"
    said(box, "git config user.name A; git config user.email a@example.com; git add -A; git commit -qm second")
    assert said(box, "git status --porcelain; git log --format=%s; git stash list") == "second\nfirst\n"
    assert seen(project / ".git") == before
