"""The issue's attack list against files, in every mode: links in motion, pipes, a flood of entries, hostile names.

Afterwards `diff`, `apply`, the report and the host's git neither hang nor write outside the workspace, and nothing of a
name reaches a terminal as it is. Every denial has its twin, in which something plainer falls for it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import ExecSpec, View, WorkspaceMode
from tests.adversarial.test_workspace_git import MODES, everyday
from tests.support import attack, contract
from tests.support.installation import until
from tests.workspace.scenes import ENV, make_repository, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Box, Paddock
    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

MANY = 100_000
AT_ONCE_S = 40.0  # for what must not hang; it takes a second or a few


def commands(installation: Installation, work: Path, *, whole: bool = True) -> bytes:
    """All that the host does with a box's work; what it says."""
    said = b""
    lines = [["diff", "box"], ["diff", "--stat", "box"], ["diff", "--names", "box"], ["diff", "--json", "box"]]
    lines += [["apply", "--dry-run", "box"], *([["apply", "--all", "box"]] if whole else [])]
    lines += [["git", "box", "fetch"], ["git", "box", "log"], ["git", "box", "log", "--json"], ["ls"]]
    for line in lines:
        start = time.monotonic()
        done = installation.cli(*line, cwd=work, timeout_s=AT_ONCE_S)
        assert done.returncode in {0, 1, 2, 125}, (line, done.stderr)
        assert b"Traceback" not in done.stderr
        assert time.monotonic() - start < AT_ONCE_S
        said += done.stdout + done.stderr
    return said


# -- links in motion ---------------------------------------------------------------------------------------------------

SWAP = """
import shutil, time
os.chdir(ARGS[0])
end = time.monotonic() + ARGS[2]
number = 0
print("ready", flush=True)
while time.monotonic() < end:
    try:
        os.makedirs("d", exist_ok=True)
        number += 1
        with open("d/f", "w") as file:
            file.write(str(number))
        os.rename("d", "e")
        os.symlink(ARGS[1], "d")
        os.unlink("d")
        os.rename("e", "d")
    except OSError:  # what was applied is below, and the kernel renames no directory of there
        for place in ("d", "e"):
            os.unlink(place) if os.path.islink(place) else shutil.rmtree(place, ignore_errors=True)
say(number)
"""


def naive(work: Path, stop: threading.Event) -> None:
    """The twin of apply: it opens by name, as most programs do."""
    while not stop.is_set():
        try:
            (work / "d" / "f").write_text("by the host")
        except OSError:
            continue


def test_a_directory_that_becomes_a_link_leads_no_write_astray(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    """In review by the applied box itself, in live mode by a box beside it on the same files."""
    victim = tmp_path / "victim"
    victim.mkdir()
    work = installation.workspace / "project"
    work.mkdir()
    reviewed = paddock.create("reviewed", workspace=str(work), view=View(mode=WorkspaceMode.REVIEW))
    live = paddock.create("live", workspace=str(work))
    for mover in (reviewed, live):
        argv = tuple(attack.program(SWAP, str(work), str(victim), 1.5))
        with mover.start(ExecSpec(argv=argv)) as moving:
            output = moving.output()
            assert b"ready" in next(output)[1]
            tries = _apply_until_it_ends(reviewed, output)
        assert tries > 1
        assert os.listdir(victim) == []
    stop = threading.Event()
    plain = tmp_path / "plain"
    plain.mkdir()
    with attack.background(lambda: naive(plain, stop)):
        attack.outside(SWAP.replace('print("ready", flush=True)', ""), str(plain), str(victim), 1.0)
        stop.set()
    assert os.listdir(victim) == ["f"], "the race is not live, so its denial proves nothing"


def _apply_until_it_ends(box: Box, output: object) -> int:
    ended = threading.Event()

    def wait() -> None:
        for _ in output:  # type: ignore[attr-defined]
            pass
        ended.set()

    tries = 0
    with attack.background(wait):
        while not ended.is_set():
            box.diff()
            box.apply(accept=lambda _plan, _danger: True)
            tries += 1
    return tries


# -- hard links --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_second_name_of_a_file_outside_is_written_in_live_mode_alone(
    installation: Installation, tmp_path: Path, mode: str
) -> None:
    """A bind mount cannot tell it from other files, as docs/security.md says; that is the oracle of the other modes."""
    work = make_repository(installation.workspace / "project")
    victim = installation.workspace / "victim"
    victim.write_text("one\n")
    (work / "file").unlink()
    os.link(victim, work / "file")
    done = installation.cli("run", *MODES[mode], "--name", "box", "--", "sh", "-c", "echo evil >> file", cwd=work)
    assert done.returncode == 0, done.stderr
    commands(installation, work)
    assert (victim.read_text() == "one\n") is (mode != "live")
    if mode == "review":
        assert (work / "file").read_text() == "one\nevil\n"


