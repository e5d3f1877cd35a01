"""Checkpoints of boxes, by the command line: kept, put back, forked, compared and removed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import contract

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR


def say(one: Installation, *words: str) -> str:
    done = one.cli(*words)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.decode()


def made(one: Installation, *words: str) -> str:
    return say(one, "create", *one.kind, *words, "shell").strip()


def sh(one: Installation, box: str, script: str) -> str:
    return say(one, "exec", box, "sh", "-c", script)


def test_a_box_goes_back_forks_and_loses_nothing(own_installation: Installation) -> None:
    one = own_installation
    box = made(one)
    sh(one, box, "echo one > ~/file; mkdir ~/closed; echo x > ~/closed/in; chmod 000 ~/closed; ln -s /etc ~/link")
    assert say(one, "checkpoint", "create", box).strip() == f"{box}@c1"
    sh(one, box, "echo two > ~/file; chmod 700 ~/closed; rm -r ~/closed; echo new > ~/new")
    assert say(one, "checkpoint", "create", box, "second").strip() == f"{box}@second"
    differ = one.cli("checkpoint", "diff", f"{box}@c1", f"{box}@second")
    assert differ.returncode == 1
    assert {"~ /home/agent/file", "- /home/agent/closed", "- /home/agent/closed/in", "+ /home/agent/new"} <= {
        *differ.stdout.decode().splitlines()
    }
    assert one.cli("checkpoint", "diff", box, f"{box}@second").stdout == b""
    forks = say(one, "checkpoint", "fork", "-n", "3", f"{box}@c1").split()
    assert len({box, *forks}) == 4
    for number, fork in enumerate(forks):
        assert sh(one, fork, f"cat ~/file; echo {number} > ~/file; readlink ~/link; stat -c %a ~/closed") == (
            "one\n/etc\n0\n"
        )
    assert [sh(one, fork, "cat ~/file") for fork in forks] == ["0\n", "1\n", "2\n"]
    assert say(one, "checkpoint", "restore", f"{box}@c1").strip() == f"{box}@c1"
    assert sh(one, box, "cat ~/file; ls ~/new 2>/dev/null || echo gone; chmod 700 ~/closed; cat ~/closed/in") == (
        "one\ngone\nx\n"
    )
    say(one, "checkpoint", "rm", f"{box}@c1")
    assert [item["name"] for item in json.loads(say(one, "checkpoint", "ls", "--json", box))] == ["second"]
    assert [sh(one, fork, "cat ~/file") for fork in forks] == ["0\n", "1\n", "2\n"], "their layers are still there"
    say(one, "checkpoint", "restore", f"{box}@second")
    assert sh(one, box, "cat ~/file ~/new") == "two\nnew\n"
    say(one, "stop", box)
    refused = one.cli("rm", box)
    assert (refused.returncode, b"1 checkpoint" in refused.stderr) == (2, True)
    say(one, "rm", "-f", box, *forks)
    say(one, "checkpoint", "prune")
    assert os.listdir(one.state / "layers/frozen") == []


def test_the_root_of_a_container_is_frozen_and_whiteouts_with_it(own_installation: Installation) -> None:
    one = own_installation
    if not one.kind:
        pytest.skip("a process box has no root of its own")
    box = made(one)
    sh(one, box, "echo kept > /etc/kept; rm /etc/of-the-root; mkdir -p /opt/deep; echo a > /opt/deep/a")
    say(one, "checkpoint", "create", box, "a")
    sh(one, box, "rm /etc/kept; echo back > /etc/of-the-root; rm -r /opt/deep; mkdir /opt/deep; echo b > /opt/deep/b")
    say(one, "checkpoint", "create", box, "b")
    lines = one.cli("checkpoint", "diff", f"{box}@a", f"{box}@b").stdout.decode().splitlines()
    wanted = ["- /etc/kept", "+ /etc/of-the-root", "- /opt/deep/a", "+ /opt/deep/b"]
    assert [line for line in lines if line in wanted] == wanted
    assert not any("usr" in line for line in lines), "what both stand on is the same"
    look = "cat /etc/kept 2>/dev/null; cat /etc/of-the-root 2>/dev/null; ls /opt/deep"
    first, second = (say(one, "checkpoint", "fork", f"{box}@{name}").strip() for name in "ab")
    assert (sh(one, first, look), sh(one, second, look)) == ("kept\na\n", "back\nb\n")
    say(one, "checkpoint", "restore", f"{box}@a")
    assert sh(one, box, look) == "kept\na\n"
    say(one, "rm", "-f", box)
    say(one, "checkpoint", "prune")
    assert (sh(one, first, look), sh(one, second, look)) == ("kept\na\n", "back\nb\n")
    assert "used" in say(one, "df")


def test_users_of_a_container_cannot_keep_it_from_going_back(own_installation: Installation) -> None:
    """Where it has users of its own: they own what its directory's user may not move."""
    one = own_installation
    if not one.kind:
        pytest.skip("a process box has one user")
    box = made(one)
    theirs = (
        "for it in / /home/agent /srv/f; do chown 1000:1000 $it 2>/dev/null; done; chmod 700 /srv/f; chmod 711 /; true"
    )
    sh(one, box, f"mkdir /srv; echo kept > /srv/f; echo kept > ~/f; {theirs}")
    look = "cat /srv/f ~/f; stat -c %u /home/agent /srv/f; stat -c %a /"
    seen = sh(one, box, look)
    say(one, "checkpoint", "create", box, "a")
    assert sh(one, box, look) == seen
    sh(one, box, f"echo later > /srv/f; echo later > ~/f; {theirs}")
    fork = say(one, "checkpoint", "fork", f"{box}@a").strip()
    say(one, "checkpoint", "restore", f"{box}@a")
    assert [sh(one, name, look) for name in (box, fork)] == [seen, seen]
    say(one, "rm", "-f", box, fork)
    say(one, "checkpoint", "prune")
    assert os.listdir(one.state / "layers/frozen") == []


