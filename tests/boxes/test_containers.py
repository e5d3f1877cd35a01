"""Boxes with a root of their own, by the command line: from an image file to the end of the box."""

from __future__ import annotations

import os
import shutil
import socket
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from tests.runtime.test_templates import saved
from tests.support import roots
from tests.support.installation import until

if TYPE_CHECKING:
    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine"),
]


def test_an_image_runs_keeps_what_changed_and_leaves_nothing(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    image_of(tmp_path, root)
    made = installation.cli("create", "-t", str(tmp_path / "image.tar"), "shell")
    assert made.returncode == 0, made.stderr
    name = made.stdout.decode().strip()
    first = installation.cli(
        "exec", name, "sh", "-c", "cat /etc/of-the-root; echo $A; echo kept > /etc/kept; rm /etc/of-the-root"
    )
    assert (first.stdout, first.stderr, first.returncode) == (b"below\n1\n", b"", 0)
    assert installation.cli("stop", name).returncode == 0
    again = installation.cli("exec", name, "sh", "-c", "cat /etc/kept; ls /etc/of-the-root 2>/dev/null; id -u")
    assert again.stdout == b"kept\n0\n"
    assert b"container" in installation.cli("inspect", name).stdout
    other = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", "cat", "/etc/of-the-root")
    assert other.stdout == b"below\n"
    assert installation.cli("rm", "-f", name).returncode == 0
    until(lambda: os.listdir(installation.state / "trash") == [], "what it wrote is gone")
    assert os.listdir(installation.state / "boxes") == []


def test_an_images_user_command_and_directory_are_those_of_its_box(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    run: dict[str, object] = {"User": "agent", "Entrypoint": ["sh", "-c"], "Cmd": ["id -u; pwd"], "WorkingDir": "/etc"}
    image_of(tmp_path, root, **run)
    me = b"0" if os.getuid() and roots.installed()[0] == "runc" and ids.of_caller(0).count == 1 else b"1000"
    whole = installation.cli("run", "-t", str(tmp_path / "image.tar"))
    assert (whole.stdout, whole.returncode) == (me + b"\n/etc\n", 0), whole.stderr
    look = ("stat", "-c", "%u", "/", "/run", "/etc/passwd", "/etc/of-the-root")
    owners = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", *look)
    assert owners.stdout.split() == ([b"0", b"0", b"0", b"33"] if ids.of_caller(0).count > 1 else [me] * 4)
    given = installation.cli("run", "-t", str(tmp_path / "image.tar"), "--", "sh", "-c", "id -u; pwd; echo > made")
    assert given.stdout == me + b"\n" + os.fsencode(installation.workspace) + b"\n"
    assert (installation.workspace / "made").stat().st_uid == os.getuid()
    name = installation.cli("create", "-t", str(tmp_path / "image.tar"), "shell").stdout.decode().strip()
    give = "id -u; echo > /etc/given; chown 33:34 /etc/given; stat -c %u:%g /etc/given"  # as packages do
    root_in_it = installation.cli("exec", "-u", "root", name, "sh", "-c", give)
    if ids.of_caller(0).count > 1:
        assert root_in_it.stdout == b"0\n33:34\n"
    else:
        assert b"this box has one user" in root_in_it.stderr
    nobody = installation.cli("exec", "-u", "somebody", name, "id", "-u")
    assert (nobody.stdout, nobody.returncode) == (b"", 2)
    assert b"no user 'somebody' is in its /etc/passwd" in nobody.stderr
    assert installation.cli("rm", "-f", name).returncode == 0


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    is_agents = info.name.startswith("./home/agent")
    info.uid = info.gid = 33 if info.name.endswith("of-the-root") else 1000 if is_agents else 0
    return info


def test_the_network_of_a_container_is_as_sealed_as_any(installation: Installation, root: Path) -> None:
    """The oracle is the host's: from it the same connection succeeds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        script = (
            "import socket\n"
            f"for place in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n"
            "    try:\n"
            "        s = socket.create_connection(place, timeout=5); s.send(b'x'); print(s.recv(1))\n"
            "    except OSError as error: print(type(error).__name__)\n"
        )
        done = installation.cli("run", "-t", str(root), "--", "python3", "-c", script)
    answers = done.stdout.split()
    assert len(answers) == 2, done.stderr
    assert answers[0] == b"ConnectionRefusedError"
    assert answers[1] in {b"ConnectionResetError", b"b''"}


def test_what_belongs_to_one_engine_alone_is_refused_with_the_others(installation: Installation, root: Path) -> None:
    for words in (["--engine", "container"], ["--engine", "process", "-t", str(root)], ["--runtime", "crun"]):
        done = installation.cli("run", *words, "--", "true")
        assert done.returncode == 2, done.stderr
        assert b"has a root of its own" in done.stderr


def test_a_container_outlives_its_daemon_and_the_next_one_seals_it_anew(
    own_installation: Installation, root: Path
) -> None:
    one = own_installation
    name = one.cli("create", "-t", str(root), "shell").stdout.decode().strip()
    assert one.cli("exec", name, "sh", "-c", "echo mine > /run/mark").returncode == 0
    one.kill_daemon()
    assert one.cli("exec", name, "cat", "/run/mark").stdout == b"mine\n", "it is the same box: /run is in memory"
    ask = "import socket; print(socket.gethostbyname('denied.example'))"
    assert one.cli("exec", name, "python3", "-c", ask).stdout.startswith(b"198.18."), "the gateway answers for names"


def test_a_template_that_a_box_can_write_to_is_refused(installation: Installation, tmp_path: Path) -> None:
    inside, beside = installation.workspace / "root", tmp_path / "beside/root"
    for place in (inside, beside):
        (place / "etc").mkdir(parents=True)
    mount = ("-v", f"{beside.parent}:/elsewhere")
    for template, words in ((inside, ()), (beside, mount)):
        done = installation.cli("create", "-t", str(template), *words, "shell")
        assert (done.returncode, b"could change it" in done.stderr) == (2, True), done.stderr
    assert installation.cli("create", "--review", "-t", str(inside), "shell").returncode == 0, "the oracle: it cannot"


def test_a_template_that_was_swapped_is_nobodys_root(installation: Installation, root: Path, tmp_path: Path) -> None:
    """As an agent would, from a box that came later and has the directory above."""
    above = tmp_path / "above"
    shutil.copytree(root, above / "root", symlinks=True)
    name = installation.cli("create", "-t", str(above / "root"), "shell").stdout.decode().strip()
    assert installation.cli("exec", name, "cat", "/etc/of-the-root").stdout == b"below\n"
    assert installation.cli("stop", name).returncode == 0
    secret = tmp_path / "secret/root/etc"
    secret.mkdir(parents=True)
    (secret / "of-the-root").write_text("of the host\n")
    above.rename(tmp_path / "aside")
    above.symlink_to(secret.parent.parent)
    for said in (b"behind a symbolic link", b"was replaced"):
        done = installation.cli("exec", name, "cat", "/etc/of-the-root")
        assert (done.returncode, done.stdout, said in done.stderr) == (125, b"", True), done.stderr
        if above.is_symlink():
            above.unlink()
            shutil.copytree(root, above / "root", symlinks=True)  # the same files, and not the same directory
    shutil.rmtree(above)
    (tmp_path / "aside").rename(above)
    assert installation.cli("exec", name, "cat", "/etc/of-the-root").stdout == b"below\n", "the oracle: it is back"


def test_an_images_home_and_path_are_the_boxs(installation: Installation, root: Path, tmp_path: Path) -> None:
    """What a Dockerfile put into the home of its user is there, is changed in the box alone, and stays changed."""
    home = tmp_path / "more/home/agent"
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/mine").write_text("#!/bin/sh\necho mine $A\n")
    (home / ".local/bin/mine").chmod(0o755)
    (home / "doomed").write_text("of the image\n")
    image = image_of(
        tmp_path, root, tmp_path / "more", User="agent", Env=["PATH=/home/agent/.local/bin:/usr/bin", "A=1"]
    )
    name = installation.cli("create", "-t", image, "shell").stdout.decode().strip()
    first = installation.cli(
        "exec", name, "sh", "-c", "mine; cd; cat doomed; rm doomed; echo 2 > own; echo $HOME $PATH"
    )
    assert first.stdout.splitlines() == [
        b"mine 1",
        b"of the image",
        b"/home/agent /run/paddock/bin:/home/agent/.local/bin:/usr/bin",
    ], first.stderr
    assert installation.cli("stop", name).returncode == 0
    again = installation.cli("exec", name, "sh", "-c", "cd; ls -A; cat own")
    assert again.stdout == b".local\nown\n2\n"
    other = installation.cli("run", "-t", image, "--", "sh", "-c", "cd; ls -A")
    assert other.stdout == b".local\ndoomed\n", "another box of the image has what the image has"


def test_an_images_user_reviews(installation: Installation, root: Path, tmp_path: Path) -> None:
    image = image_of(tmp_path, root, User="agent")
    name = installation.cli("create", "--review", "-t", image, "shell").stdout.decode().strip()
    assert installation.cli("exec", name, "sh", "-c", "echo new > made").returncode == 0
    assert not (installation.workspace / "made").exists()
    assert installation.cli("apply", "--all", name).returncode == 0
    assert (installation.workspace / "made").read_text() == "new\n"
    assert (installation.workspace / "made").stat().st_uid == os.getuid()


@pytest.mark.privileged  # to make a home; for others the keeper stands for the image's user
@pytest.mark.parametrize("mode", [(), ("--review",)], ids=["live", "review"])
def test_a_workspace_may_lie_in_the_home_of_the_images_user(
    installation: Installation, root: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory(dir="/home", prefix="paddock-test-") as home:
        workspace = Path(home, "deep/project")
        workspace.mkdir(parents=True)
        own = shutil.copytree(root, tmp_path / "own", symlinks=True)
        (own / "etc/passwd").write_text(f"agent:x:1000:1000::{home}:/bin/sh\n")
        image = image_of(tmp_path, own, User="agent")
        look = "echo 1 > made; echo 2 > ../beside; stat -c %u . .. ../beside"
        done = installation.cli("run", *mode, "-t", image, "--name", "inner", "--", "sh", "-c", look, cwd=workspace)
        assert (done.returncode, done.stdout) == (0, b"1000\n1000\n1000\n"), done.stderr
        assert (workspace / "made").exists() == (not mode)
        assert os.listdir(workspace.parent) == ["project"], "the home is the box's own"
        installation.cli("rm", "-f", "inner")


def image_of(place: Path, *trees: Path, **run: object) -> str:
    """An image file with these directories as its one layer."""
    layer = place / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        for tree in trees:
            archive.add(tree, ".", filter=_owned)
    saved(place / "image.tar", layer.read_bytes(), **run)
    return str(place / "image.tar")


def test_no_socket_of_a_container_engine_is_in_a_box(installation: Installation, root: Path, tmp_path: Path) -> None:
    """Nor is one asked for anything; the oracle is that somebody who asks is heard."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(f"{tmp_path}/docker.sock")
        engine.listen()
        where = f"unix://{tmp_path}/docker.sock"
        env = {"DOCKER_HOST": where, "CONTAINER_HOST": where}
        look = "find / -type s 2>/dev/null; env | grep _HOST; true"
        done = installation.cli("run", "-t", str(root), "--", "sh", "-c", look, env=env)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        engine.setblocking(False)
        with pytest.raises(BlockingIOError):
            engine.accept()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(f"{tmp_path}/docker.sock")
            engine.accept()[0].close()


def test_root_in_a_container_can_do_what_packages_do_and_it_stays(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    """A user of its own, files of theirs, a program that is somebody else's: dpkg, useradd and sudo do no more."""
    image = image_of(tmp_path, root, User="agent")
    name = installation.cli("create", "--review", "-t", image, "shell").stdout.decode().strip()
    install = """
        echo 'daemon:x:77:77::/srv:/bin/sh' >> /etc/passwd; mkdir /srv/own; chown 77:77 /srv/own
        cp /usr/bin/id /usr/bin/whose; chown 77 /usr/bin/whose; chmod 4755 /usr/bin/whose
    """
    done = installation.cli("exec", "-u", "0", name, "sh", "-ec", "mkdir -p /srv; " + install)
    if ids.of_caller(0).count == 1:
        assert done.returncode != 0, "a box of one id has no other users"
        return
    assert (done.returncode, done.stderr) == (0, b"")
    assert installation.cli("stop", name).returncode == 0
    look = "stat -c %U:%a /srv/own /usr/bin/whose; id -u; whose -u"
    again = installation.cli("exec", name, "sh", "-c", look)
    assert again.stdout.split() == [b"daemon:755", b"daemon:4755", b"1000", b"77"], again.stderr
    assert installation.cli("exec", "-u", "daemon", name, "sh", "-c", "id -u; touch /srv/own/x").stdout == b"77\n"


def test_an_agent_of_the_template_runs_and_one_that_is_nowhere_is_missed(
    installation: Installation, root: Path, tmp_path: Path
) -> None:
    own = tmp_path / "more/usr/bin/opencode"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho of the image: $OPENAI_API_KEY; for word; do echo $word; done\n")
    own.chmod(0o755)
    key = {"OPENAI_API_KEY": "sk-0123456789abcdefghijklmn", "PATH": "/usr/bin:/bin"}
    words = (
        "run",
        "-t",
        image_of(tmp_path, root, tmp_path / "more", User="agent"),
        "opencode",
        ".",
        "--",
        "count lambs",
    )
    for again in (words, ("run", "opencode", ".", "--", "count lambs")):
        done = installation.cli(*again, env=key)
        lines = done.stdout.decode().splitlines()
        assert lines[0].startswith("of the image: "), done.stderr
        assert lines[-1] == "count lambs"
        assert key["OPENAI_API_KEY"] not in done.stdout.decode(), "it has a placeholder"
    assert installation.cli("reset", "-f").returncode == 0
    without = installation.cli("run", "-t", str(root), "opencode", ".", "--", "count lambs", env=key)
    assert without.returncode == 127
    assert b"opencode: command not found" in without.stderr
    assert b"`paddock agent install NAME`" in without.stderr