@pytest.mark.parametrize("mode", MODES)
def test_a_second_name_of_what_git_obeys_gets_no_box_to_it(installation: Installation, mode: str) -> None:
    work = make_repository(installation.workspace / "project")
    os.link(work / ".git/config", work / "alias")
    before = (work / ".git/config").read_bytes()
    script = "printf '[core]\\n\\tfsmonitor = false\\n' >> alias"
    done = installation.cli("run", *MODES[mode], "--name", "box", "--", "sh", "-c", script, cwd=work)
    if mode == "live":
        assert (done.returncode, b"another name of" in done.stderr) == (2, True), done.stderr
    else:
        commands(installation, work)
    assert (work / ".git/config").read_bytes() == before
    (work / "alias").unlink()
    os.link(work / ".git/config", work / "alias")
    subprocess.run(["sh", "-c", script], cwd=work, env=ENV, check=True)  # the oracle
    assert (work / ".git/config").read_bytes() != before


# -- what is no file ---------------------------------------------------------------------------------------------------

PIPES = """
import socket
os.chdir(ARGS[0])
places = [".envrc", "package.json", "Makefile", "file", "deep/.vscode", "paddock.bundle", "new/.git", "x/HEAD"]
for path in (*places, ".git/paddock.bundle", ".git/info/exclude"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
os.makedirs("x/objects"); os.makedirs("x/refs")
with socket.socket(socket.AF_UNIX) as server:
    server.bind("socket")
    os.link("socket", "socket2")
say([attempt(os.mknod, "whiteout", 0o020000, 0), attempt(os.mknod, "null", 0o020666, os.makedev(1, 3))])
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_pipe_or_socket_in_any_place_keeps_nobody_waiting(installation: Installation, mode: str) -> None:
    work = make_repository(installation.workspace / "project")
    argv = attack.program(PIPES, str(work))
    done = installation.cli("run", *MODES[mode], "--name", "box", "--", *argv, cwd=work, timeout_s=AT_ONCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == b'["EPERM", "EPERM"]'
    commands(installation, work)
    everyday(work)
    if mode == "live":
        assert b".envrc" in done.stderr
        with pytest.raises(subprocess.TimeoutExpired):  # the oracle
            subprocess.run(["cat", work / "Makefile"], check=False, timeout=0.5)
    else:
        assert (work / "file").read_text() == "one\n"
        assert not (work / "Makefile").exists()


# -- many, long and deep -----------------------------------------------------------------------------------------------

FLOOD = """
os.chdir(ARGS[0])
os.mkdir("many")
at = os.open("many", os.O_RDONLY)
for number in range(ARGS[1]):
    os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=at))
name = "d" * 255
os.mkdir("deep"); os.chdir("deep")
for number in range(300):
    os.mkdir(name); os.chdir(name)
for number in range(500):
    os.mkdir(f"{number}")
os.chdir(ARGS[0])
with open("sparse", "w") as file:
    file.truncate(1 << 33)
say("done")
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_flood_of_entries_costs_the_daemon_little(installation: Installation, mode: str) -> None:
    """A hundred thousand files, a path of 75 KB with hundreds beside each other at its end, and a sparse file."""
    work = make_repository(installation.workspace / "project")
    argv = attack.program(FLOOD, str(work), MANY)
    done = installation.cli("run", *MODES[mode], "--name", "box", "--", *argv, cwd=work, timeout_s=120)
    assert done.returncode == 0, done.stderr
    installation.cli("stop", "box")
    again = installation.cli("exec", "box", "true", cwd=work, timeout_s=AT_ONCE_S)
    assert again.returncode == 0, again.stderr
    if mode == "live":
        assert b"too large to look at all of it" in done.stderr
    peak = _peak_bytes(installation.daemon_pid())
    assert peak < 256 << 20, peak
    said = installation.cli("diff", "--names", "box", cwd=work, timeout_s=120)
    if mode == "review":
        assert said.stdout.count(b"many/f") == MANY
        applied = installation.cli("apply", "box", "sparse", "many/f7", cwd=work, timeout_s=120)
        assert b"refused: sparse" in applied.stderr
        assert os.listdir(work / "many") == ["f7"]
    assert installation.cli("rm", "-f", "box").returncode == 0
    until(lambda: not os.listdir(installation.state / "trash"), "what the box wrote is gone", 60)


def _peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmHWM"].split()[0]) << 10


# -- names -------------------------------------------------------------------------------------------------------------