def test_what_runs_is_not_disturbed_unless_asked(own_installation: Installation) -> None:
    one = own_installation
    box = made(one)
    say(one, "exec", "-d", box, "sh", "-c", "echo begun > ~/begun; exec sleep 600")
    refused = one.cli("checkpoint", "create", box)
    assert refused.returncode == 2
    assert b"--stop" in refused.stderr
    assert b"--stop" in one.cli("checkpoint", "fork", box).stderr
    say(one, "checkpoint", "create", "--stop", box, "kept")
    fork = say(one, "checkpoint", "fork", box).strip()
    assert sh(one, fork, "cat ~/begun") == "begun\n"
    assert [item["name"] for item in json.loads(say(one, "checkpoint", "ls", "--json"))] == ["kept"]
    assert one.cli("checkpoint", "create", box, "kept").returncode == 2
    assert one.cli("checkpoint", "restore", f"{box}@none").returncode == 2
    new = made(one, "--name", "fresh")
    assert b"nothing to keep" in one.cli("checkpoint", "create", new).stderr


def test_a_review_is_part_of_it_and_a_live_workspace_is_not(own_installation: Installation, tmp_path: Path) -> None:
    one = own_installation
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("host\n")
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "base")):
        subprocess.run(["git", "-C", project, *words], check=True, timeout=20)
    place = str(project)
    box = say(one, "create", *one.kind, "--review", "shell", place).strip()
    sh(one, box, f"echo box > {place}/file; echo more > {place}/more; rm -f {place}/gone")
    say(one, "checkpoint", "create", box, "first")
    sh(one, box, f"echo later > {place}/file; rm {place}/more")
    fork = say(one, "checkpoint", "fork", f"{box}@first").strip()
    assert sh(one, fork, f"cat {place}/file {place}/more") == "box\nmore\n"
    say(one, "checkpoint", "restore", f"{box}@first")
    assert sh(one, box, f"cat {place}/file {place}/more") == "box\nmore\n"
    commit = f"cd {place}; git add -A; git -c user.name=n -c user.email=e commit -qm of-$1; git log --format=%s"
    assert [sh(one, name, commit.replace("$1", name)).split() for name in (box, fork)] == [
        [f"of-{box}", "base"],
        [f"of-{fork}", "base"],
    ], "each has a gitdir of its own"
    for name in (box, fork):
        assert b"more" in one.cli("diff", name).stdout
    assert (project / "file").read_text() == "host\n"
    live = say(one, "create", *one.kind, "--name", "live", "shell", place).strip()
    sh(one, live, f"echo first > {place}/live")
    say(one, "checkpoint", "create", live, "first")
    sh(one, live, f"echo second > {place}/live")
    say(one, "checkpoint", "restore", f"{live}@first")
    assert (project / "live").read_text() == "second\n"


def test_a_clone_is_part_of_it_with_its_commits(own_installation: Installation, tmp_path: Path) -> None:
    one = own_installation
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("host\n")
    named = ("-c", "user.name=n", "-c", "user.email=e")
    for words in (("init", "-q"), ("add", "."), (*named, "commit", "-qm", "base")):
        subprocess.run(["git", "-C", project, *words], check=True, timeout=20)
    commit = f"cd {project}; echo $1 > file; git {' '.join(named)} commit -qam $1; git log --format=%s"
    box = say(one, "create", *one.kind, "--clone", "shell", str(project)).strip()
    sh(one, box, commit.replace("$1", "first"))
    say(one, "checkpoint", "create", box, "a")
    sh(one, box, commit.replace("$1", "second"))
    fork = say(one, "checkpoint", "fork", f"{box}@a").strip()
    assert sh(one, fork, commit.replace("$1", "forked")).split() == ["forked", "first", "base"]
    say(one, "checkpoint", "restore", f"{box}@a")
    assert sh(one, box, f"cd {project}; cat file; git status --short; git log --format=%s").split() == [
        *("first", "first", "base")
    ]
    assert (project / "file").read_text() == "host\n"
    say(one, "git", fork, "fetch")
    assert "forked" in say(one, "git", fork, "log")