HOSTILE = [
    b"new\nline",
    b"\x1b[31mred",
    b"\xff\xfe",
    "a\u202eb".encode(),
    b"\x07",
    b"a\rb",
    b"\xc2\x9b2J",
    b"\x1b]0;t\x07",
]
NAMES = """
os.chdir(ARGS[0])
for text in ARGS[1]:
    name = text.encode("latin-1")
    with open(name, "wb") as file:
        file.write(name * 3)
    os.mkdir(b"d" + name)
    with open(b"d" + name + b"/.envrc", "wb") as file:
        file.write(name)
    os.symlink(b"/" + name, b"l" + name)
    os.makedirs(b"r" + name + b"/.git")
    open(b"r" + name + b"/.git/HEAD", "w").close()
    tree = os.popen("git write-tree").read().strip()
    words = b"git -c user.name=$'x' -c user.email=x commit-tree -F - " + tree.encode()
    import subprocess
    env = {**os.environb, b"GIT_AUTHOR_NAME": name, b"GIT_AUTHOR_EMAIL": b"x", b"GIT_COMMITTER_NAME": b"x",
           b"GIT_COMMITTER_EMAIL": b"x"}
    argv = [b"git", b"commit-tree", tree.encode(), b"-m", b"s" + name]
    oid = subprocess.run(argv, env=env, capture_output=True).stdout.strip()
    subprocess.run([b"git", b"update-ref", b"refs/heads/b" + name.replace(b"\\x1b", b"").replace(b"[", b""), oid],
                   capture_output=True)
say("done")
"""


@pytest.mark.parametrize("mode", MODES)
def test_no_name_reaches_the_terminal_as_it_is(installation: Installation, mode: str) -> None:
    work = make_repository(installation.workspace / "project")
    argv = attack.program(NAMES, str(work), [name.decode("latin-1") for name in HOSTILE])
    done = installation.cli("run", *MODES[mode], "--name", "box", "--", *argv, cwd=work)
    assert done.returncode == 0, done.stderr
    said = done.stderr + commands(installation, work)
    for byte in (b"\x1b", b"\x07", b"\r", b"\x9b", b"\xff", "\u202e".encode()):
        assert byte not in said, (byte, said)
    assert b"refs/paddock/box/b%E2%80%AE" not in done.stdout
    assert b"b%FF%FE" in said or b"ba%E2%80%AEb" in said, "the branches came home under names of letters"
    assert b"\\x1b[31mred" in said, said
    listed = subprocess.run(["ls", "-N", "--color=never"], cwd=work, capture_output=True, check=True).stdout
    assert (b"\x1b" in listed) is (mode == "live"), "the oracle: a plain tool prints them"


def test_nothing_is_left_outside_by_all_of_these(paddock: Paddock, installation: Installation) -> None:
    """A review of links out of the tree: refused or asked about, and never followed."""
    victim = installation.workspace / "victim"
    work = installation.workspace / "project"
    for place in (victim, work, work / "dir"):
        place.mkdir()
    (victim / "kept").write_text("mine")
    before = snapshot(victim)
    box = paddock.create("box", workspace=str(work), view=View(mode=WorkspaceMode.REVIEW))
    script = f"rm -r dir; ln -s {victim} dir; ln -s ../victim/kept link; ln -s dir/kept chain; echo x > plain"
    assert box.exec(["sh", "-c", script]).ok
    done = box.apply()
    assert {item.path for item in done.plan.withheld} == {"dir", "link", "chain"}
    assert sorted(os.listdir(work)) == ["dir", "plain"]
    assert not (work / "dir").is_symlink()
    assert box.apply(accept=["dir", "link", "chain"]).is_whole
    assert (work / "dir").is_symlink(), "the oracle: with a yes to each they come"
    assert box.exec(["sh", "-c", "rm dir; mkdir dir; echo evil > dir/kept; echo evil > chain"]).exit_code >= 0
    box.apply(accept=lambda _plan, _danger: True)
    assert snapshot(victim) == before


def test_a_workspace_behind_a_link_of_another_box_is_refused(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    """A live box on the directory above turns the way to a review's workspace elsewhere."""
    work = installation.workspace / "project"
    inner = work / "a" / "sub"
    inner.mkdir(parents=True)
    victim = tmp_path / "victim"
    (victim / "sub").mkdir(parents=True)
    live = paddock.create("live", workspace=str(work))
    box = paddock.create("box", workspace=str(inner), view=View(mode=WorkspaceMode.REVIEW))
    assert box.exec(["sh", "-c", "echo evil > planted"]).ok
    assert live.exec(["sh", "-c", f"mv a old; ln -s {victim} a"]).ok
    assert (inner / ".." / "sub").resolve() == victim / "sub", "the oracle: by name it leads there"
    for act in (box.diff, box.apply, box.discard, box.undo):
        with pytest.raises(UserError, match="was replaced"):
            act()
    assert os.listdir(victim / "sub") == []
    assert live.exec(["sh", "-c", "rm a; mv old a"]).ok
    assert box.apply().is_whole
    assert os.listdir(inner) == ["planted"]