def test_a_fork_keeps_what_its_repository_borrows(own_installation: Installation, tmp_path: Path) -> None:
    """The box that it came from is gone before it starts, and so is the commit that both began with, on the host."""
    one = own_installation
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("host\n")

    def git(*words: str) -> None:
        named = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(["git", "-C", project, *named, *words], check=True, timeout=60, capture_output=True)

    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "base")):
        git(*words)
    box = say(one, "create", *one.kind, "--clone", "shell", str(project)).strip()
    sh(one, box, f"cd {project}; git log --format=%s")
    fork = say(one, "checkpoint", "fork", box).strip()
    say(one, "rm", "--force", box)
    git("commit", "-q", "--amend", "-m", "other")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    assert sh(one, fork, f"cd {project}; git log --format=%s; git show HEAD:file").split() == ["base", "host"]


def test_a_copy_of_a_live_workspace_is_kept_and_brought_out_on_request(
    own_installation: Installation, tmp_path: Path
) -> None:
    one = own_installation
    box = made(one)
    sh(one, box, "echo then > file; echo x > ~/x")
    plain = json.loads(say(one, "checkpoint", "create", "--json", box))
    assert "workspace" not in plain["parts"]
    copied = json.loads(say(one, "checkpoint", "create", "--with-workspace", "--json", box, "with"))
    assert copied["parts"][-1] == "workspace"
    (one.workspace / "file").write_text("now\n")
    say(one, "checkpoint", "restore", "--json", f"{box}@with")
    assert (one.workspace / "file").read_text() == "now\n"
    place = tmp_path / "out"
    assert say(one, "checkpoint", "workspace", f"{box}@with", str(place)).strip() == str(place)
    assert (place / "file").read_text() == "then\n"
    again = one.cli("checkpoint", "workspace", f"{box}@with", str(place))
    assert (again.returncode, b"exists" in again.stderr) == (2, True)
    assert one.cli("checkpoint", "workspace", f"{box}@c1", str(tmp_path / "other")).returncode == 2
    assert "KiB" in say(one, "checkpoint", "ls", box)
    kinds = {item["kind"] for item in json.loads(say(one, "df", "--json"))["items"]}
    assert {"box", "checkpoint", "layer", "tools"} <= kinds


def test_what_a_box_closes_is_counted(own_installation: Installation) -> None:
    """Its user cannot look there, and it takes their disk all the same; as a layer, too."""
    one = own_installation
    box = made(one)
    sh(one, box, "mkdir ~/hidden; head -c 20000000 /dev/zero > ~/hidden/file; chmod 0 ~/hidden")

    def taken(kind: str) -> int:
        items = json.loads(say(one, "df", "--json"))["items"]
        return int(max(item["own_bytes"] for item in items if item["kind"] == kind))

    assert taken("box") > 20_000_000
    say(one, "checkpoint", "create", box)
    assert taken("layer") > 20_000_000


def test_what_a_home_says_of_itself_hides_nothing_but_its_own(own_installation: Installation) -> None:
    """A plain home takes any mark that a layer could have; as a layer it shows what the kernel makes of them."""
    one = own_installation
    box = made(one)
    mark = "import os; [os.setxattr(p, k, v) for p, k, v in (%s)]"
    rows = (
        "(os.path.expanduser('~/d'), 'user.overlay.redirect', b'/../../../etc'),"
        "(os.path.expanduser('~/f'), 'user.overlay.metacopy', b''),"
        "(os.path.expanduser('~/f'), 'user.overlay.redirect', b'/etc/passwd'),"
        "(os.path.expanduser('~'), 'user.overlay.opaque', b'y')"
    )
    sh(one, box, "mkdir ~/d; echo in > ~/d/in; echo plain > ~/f")
    done = one.cli("exec", box, "python3", "-c", mark % rows)
    assert done.returncode == 0, done.stderr
    say(one, "checkpoint", "create", box)
    fork = say(one, "checkpoint", "fork", box).strip()
    for name in (box, fork):
        assert sh(one, name, "ls ~/d; cat ~/d/in") == "in\nin\n"
        assert sh(one, name, "cat ~/f 2>/dev/null || echo closed") in {"plain\n", "closed\n"}, "its own, or nothing"


def test_a_daemon_that_dies_right_after_the_freeze_leaves_a_box_that_goes_on(own_installation: Installation) -> None:
    """Between two of its steps the box stands on what was frozen and has no place for what comes next."""
    one = own_installation
    box = made(one)
    sh(one, box, "echo kept > ~/file")
    say(one, "checkpoint", "create", box, "first")
    place = one.state / "boxes" / json.loads(say(one, "inspect", "--json", box))[0]["id"] / "home"
    one.kill_daemon()
    place.rmdir()
    say(one, "checkpoint", "create", box, "second")
    assert place.is_dir()
    assert sh(one, box, "cat ~/file; rm ~/file") == "kept\n"
    say(one, "checkpoint", "restore", f"{box}@second")
    assert sh(one, box, "cat ~/file") == "kept\n"
